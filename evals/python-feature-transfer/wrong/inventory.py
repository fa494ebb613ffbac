"""How many of each thing a store has."""


class OutOfStock(Exception):
    """There are fewer than were asked for."""


class Inventory:
    """The things of one store."""

    def __init__(self):
        self._counts = {}

    def count(self, item):
        """How many there are."""
        return self._counts.get(item, 0)

    def items(self):
        """What there is at least one of, in alphabetical order."""
        return sorted(self._counts)

    def add(self, item, count):
        """Puts some in."""
        if count <= 0:
            raise ValueError("the count must be above 0")
        self._counts[item] = self.count(item) + count

    def remove(self, item, count):
        """Takes some out."""
        if count <= 0:
            raise ValueError("the count must be above 0")
        if count > self.count(item):
            raise OutOfStock(f"there are {self.count(item)} of {item}, not {count}")
        self._counts[item] -= count
        if self._counts[item] == 0:
            del self._counts[item]

    def transfer(self, other, orders):
        """Moves some of each item to another inventory."""
        for item, count in orders.items():
            self.remove(item, count)
            other.add(item, count)
