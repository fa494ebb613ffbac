import os


def total(prices: list[int]) -> str:
    return sum(prices)
