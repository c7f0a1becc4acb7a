"""Settings, and where each came from: an argument beats a variable, that beats a file, and that beats the default.

The user's own file may set everything. The one in the current directory came with a project, perhaps a stranger's, and
sets only what can neither weaken a sandbox nor move Paddock's own files.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

from paddock.documents import near, read_text
from paddock.errors import ConfigError, visible
from paddock.types.limits import parse_size
from paddock.types.record import Record
from paddock.types.times import parse_time

T = TypeVar("T")

FILE = "paddock.toml"
ARGUMENT = "argument"
DEFAULT = "default"


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
IMAGE = "python:3.12-slim"
POLICY: str = _Text("oneshot")
MAX_TOTAL: int = _Number(100)
IDLE_TIMEOUT: float | None = _Number(30 * 60)
STOP_AFTER: float | None = _Number(2 * 3600)
LIFETIME: float | None = _Number(7 * 86400)
ONESHOT_LIFETIME: float | None = _Number(8 * 3600)
RETENTION: float | None = _Number(7 * 86400)
SNAPSHOT_RETENTION: float | None = _Number(30 * 86400)
SWEEP_EVERY: float | None = _Number(30)
CLEAN_AT: str | None = _Text("03:00")
GITHUB_API = "https://api.github.com"
POLICIES = ("oneshot", "session", "longrunning", "persistent")


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


class _Known:
    """The settings that were looked up in one block."""

    def __init__(self) -> None:
        self.found: dict[str, Setting] = {}
        self.followed: dict[Callable[[], Any], Any] = {}
        self.over = False

    @cached_property
    def files(self) -> "tuple[File, ...]":
        """As they were when the first setting was looked up."""
        return files()


_known: ContextVar[_Known | None] = ContextVar("settings", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """A block in which each setting is looked up once: what is made in it is made with one state of them all."""
    known = _Known()
    token = _known.set(known)
    try:
        yield
    finally:
        known.over = True  # callbacks that the block left behind go on in its context
        _known.reset(token)


def once(work: Callable[[], T]) -> Callable[[], T]:
    """For what follows from settings: in such a block it is found out once, too."""

    @wraps(work)
    def known_or_found() -> T:
        known = _known.get()
        if known is None or known.over:
            return work()
        if work not in known.followed:
            known.followed[work] = work()
        found: T = known.followed[work]
        return found

    return known_or_found


def setting(name: str, given: Any = _NOT_GIVEN) -> Setting:
    """What holds for one setting; `given` is the argument, which counts unless it is a default of this module."""
    if type(given) not in (_Text, _Number):
        return Setting(name, given, ARGUMENT)
    known = _known.get()
    if known is None or known.over:
        return _looked_up(name)
    if name not in known.found:
        known.found[name] = _looked_up(name, known)
    return known.found[name]


def _looked_up(name: str, known: _Known | None = None) -> Setting:
    option = OPTIONS[name]
    text = os.environ.get(option.variable)
    if text:
        return Setting(name, option.parse(text, option.variable), option.variable)
    for file in files() if known is None else known.files:
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

    text = read_text(path)
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {visible(str(error))}.", hint="Correct the file, or remove it.") from None
    return File(path, {name: _value(path, text, name, value, project) for name, value in found.items()})


def _value(path: str, text: str, name: str, value: Any, project: bool) -> Any:
    where = f"{path}{_line(text, name)}"
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigError(
            f"{where}: there is no setting {name!r}.{near(name, OPTIONS)}", hint=f"Known: {', '.join(OPTIONS)}."
        )
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


def place(source: str, table: str, name: str, key: str | None = None) -> str:
    """Where a key of one of the tables in a file stands, or where that table begins, as text; a variable has no lines."""
    if not os.path.isabs(source):
        return source
    text = read_text(source)
    header = "[ \\t]*[.][ \\t]*".join(rf"[\"']?{re.escape(one)}[\"']?" for one in (table, name))
    begins = re.search(rf"^[ \t]*\[[ \t]*{header}[ \t]*[].]", text, re.MULTILINE)
    if begins is None:
        return f"{source}{_line(text, table)}"
    above = text[: begins.start()]
    below = _line(text[begins.start() :], key, above.count("\n")) if key else ""
    return f"{source}{below or f', line {above.count(chr(10)) + 1}'}"


def _line(text: str, name: str, before: int = 0) -> str:
    found = re.search(rf"^[ \t]*[\[\"']*{re.escape(name)}[\"']?[ \t]*[=.\]]", text, re.MULTILINE)
    return f", line {before + text.count(chr(10), 0, found.start()) + 1}" if found else ""


# What values are allowed


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}={value!r} is not the name of a backend.", hint="Such as 'auto'.")
    return value


def _image(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value or value != value.strip() or value.startswith("-"):
        raise ConfigError(f"{where}={value!r} is not the name of an image.", hint=f"Such as {IMAGE!r}.")
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


def _policy(value: Any, where: str) -> str:
    if value not in POLICIES:
        raise ConfigError(f"{where}={value!r} is not a policy.", hint=f"Give one of: {', '.join(POLICIES)}.")
    return str(value)


def _count(value: Any, where: str) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 < number < 1 << 31:
        raise ConfigError(f"{where}={repr(value)[:40]} is not a number of sandboxes.", hint="Give 1 or more.")
    return number


def _count_or_none(value: Any, where: str) -> int | None:
    return None if value == "none" else _count(value, where)


def _entries(value: Any, where: str) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 < number < 1 << 31:
        raise ConfigError(f"{where}={repr(value)[:40]} is not a number of things.", hint="Give 1 or more.")
    return number


def _entries_or_none(value: Any, where: str) -> int | None:
    return None if value == "none" else _entries(value, where)


def _size_or_none(value: Any, where: str) -> int | None:
    return None if value == "none" else parse_size(value, where)


def _words(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or set(value) & set("<>"):
        raise ConfigError(f"{where}={value!r} cannot be in a commit.", hint="Give plain text without '<' and '>'.")
    return value.strip()


def _api(value: Any, where: str) -> str:
    text = value.rstrip("/") if isinstance(value, str) else ""
    if re.fullmatch(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._-]+)*", text):
        return text
    if re.fullmatch(r"http://(127\.0\.0\.1|localhost)(:[0-9]{1,5})?(/[A-Za-z0-9._-]+)*", text):
        return text
    raise ConfigError(
        f"{where}={value!r} is not the address of an API.", hint=f"Give an https URL such as '{GITHUB_API}'."
    )


def _time_of_day(value: Any, where: str) -> str | None:
    if value == "none":
        return None
    if not isinstance(value, str) or not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", value):
        raise ConfigError(
            f"{where}={value!r} is not a time of day.", hint="Give hours and minutes such as '03:00', or 'none'."
        )
    return value


def _tables(value: Any, where: str) -> Mapping[str, Mapping[str, Any]]:
    """Tables by name; a variable has them as JSON. What is in them is checked by whoever uses them."""
    if isinstance(value, str):
        import json

        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        name = where.rpartition(" ")[2].removeprefix("PADDOCK_").lower()
        raise ConfigError(f"{where} is not a set of tables.", hint=f"Such as [{name}.NAME] in a file, or JSON.")
    return value


def _whose(value: Any, where: str) -> Mapping[str, Mapping[str, Any]]:
    tables = _tables(value, where)
    if unknown := sorted(set(tables) - {"sandbox", "user"}):
        raise ConfigError(f"{where} has {unknown[0]!r}.", hint="Known: sandbox, user.")
    return tables


def _state() -> str:
    base = xdg_base("XDG_STATE_HOME", ".local/state")
    if base is None:
        raise ConfigError("There is no home directory to keep state in.", hint="Set HOME or PADDOCK_STATE.")
    return os.path.join(base, "paddock")


def _runtime() -> str:
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(base, "paddock") if os.path.isabs(base) else os.path.join(setting("state").value, "run")


def _time(name: str, meaning: str, default: Any) -> Option:
    return Option(name, meaning, parse_time, lambda: int(default))


OPTIONS = {
    option.name: option
    for option in (
        Option("backend", "where sandboxes run when nobody says", _name, lambda: str(BACKEND)),
        Option("image", "what containers are made from when nobody says", _image, lambda: IMAGE),
        Option("timeout", "seconds for one command", parse_time, lambda: int(TIMEOUT), project=3600),
        Option("max_output", "bytes kept of each stream", parse_size, lambda: int(MAX_OUTPUT), project=64 << 20),
        Option("state", "private files of sandboxes", _absolute, _state),
        Option("runtime", "sockets", _absolute, _runtime),
        Option("audit", "the audit log", _log, lambda: os.path.join(setting("state").value, "audit.jsonl")),
        Option("git_name", "whose commits they are", _words, lambda: "Paddock"),
        Option("git_email", "the address in commits", _words, lambda: "paddock@localhost"),
        Option("github_api", "where GitHub's API is", _api, lambda: GITHUB_API),
        Option("connectors", "ways to models, by name", _tables, dict),
        Option("allowances", "how much of models a sandbox or a user may use", _whose, dict),
        Option("manager_policy", "how long a manager keeps a sandbox", _policy, lambda: str(POLICY)),
        Option("manager_max", "sandboxes of a manager", _count, lambda: int(MAX_TOTAL)),
        Option("manager_max_per_user", "sandboxes of one user", _count_or_none, lambda: None),
        _time("idle_timeout", "a session that nobody uses is removed", IDLE_TIMEOUT),
        _time("manager_stop_after", "a long-running one that nobody uses is stopped", STOP_AFTER),
        _time("manager_lifetime", "a long-running one is removed", LIFETIME),
        _time("manager_oneshot_lifetime", "the most that a request may take", ONESHOT_LIFETIME),
        _time("manager_retention", "a workspace that nobody used is removed", RETENTION),
        _time("manager_sweep_every", "between two looks of a manager", SWEEP_EVERY),
        Option("manager_clean_at", "when workspaces are cleaned", _time_of_day, lambda: str(CLEAN_AT)),
        Option("manager_quota", "bytes in a workspace", _size_or_none, lambda: None),
        _time("snapshot_retention", "a snapshot without a name is removed", SNAPSHOT_RETENTION),
        Option("snapshots_kept", "snapshots of one sandbox without a name", _entries_or_none, lambda: 100),
        Option("snapshot_entries", "files and directories in a snapshot", _entries, lambda: 1_000_000),
        Option("snapshot_size", "bytes in a snapshot", parse_size, lambda: 16 << 30),
    )
}
