"""One request for a sandbox: complete, checked, and a copy of its own of everything that was given."""

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from paddock.config import POLICIES, setting
from paddock.errors import ConfigError
from paddock.manager.digest import digest
from paddock.manager.keys import Key, Place, as_label, from_label, key, place
from paddock.manager.policies import Policy
from paddock.manager.settings import Settings
from paddock.registry import find
from paddock.sandbox import Creation, Sandbox
from paddock.sandbox.create import unsupported
from paddock.types import SandboxInfo, parse_size

MANAGER = "paddock.manager"
"""The label that says whose sandbox it is: the directory of its manager."""
_KEY, _POLICY, _WORKSPACE, _OPTIONS = "paddock.key", "paddock.policy", "paddock.workspace", "paddock.options"
_USER, _CHAT = "paddock.user", "paddock.chat"
_OURS = ("name", "detached", "root", "workspace", "cache", "mode", "review", "idle_timeout", "lifetime")
_LATE = 120.0
"""Seconds that a sandbox outlives what its policy says, before it ends without a manager."""
_ABANDONED = 300.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants."""

    key: Key
    chat: str
    place: Place
    policy: Policy
    backend: Any
    options: Mapping[str, Any]
    quota: int | None
    labels: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The same for requests that one sandbox can serve."""
        return digest([self.backend, self.options, self.place.id, self.policy, self.labels])


class Asking:
    """Makes requests complete, with the defaults of a manager."""

    def __init__(self, settings: Settings, backend: Any, options: dict[str, Any]) -> None:
        _check(options)
        _check_backend(backend)
        self._settings = settings
        self._backend = backend
        self._options = _copied(options)

    def ask(
        self,
        user: str,
        chat: str,
        policy: str | None,
        assistant: str | None,
        workspace: str | None,
        times: tuple[float | None, float | None],
        quota: float | str | None,
        options: dict[str, Any],
    ) -> Ask:
        """The whole request. What the caller does with its arguments afterwards changes nothing."""
        rules = self._settings.policy_for(policy, *times)
        given = self._options | options
        _check(given)
        whole = _copied(given)
        backend = whole.pop("backend", self._backend)
        labels = dict(whole.pop("labels", None) or {})
        if any(str(label).startswith("paddock.") for label in labels):
            raise ConfigError("Labels that begin with 'paddock.' are the manager's own.", hint="Choose another name.")
        return Ask(
            key=key(user, chat, assistant, workspace, rules.name),
            chat=chat,
            place=place(user, chat, workspace),
            policy=rules,
            backend=backend,
            options=whole,
            quota=self._quota(quota),
            labels=labels,
        )

    def _quota(self, given: float | str | None) -> int | None:
        """What the workspace may hold; None: whatever it likes."""
        if given == math.inf:
            return None
        return self._settings.quota if given is None else parse_size(given, "quota")


def creation(ask: Ask, directory: str, root: str, left: float | None) -> Creation:
    """The sandbox that was asked for, still to be made. `left` is how long it may live, if its time is limited."""
    return Sandbox.create(
        ask.backend,
        **ask.options,
        root=root,
        name=ask.key.sandbox_name(directory),
        labels={**ask.labels, **_labels(ask, directory)},
        detached=True,
        **_ends_without_manager(ask, left),
    )


def key_of(info: SandboxInfo) -> Key | None:
    """Whose it is, by its labels."""
    try:
        found = Key.from_dict(json.loads(info.labels[_KEY]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = all(isinstance(text, str) for text in (found.user, found.name, found.assistant or ""))
    return found if texts and found.scope in ("chat", "workspace") else None


@dataclass(frozen=True, slots=True)
class Marks:
    """What the labels of a sandbox say besides."""

    chat: str
    policy: str
    workspace: str
    options: str


def marks(info: SandboxInfo) -> Marks | None:
    """What its labels say, if they are a manager's."""
    found = info.labels
    if found.get(_POLICY) not in POLICIES:
        return None
    try:
        return Marks(from_label(found[_CHAT]), found[_POLICY], found[_WORKSPACE], found[_OPTIONS])
    except (ValueError, KeyError):
        return None


def _labels(ask: Ask, directory: str) -> dict[str, str]:
    return {
        MANAGER: directory,
        _KEY: json.dumps(ask.key.to_dict()),
        _USER: as_label(ask.key.user),
        _CHAT: as_label(ask.chat),
        _POLICY: ask.policy.name,
        _WORKSPACE: ask.place.id,
        _OPTIONS: ask.digest,
    }


def _ends_without_manager(ask: Ask, left: float | None) -> dict[str, Any]:
    """Times by which it ends itself, a little after its policy says so: there may never be a manager again."""
    if not find(setting("backend", ask.backend).value).capabilities.lifetimes:
        return {}
    idle = _ABANDONED if ask.policy.name == "oneshot" else ask.policy.idle_timeout
    times = {"idle_timeout": idle, "lifetime": None if left is None else left + ask.policy.grace}
    return {name: max(time, 0.0) + _LATE for name, time in times.items() if time is not None}


def _check(options: Mapping[str, Any]) -> None:
    for name in _OURS:
        if name in options:
            raise ConfigError(f"{name}= is for the manager to choose.", hint="Leave it out.")
    if options.get("tools"):  # who grants serves, and that is whoever holds a lease
        raise ConfigError("A manager grants no tools.", hint="Use grant() of the sandbox that a lease has.")
    Sandbox.create(**options)  # which makes nothing: it only looks at the names


def _check_backend(backend: Any) -> None:
    spec = find(setting("backend", backend).value)
    if not spec.capabilities.detached:
        raise unsupported(
            spec.name,
            "detached",
            "cannot be a manager's: its sandboxes end with the program",
            hint="Name 'namespaces' or 'docker', or use Sandbox.create.",
        )


def _copied(options: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing with what was given, so that two requests never see each other's changes."""
    listed = {name: list(value) if isinstance(value, Iterator) else value for name, value in options.items()}
    try:
        return deepcopy(listed)
    except TypeError as error:
        raise ConfigError(f"An option cannot be copied: {error}.", hint="Give plain values.") from None
