"""Small stand-ins for the programs that the contract runs, for backends whose commands are Python functions."""

import asyncio
from collections.abc import Mapping

from paddock.backends.memory import Call, CommandFunction


def echo(call: Call) -> None:
    """Print the arguments."""
    call.print(*call.argv[1:])


def cat(call: Call) -> bytes:
    """Print files, or standard input."""
    if len(call.argv) == 1:
        return call.stdin.read()
    return b"".join(call.files.read_bytes(path) for path in call.argv[1:])


def env(call: Call) -> None:
    """Print the environment."""
    for name, value in call.env.items():
        call.print(f"{name}={value}")


def pwd(call: Call) -> str:
    """Print the working directory."""
    return call.cwd + "\n"


async def sleep(call: Call) -> None:
    """Wait."""
    await asyncio.sleep(float(call.argv[1]))


def touch(call: Call) -> None:
    """Make an empty file."""
    for path in call.argv[1:]:
        call.files.write(path, b"")


def false(call: Call) -> int:
    """Fail."""
    call.print("no", stream="stderr")
    return 1


COMMANDS: Mapping[str, CommandFunction] = {
    "cat": cat,
    "echo": echo,
    "env": env,
    "false": false,
    "pwd": pwd,
    "sleep": sleep,
    "touch": touch,
}
"""`Memory(commands=COMMANDS)` passes the whole contract."""
