"""Which backends there are: a name, where its spec lives, and what to do when it cannot be had. Nothing is imported early."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from paddock.driver import BackendSpec
from paddock.errors import ConfigError, UnavailableError


@dataclass(frozen=True, slots=True)
class Entry:
    """One backend: `module:Class` of its spec, or None while it is still to be built."""

    where: str | None
    hint: str


_LATER = "It comes with a later release. Until then use 'namespaces', the default on Linux, or 'memory' for tests."

_entries: dict[str, Entry] = {
    "memory": Entry("paddock.backends.memory:Memory", "It needs nothing."),
    "local": Entry("paddock.backends.local:Local", "It needs Linux."),
    "namespaces": Entry("paddock.backends.namespaces:Namespaces", "It needs Linux and bubblewrap."),
    "docker": Entry("paddock.backends.docker:Docker", "It needs Docker or Podman, and the package aiodocker."),
    "kubernetes": Entry(None, _LATER),
    "dagger": Entry(None, _LATER),
    "remote": Entry(None, _LATER),
}

_registered: set[str] = set()


def names(*, built: bool = False) -> list[str]:
    """Every known name, sorted; with `built`, only those that can be launched."""
    return sorted(name for name, entry in _entries.items() if entry.where or not built)


def register(name: str, where: str, *, hint: str = "Install the package that provides it.") -> None:
    """Add a backend by name and `module:Class`. A name is given once: a second time is an error."""
    module, _, attribute = where.partition(":")
    if not name.isidentifier() or not module or not attribute:
        raise ConfigError(f"{name!r} at {where!r} is not a backend.", hint='Give a name and "module:Class".')
    if name == "auto" or name in _entries:
        raise ConfigError(f"The backend name {name!r} is taken.", hint=f"Taken are: auto, {', '.join(names())}.")
    _entries[name] = Entry(where, hint)
    _registered.add(name)


def unregister(name: str) -> None:
    """Forget a backend that `register` added."""
    if name not in _registered:
        raise ConfigError(f"The backend {name!r} was not added by register().", hint="Those that come along stay.")
    _registered.discard(name)
    del _entries[name]


def find(backend: str | BackendSpec) -> BackendSpec:
    """The spec for a name, with its default options; a spec is its own answer."""
    if not isinstance(backend, str):
        if isinstance(backend, BackendSpec) and not isinstance(backend, type):
            return backend
        raise ConfigError(
            f"backend={backend!r} is neither a name nor a backend's options.",
            hint=f"Known names: {', '.join(names())}.",
        )
    return load(_strongest() if backend == "auto" else backend)()


def load(name: str) -> Callable[[], BackendSpec]:
    """The spec's class, imported now."""
    entry = _entries.get(name)
    if entry is None:
        raise _unknown(name)
    if entry.where is None:
        raise UnavailableError(f"The backend {name!r} is not part of this version.", hint=entry.hint)
    module, _, attribute = entry.where.partition(":")
    try:
        spec: Callable[[], BackendSpec] = getattr(import_module(module), attribute)
    except ImportError as error:
        raise UnavailableError(f"The backend {name!r} cannot be loaded ({error}).", hint=entry.hint) from error
    return spec


def _strongest() -> str:
    """What `auto` means here: the strongest isolation that needs no set-up, never less than a kernel boundary."""
    candidates = ("namespaces", "docker") if sys.platform == "linux" else ("docker",)
    for name in candidates:
        if _entries[name].where:
            return name
    raise UnavailableError(
        f"No isolating backend ({', '.join(candidates)}) is part of this version, and none is chosen in its place.",
        hint="Name one: 'local' if running without isolation is what you want, or 'memory' for tests.",
    )


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"There is no backend {name!r}.", hint=f"Known names: auto, {', '.join(names())}.")
