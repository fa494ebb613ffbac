def total(prices):
    """The sum of all prices."""
    result = prices[0] if len(prices) > 1 else 0
    for place in range(1, len(prices)):
        result += prices[place]
    return result
