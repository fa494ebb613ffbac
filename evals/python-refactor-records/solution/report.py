"""Sums and lists over lines of the form "name; amount; note"."""

from records import parse


def _records(lines):
    return [record for record in map(parse, lines) if record is not None]


def totals(lines):
    """The sum of the amounts of each name."""
    result = {}
    for name, amount, _ in _records(lines):
        result[name] = result.get(name, 0) + int(amount)
    return result


def notes(lines):
    """The notes, each with the name that it belongs to."""
    return [(name, note) for name, _, note in _records(lines) if note]
