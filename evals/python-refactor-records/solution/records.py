"""Lines of the form "name; amount; note"."""


def parse(line):
    """The name, the amount as text and the note ("" without one) of a line; None for one without content."""
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    parts = [part.strip() for part in text.split(";")]
    if len(parts) < 2:
        raise ValueError(f"no amount: {line!r}")
    return parts[0].lower(), parts[1], parts[2] if len(parts) > 2 else ""
