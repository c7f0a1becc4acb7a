"""`sandbox_tools`: the tools of one sandbox, with what is told and asked on every way to them."""

from paddock.errors import ConfigError
from paddock.sandbox import Sandbox
from paddock.tools.commands import SECONDS, CommandTools
from paddock.tools.files import FileTools
from paddock.tools.repositories import GitTools
from paddock.tools.rules import ToolRules
from paddock.tools.searching import SearchTools
from paddock.tools.tools import Tools
from paddock.tools.wrapping import asking, audited, unless_blocked

MAX_CHARS = 30_000


def sandbox_tools(
    sb: Sandbox,
    *,
    git: bool = False,
    rules: ToolRules | None = None,
    timeout: int = SECONDS,
    max_chars: int = MAX_CHARS,
) -> Tools:
    """What a model can do in this sandbox: read, change and find files, and run commands.

    `git` adds pulling and staging; nothing pushes. `rules` say what is asked about first, and without them nothing is; what
    `approve=` of the sandbox blocks is blocked in any case. A command has `timeout` seconds unless the model gives others; of
    a result the model gets about `max_chars` characters. Everything is recorded as begun by a model.
    """
    if not isinstance(sb, Sandbox):
        raise ConfigError("Tools are asynchronous, and need a sandbox that is.", hint="Give a paddock.Sandbox.")
    for name, value in (("timeout", timeout), ("max_chars", max_chars)):
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name}={value!r} is not a number above 0.", hint="Give 1 or more.")
    found = Tools(
        [
            *FileTools(sb, max_chars).tools(),
            *SearchTools(sb, max_chars).tools(),
            *CommandTools(sb, max_chars, timeout).tools(),
            *(GitTools(sb).tools() if git else ()),
        ]
    )
    if rules is not None:
        found = found.wrapped(asking(sb, rules))
    return found.wrapped(unless_blocked(sb)).wrapped(audited(sb))
