"""Typing a message: a line that can be edited, earlier ones that come back, and what is pasted stays one message."""

import os
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from paddock.cli import stdout

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class Interrupted(Exception):  # noqa: N818 - somebody wanted it
    """Ctrl-C, where a line is typed."""


class Editor:
    """What a terminal is typed at with. It keeps the lines of this program, and writes them nowhere."""

    def __init__(self, screen: TextIO) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.data_structures import Size
        from prompt_toolkit.input import create_input
        from prompt_toolkit.output.vt100 import Vt100_Output

        def size() -> Size:
            columns, rows = shutil.get_terminal_size()
            return Size(rows=rows, columns=columns)

        # It is not asked where its cursor stands: some never answer, and an answer that comes late is text that was typed.
        output = Vt100_Output(screen, size, term=os.environ.get("TERM"), enable_cpr=False)
        self._session: PromptSession[str] = PromptSession(
            input=create_input(sys.stdin),
            output=output,
            key_bindings=_keys(),
            interrupt_exception=Interrupted,
            enable_suspend=True,
        )

    async def line(self, prompt: str) -> str | None:
        """The next one; None for Ctrl-D."""
        try:
            line: str = await self._session.prompt_async(prompt, handle_sigint=False)
        except EOFError:
            return None
        return line


def editor() -> Editor | None:
    """One for this terminal, if that can move its cursor and the package is there."""
    screen = stdout.own()
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown") or find_spec("prompt_toolkit") is None:
        return None
    return Editor(screen) if screen is not None and screen.isatty() else None


def _keys() -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    keys.add("escape", "enter")(_another_line)
    return keys


def _another_line(event: "KeyPressEvent") -> None:
    """Alt-Enter: of the same message."""
    event.current_buffer.insert_text("\n")
