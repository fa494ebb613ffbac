def g(a: int) -> int:
    return a
