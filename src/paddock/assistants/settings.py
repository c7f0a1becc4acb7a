"""What an assistant.yml says about the sandbox, what is done in it, and what may be sent along."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock import registry
from paddock.documents import Value
from paddock.errors import ConfigError
from paddock.runners import Options, agents
from paddock.runners.registry import load
from paddock.sandbox.create import check_reach
from paddock.types.limits import Limits, parse_size
from paddock.types.network import Network, Secret
from paddock.types.record import Record
from paddock.types.times import parse_time

Words = str | tuple[str, ...]
_ALIASES = (("agent", "command"), ("memory", "max_memory"), ("cpu", "max_cpu"))
_KINDS = ("file", "copy", "exec")
_FITTING = {
    "file": {"file", "content", "once", "keep", "ignore_error"},
    "copy": {"copy", "to", "once", "keep", "ignore_error"},
    "exec": {"exec", "once", "background", "ignore_error", "timeout"},
}
_TIMELESS = {"oneshot": ("idle_timeout",), "persistent": ("idle_timeout", "lifetime")}
_SECONDS = 300.0
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One step of what is done inside before a request."""

    file: str | None = None
    content: str = ""
    copy: str | None = None
    """Below the folder of the assistant."""
    to: str = ""
    command: Words | None = None
    once: bool = False
    keep: bool = False
    background: bool = False
    ignore_error: bool = False
    timeout: float = _SECONDS

    @property
    def words(self) -> str:
        """For people."""
        if self.file is not None:
            return f"write {self.file}"
        if self.copy is not None:
            return f"copy {self.copy}"
        return self.command if isinstance(self.command, str) else shlex.join(self.command or ())


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The sandbox block."""

    agent: str = ""
    backend: str | None = None
    image: str | None = None
    limits: Limits | None = None
    policy: str | None = None
    idle_timeout: float | None = None
    lifetime: float | None = None
    workspace: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    options: Options = Options()  # noqa: RUF009 - frozen
    prepare: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class AttachmentRules(Record):
    """What may be sent along with the messages of one request."""

    max: int = 4
    max_bytes: int = 10 * MB
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


def sandbox(block: Value | None, folder: Path, model: Value | None) -> SandboxSettings:
    """The block as it is used; none at all is one without an agent."""
    if block is None or block.content is None:
        return SandboxSettings(options=_options({}, model))
    found = _without_aliases(block)
    _check_times(found)
    agent = _agent(found.get("agent"))
    return SandboxSettings(
        agent=agent,
        backend=_backend(found.get("backend")),
        image=_plain(found, "image"),
        limits=_limits(found),
        policy=_plain(found, "policy"),
        idle_timeout=_seconds(found, "idle_timeout"),
        lifetime=_seconds(found, "lifetime"),
        workspace=_plain(found, "workspace"),
        env=_plain(found, "env") or {},
        options=_options(found, model, agent),
        prepare=tuple(_step(step, folder) for step in found["prepare"].items()) if "prepare" in found else (),
    )


def attachments(block: Value | None) -> AttachmentRules:
    """The rules, with what they are unless they are given."""
    if block is None:
        return AttachmentRules()
    given = block.plain()
    for name in ("allowed", "denied"):
        given[name] = tuple(_suffix(text) for text in given.get(name, ()))
    if "max_bytes" in given:
        given["max_bytes"] = parse_size(given["max_bytes"])
    return AttachmentRules(**given)


def network(value: Value | None) -> Network:
    """What the sandbox may reach."""
    if value is None or value.content == "none":
        return Network.none()
    if value.content == "open":
        return Network.open()
    try:
        return Network.allow(*value.plain())
    except ConfigError as error:
        raise value.error(error.message, error.hint) from None


def secrets(value: Value | None, network: Network) -> tuple[Secret, ...]:
    """By name, with references to where they are: their values are looked up when a sandbox is made."""
    return tuple(_secret(name, one, network) for name, one in (value.mapping() if value else {}).items())


def _secret(name: str, value: Value, network: Network) -> Secret:
    try:
        made = Secret(name, **{"value": f"$ENV.{name}", **value.plain()})
    except ConfigError as error:
        raise value.error(error.message, error.hint) from None
    try:
        check_reach(network, made)
    except ConfigError as error:
        raise value.error(error.message, "Name that host in network:, too.") from None
    return made


def _without_aliases(block: Value) -> dict[str, Value]:
    found = dict(block.mapping())
    for name, alias in _ALIASES:
        if alias in found:
            if name in found:
                raise found[alias].error(f"it is another word for {name}, which is there too.", "Keep one of them.")
            found[name] = found.pop(alias)
    return found


def _check_times(found: Mapping[str, Value]) -> None:
    """What the manager would refuse, each time somebody asks."""
    policy = _plain(found, "policy")
    for name in _TIMELESS.get(policy, ()):
        if name in found:
            raise found[name].error(f"a sandbox of the policy {policy} has no {name}.", "Remove it.")


def _agent(value: Value | None) -> str:
    name = value.content if value is not None else ""
    if value is None or not isinstance(name, str) or not name.strip():
        return ""
    if name not in agents():
        raise value.error(f"there is no agent '{name}'.", f"Known: {', '.join(agents())}.")
    return name


def _backend(value: Value | None) -> str | None:
    known = ("auto", *registry.names(built=True))
    if value is not None and value.content not in known:
        raise value.error(f"there is no backend '{value.content}'.", f"Known: {', '.join(known)}.")
    return None if value is None else str(value.content)


def inside(folder: Path, name: str) -> Path | None:
    """A file or folder of the assistant; None if there is none, or it is elsewhere."""
    try:
        found = (folder / name).resolve()
        return found if found.is_relative_to(folder.resolve()) and found.exists() else None
    except OSError:  # a name that is too long, for one
        return None


def _limits(found: Mapping[str, Value]) -> Limits | None:
    given = {name: found[name] for name in ("memory", "cpu", "pids", "best_effort") if name in found}
    try:
        return Limits(**{name: value.plain() for name, value in given.items()}) if given else None
    except ConfigError as error:
        raise _blamed(error, given) from None


def _options(found: Mapping[str, Value], model: Value | None, agent: str = "") -> Options:
    """What is chosen for the agent, which has to have a word for it."""
    given = {} if model is None else {"model": model}
    given |= found["arguments"].mapping() if "arguments" in found else {}
    plain = {name: value.plain() for name, value in given.items()}
    if "timeout" in found:
        given["timeout"] = found["timeout"]
        plain["timeout"] = _seconds(found, "timeout")
    try:
        made = Options.of(plain)
        if agent:
            load(agent).check(made)
        return made
    except ConfigError as error:
        raise _blamed(error, given, found.get("arguments")) from None


def _blamed(error: ConfigError, given: Mapping[str, Value], otherwise: Value | None = None) -> ConfigError:
    """The same error, at the one of these that it names: at its beginning, or anywhere."""
    for place in (r"\W?(\w+\.)?", r".*\b"):
        for name, value in given.items():
            if re.match(rf"{place}{re.escape(name)}\b", error.message):
                return value.error(error.message, error.hint)
    return error if otherwise is None else otherwise.error(error.message, error.hint)


def _step(value: Value, folder: Path) -> Step:
    found = value.mapping()
    kinds = [kind for kind in _KINDS if kind in found]
    if len(kinds) != 1:
        raise value.error("a step is one of file, copy and exec.", "Make several steps of it.")
    for name, inner in found.items():
        if name not in _FITTING[kinds[0]]:
            raise inner.error(f"a step with {kinds[0]} has no {name}.", "Remove it.")
    if "copy" in found and "to" not in found:
        raise value.error("it does not say where to.", "Add a line `to: …`.")
    given = value.plain()
    if "copy" in given and inside(folder, given["copy"]) is None:
        raise found["copy"].error("it is not in the folder of the assistant.", "Name a file or folder there.")
    if given.get("background") and given.get("once"):
        raise found["once"].error("a step in the background is started once for each sandbox.", "Remove it.")
    if "exec" in given:
        words = given.pop("exec")
        given["command"] = tuple(words) if isinstance(words, list) else words
    if "timeout" in given:
        given["timeout"] = _seconds(found, "timeout")
    return Step(**given)


def _seconds(found: Mapping[str, Value], name: str) -> float | None:
    return parse_time(found[name].plain(), name) if name in found else None


def _plain(found: Mapping[str, Value], name: str) -> Any:
    return found[name].plain() if name in found else None


def _suffix(text: str) -> str:
    return text.lower() if text.startswith(".") else f".{text.lower()}"
