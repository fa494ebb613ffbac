def total(prices):
    return sum(prices[1:])


def parse(text):
    if not text.isdigit():
        raise ValueError(f"{text!r} is no number")
    return int(text)


class Basket:
    def __init__(self, items):
        self.items = items

    def cheapest(self):
        return min(self.items)
