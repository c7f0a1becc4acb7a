"""Tools of this assistant. They run on the host; the type hints and docstrings are what the model is told."""

from paddock import ToolContext


def next_version(version: str, context: ToolContext) -> str:
    """The version that comes after one such as 1.4.2."""
    major, minor, patch = version.split(".")
    return f"{major}.{minor}.{int(patch) + 1} (asked by {context.user})"
