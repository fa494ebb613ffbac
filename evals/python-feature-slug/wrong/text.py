def shout(text):
    """The text in upper case, with an exclamation mark."""
    return text.upper() + "!"


def slugify(title):
    """The title as a part of an address."""
    return title.lower().replace(" ", "-")
