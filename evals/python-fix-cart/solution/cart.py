def total(prices):
    """The sum of all prices."""
    return sum(prices)
