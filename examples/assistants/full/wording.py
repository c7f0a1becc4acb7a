"""Beside the hooks, for them alone."""


def shouted(text: str) -> str:
    return text.upper()
