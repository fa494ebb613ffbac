import os
import sys

def f(a: int) -> str:
    x = 1
    return a

f("a")
y: int = missing
