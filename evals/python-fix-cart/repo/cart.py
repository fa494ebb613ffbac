def total(prices):
    """The sum of all prices."""
    result = 0
    for place in range(1, len(prices)):
        result += prices[place]
    return result
