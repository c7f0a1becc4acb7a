"""The program that runs inside: three files of this package as one text, which no file in the sandbox has to hold."""

from functools import cache
from importlib import resources

_FILES = ("wire.py", "jupyter.py", "builtin.py")
_MAIN = """
def main(kind):
    if kind == "jupyter" and not has_jupyter():
        sys.exit("There is no Jupyter. " + INSTALL)
    channel = Channel()
    if kind == "jupyter" or (kind == "auto" and has_jupyter()):
        serve_jupyter(channel)
    else:
        serve_builtin(channel)

main(KIND)
"""
BOOT = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "exec(compile(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())), '<paddock>', 'exec'), "
    "{'__name__': 'paddock_inside', 'KIND': sys.argv[1]})"
)
"""Reads the rest of itself from standard input. No file of the workspace takes the place of a module that it needs: what it
imports is looked for elsewhere, and the working directory is back before code is run."""


@cache
def program() -> bytes:
    """What `BOOT` is given: how long the text is, and the text."""
    place = resources.files(__package__)
    lines = [line for name in _FILES for line in place.joinpath(name).read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if not line.startswith("from paddock.")]  # it is all one file there
    text = ("\n".join(["from __future__ import annotations", *kept]) + _MAIN).encode()
    return b"%d\n%s" % (len(text), text)
