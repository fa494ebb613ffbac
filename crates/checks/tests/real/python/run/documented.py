"""A module whose documentation is wrong."""

import doctest


def add(a, b):
    r"""Adds.

    >>> add(1, 2)
    4
    >>> add(2, 2)
    4
    >>> add(1)
    Traceback (most recent call last):
    TypeError: no second price
    >>> add(None, 1)
    1
    >>> print("a\nb")
    a
    c
    """
    return a + b


class Till:
    def count(self):
        """
        >>> Till().count()
        5
        >>> nothing = Till().count()
        6
        """
        return 6


if __name__ == "__main__":
    doctest.testmod()
