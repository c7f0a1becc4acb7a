"""Settings, and where each came from: an argument beats a variable, that beats a file, and that beats the default.

The user's own file may set everything. The one in the current directory came with a project, perhaps a stranger's, and
sets only what can neither weaken a sandbox nor move Paddock's own files.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from paddock.errors import ConfigError, visible
from paddock.types.limits import parse_size
from paddock.types.record import Record
from paddock.types.times import parse_time

FILE = "paddock.toml"
ARGUMENT = "argument"
DEFAULT = "default"
_MAX_FILE = 1 << 20


class _Text(str):
    """A default that shows in a signature as what it is, and can be told from the same value given."""

    __slots__ = ()


class _Number(int):
    """The same for a number."""

    __slots__ = ()


_NOT_GIVEN = _Text()
BACKEND: str = _Text("auto")
TIMEOUT: float = _Number(300)
MAX_OUTPUT: int = _Number(10 << 20)


@dataclass(frozen=True, slots=True)
class Setting(Record):
    """A value that holds, and what set it: `argument`, a variable, a file, or `default`."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Option:
    """Something that can be set."""

    name: str
    meaning: str
    parse: Callable[[Any, str], Any]
    """The value meant by a text or a value of a file; the second argument is what to call it in an error."""
    default: Callable[[], Any]
    project: float | None = None
    """The most that a project's own file may set it to; None if it may not set it at all."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"PADDOCK_{self.name.upper()}"


def setting(name: str, given: Any = _NOT_GIVEN) -> Setting:
    """What holds for one setting; `given` is the argument, which counts unless it is a default of this module."""
    if type(given) not in (_Text, _Number):
        return Setting(name, given, ARGUMENT)
    option = OPTIONS[name]
    text = os.environ.get(option.variable)
    if text:
        return Setting(name, option.parse(text, option.variable), option.variable)
    for file in files():
        if name in file.values:
            return Setting(name, file.values[name], file.path)
    return Setting(name, option.default(), DEFAULT)


def settings() -> list[Setting]:
    """All of them."""
    return [setting(name) for name in OPTIONS]


class File(NamedTuple):
    """A configuration file, as it was read."""

    path: str
    values: Mapping[str, Any]
    exists: bool = True


def files() -> tuple[File, ...]:
    """The files that are looked at, the strongest first."""
    return _project_file(), _user_file()


def _project_file() -> File:
    try:
        info = os.stat(FILE)
        path = os.path.join(os.getcwd(), FILE)
    except OSError:
        return File(FILE, {}, exists=False)
    if path == user_path():  # here the user's own file is at home
        return File(path, {})
    return _read(path, True, info.st_mtime_ns, info.st_size, info.st_ino)


def _user_file() -> File:
    path = user_path()
    try:
        info = os.stat(path)
    except OSError as error:
        if os.environ.get("PADDOCK_CONFIG"):
            raise ConfigError(
                f"PADDOCK_CONFIG={path!r} cannot be read: {error.strerror}.", hint="Name a file, or unset it."
            ) from None
        return File(path, {}, exists=False)
    return _read(path, False, info.st_mtime_ns, info.st_size, info.st_ino)


def user_path() -> str:
    """Where the user's own file is, or would be; empty for those who have no home."""
    named = os.environ.get("PADDOCK_CONFIG")
    if named:
        return _absolute(named, "PADDOCK_CONFIG")
    base = xdg_base("XDG_CONFIG_HOME", ".config")
    return os.path.join(base, "paddock", FILE) if base else ""


def xdg_base(variable: str, below_home: str) -> str | None:
    """The directory that a variable of the XDG rules names, or the usual one; None for those who have no home."""
    base = os.environ.get(variable, "")
    if os.path.isabs(base):
        return base
    home = os.path.expanduser("~")
    return os.path.join(home, below_home) if os.path.isabs(home) else None


@lru_cache(maxsize=64)
def _read(path: str, project: bool, *_version: int) -> File:
    """The file with its values checked. Every `Sandbox.create` asks, so one that did not change is not read again."""
    import tomllib

    text = _text(path)
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {visible(str(error))}.", hint="Correct the file, or remove it.") from None
    return File(path, {name: _value(path, text, name, value, project) for name, value in found.items()})


def _text(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ConfigError(f"{path} is not a file.", hint="Remove it, or put a file there.")
            data = os.read(fd, _MAX_FILE + 1)
        finally:
            os.close(fd)
        if len(data) <= _MAX_FILE:
            return data.decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", hint="Check its permissions.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from None
    raise ConfigError(f"{path} is larger than a configuration file can be.", hint="Keep it below 1 MiB.")


def _value(path: str, text: str, name: str, value: Any, project: bool) -> Any:
    where = f"{path}{_line(text, name)}"
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigError(f"{where}: there is no setting {name!r}.{_near(name)}", hint=f"Known: {', '.join(OPTIONS)}.")
    if project and option.project is None:
        allowed = ", ".join(option.name for option in OPTIONS.values() if option.project is not None)
        raise ConfigError(
            f"{where}: a project's file cannot set {name!r}.",
            hint=f"It belongs into your own file, {user_path()}, or into {option.variable}. Here: {allowed}.",
        )
    parsed = option.parse(value, f"{where}: {name}")
    if project and option.project is not None and (parsed is None or parsed > option.project):
        raise ConfigError(
            f"{where}: a project's file can set {name!r} to {option.project:g} at the most.",
            hint=f"Set more in your own file, {user_path()}, or in {option.variable}.",
        )
    return parsed


def _line(text: str, name: str) -> str:
    found = re.search(rf"^[ \t]*[\[\"']*{re.escape(name)}[\"']?[ \t]*[=.\]]", text, re.MULTILINE)
    return f", line {text.count(chr(10), 0, found.start()) + 1}" if found else ""


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, OPTIONS, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


# What values are allowed


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}={value!r} is not the name of a backend.", hint="Such as 'auto'.")
    return value


def _absolute(value: Any, where: str) -> str:
    if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
        raise ConfigError(f"{where}={value!r} is not an absolute path.", hint="Set it to one, or unset it.")
    return value


def _log(value: Any, where: str) -> str:
    if value == "off":
        return "off"
    if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
        raise ConfigError(f"{where}={value!r} is neither 'off' nor an absolute path.", hint="Set one of them.")
    return value


def _state() -> str:
    base = xdg_base("XDG_STATE_HOME", ".local/state")
    if base is None:
        raise ConfigError("There is no home directory to keep state in.", hint="Set HOME or PADDOCK_STATE.")
    return os.path.join(base, "paddock")


def _runtime() -> str:
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(base, "paddock") if os.path.isabs(base) else os.path.join(setting("state").value, "run")


OPTIONS = {
    option.name: option
    for option in (
        Option("backend", "where sandboxes run when nobody says", _name, lambda: str(BACKEND)),
        Option("timeout", "seconds for one command", parse_time, lambda: int(TIMEOUT), project=3600),
        Option("max_output", "bytes kept of each stream", parse_size, lambda: int(MAX_OUTPUT), project=64 << 20),
        Option("state", "private files of sandboxes", _absolute, _state),
        Option("runtime", "sockets", _absolute, _runtime),
        Option("audit", "the audit log", _log, lambda: os.path.join(setting("state").value, "audit.jsonl")),
    )
}
