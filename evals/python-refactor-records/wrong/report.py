"""Sums and lists over lines of the form "name; amount; note"."""

from records import parse


def totals(lines):
    """The sum of the amounts of each name."""
    result = {}
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parts = [part.strip() for part in text.split(";")]
        if len(parts) < 2:
            raise ValueError(f"no amount: {line!r}")
        name = parts[0].lower()
        amount = int(parts[1])
        result[name] = result.get(name, 0) + amount
    return result


def notes(lines):
    """The notes, each with the name that it belongs to."""
    parsed = [parse(line) for line in lines]
    return [(record[0], record[2]) for record in parsed if record and record[2]]
