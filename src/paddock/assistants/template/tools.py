"""Tools for the model. Type hints and docstrings are what it is told of them."""


def word_count(text: str, unique: bool = False) -> int:
    """How many words a text has; with unique, how many different ones."""
    words = text.split()
    return len(set(words) if unique else words)
