"""Making a sandbox: arguments to a checked plan, the plan to a driver, and nothing left behind if that fails."""

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

from paddock import paths, places, records
from paddock.audit import AuditLog, EventBus, default_log
from paddock.config import ARGUMENT, DEFAULT, read_once, setting, user_path
from paddock.consent import Policy, check_policy, initiator
from paddock.driver import BackendSpec, Capabilities, DetachableSpec, Driver, KeptElsewhereSpec, Plan, RootedSpec
from paddock.egress import packages
from paddock.egress.attaching import Secrets
from paddock.errors import (
    ConfigError,
    ExistsError,
    NotAuthorizedError,
    SandboxError,
    UnavailableError,
    UnsupportedError,
)
from paddock.records import SandboxRecord
from paddock.registry import find
from paddock.sandbox.commands import Environment, named
from paddock.sandbox.layout import HostPath, Layout, Mode, lay_out, reviewed
from paddock.sandbox.operation import Gate, Operation
from paddock.state import is_for_sandboxes, own_directories, state_directory, sweep
from paddock.types import Limits, Mount, Network, SandboxInfo, Secret

_swept: dict[str, float] = {}
"""Which state directories were swept, and when it was begun."""
_SECONDS_BETWEEN_SWEEPS = 60.0
_rooted: WeakKeyDictionary[type[BackendSpec], bool] = WeakKeyDictionary()
_NAME = re.compile(r"(?!sb-[0-9a-f]{12}$)[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller of `Sandbox.create` asked for, as it was asked."""

    backend: str | BackendSpec
    mode: Mode | None
    root: HostPath | None
    workspace: HostPath | None
    cache: HostPath | None
    mounts: Iterable[Mount]
    review: bool
    image: str | None
    limits: Limits
    network: Network
    tools: Iterable[Any]
    secrets: Iterable[Secret]
    env: Environment | None
    workdir: str
    timeout: float | None
    approve: Policy
    name: str | None
    labels: Mapping[str, str] | None
    detached: bool
    idle_timeout: float | None
    lifetime: float | None


@dataclass(frozen=True, slots=True)
class Launched:
    """A sandbox that runs, with what belongs to all views of it."""

    id: str
    spec: BackendSpec
    plan: Plan
    layout: Layout
    driver: Driver
    bus: EventBus
    env: dict[str, str]
    timeout: float | None
    max_output: int
    workdir: str
    created: float
    approve: Policy = None
    tools: tuple[Any, ...] = ()
    """What it is to be granted from the start."""
    network: Network = Network()  # noqa: RUF009 - frozen
    secrets: Secrets = field(default_factory=Secrets)
    port: int = 0
    """Where commands found the way out, of one that was connected to."""

    @property
    def detached(self) -> bool:
        """Whether it outlives whoever uses it."""
        return self.plan.record is not None


async def launch(request: Request) -> Launched:
    """Make the sandbox, or raise and leave nothing."""
    with read_once():
        return await _made(request)


async def _made(request: Request) -> Launched:
    spec = _spec(request.backend, request.image)
    request = replace(
        request,
        timeout=setting("timeout", request.timeout).value,
        mounts=_listed("mounts", request.mounts),
        tools=_listed("tools", request.tools),
        secrets=_listed("secrets", request.secrets),
    )
    _check_values(request)
    _check_image(request.image)
    check_policy(request.approve)
    _check_capabilities(request, spec.name, spec.capabilities)
    _check_tools(request)
    secrets = _checked_secrets(request)
    named(request.env)
    paths.normalise(request.workdir)
    log = _audit_log(spec.capabilities)
    try:
        layout = _laid_out(request)
    except FileNotFoundError:
        raise ConfigError("The current directory no longer exists.", hint="Change to one that does.") from None
    except OSError as error:
        raise ConfigError(
            f"The sandbox's directories cannot be looked at: {error.strerror}.",
            hint="Try again when nobody moves them.",
        ) from None
    try:
        return await _launch(request, spec, layout, log, secrets)
    except BaseException:
        layout.undo()
        raise


def _laid_out(request: Request) -> Layout:
    arguments = (request.mode, request.root, request.workspace, request.cache, request.mounts)
    if not request.review:
        return lay_out(*arguments)
    return reviewed(lay_out(*arguments, make=False))


async def _launch(
    request: Request, spec: BackendSpec, layout: Layout, log: AuditLog | None, secrets: Secrets
) -> Launched:
    layout = _with_root(layout, spec, request.image)
    if spec.capabilities.host_effects:
        _keep_state_out(_shown(layout, spec), log)
        await _sweep_at_times()
    record = replace(_record(request, spec, layout), secrets=secrets.described)
    plan = _plan(record, detached=request.detached)
    bus = EventBus(plan.id, log)
    try:
        driver = await spec.launch(plan)
    except ExistsError:  # by one that has ended, perhaps, of which nobody has heard yet
        if plan.record is None or any(other.info.name == plan.name for other in await living()):
            raise
        driver = await spec.launch(plan)
    launched = _launched(record, spec, plan, layout, driver, bus)
    return replace(launched, approve=request.approve, tools=tuple(request.tools), secrets=secrets)


def _is_rooted(spec: BackendSpec) -> TypeGuard[RootedSpec]:
    """Remembered for each class: Python looks at all members of a protocol every time that it is asked."""
    kind = type(spec)
    if kind not in _rooted:
        _rooted[kind] = isinstance(spec, RootedSpec)
    return _rooted[kind]


def _with_root(layout: Layout, spec: BackendSpec, image: str | None) -> Layout:
    """With the directories of a root that the backend was given, but for those that a mount covers."""
    if not _is_rooted(spec):
        return layout
    covered = {mount.target for mount in layout.mounts}
    more = tuple(mount for mount in spec.root_mounts(image) if mount.target not in covered)
    return replace(layout, mounts=layout.mounts + more)


def _record(request: Request, spec: BackendSpec, layout: Layout) -> SandboxRecord:
    """What was asked for, complete and with all settings read."""
    return SandboxRecord(
        info=SandboxInfo(
            id=f"sb-{os.urandom(6).hex()}",
            name=request.name,
            backend=spec.name,
            created=time.time(),
            labels=check_labels(request.labels),
            idle_timeout=request.idle_timeout,
            lifetime=request.lifetime,
        ),
        mounts=layout.mounts,
        protected=layout.protected,
        limits=request.limits,
        network=request.network,
        env=named(request.env),
        workdir=paths.normalise(request.workdir),
        timeout=request.timeout,
        max_output=setting("max_output").value,
        review=request.review,
        image=request.image,
    )


def _plan(record: SandboxRecord, *, detached: bool) -> Plan:
    info = record.info
    return Plan(
        id=info.id,
        mounts=record.mounts,
        limits=record.limits,
        network=record.network,
        image=record.image,
        name=info.name,
        labels=info.labels,
        protected=record.protected,
        idle_timeout=info.idle_timeout,
        lifetime=info.lifetime,
        review=record.review,
        record=record if detached else None,
    )


def _launched(
    record: SandboxRecord, spec: BackendSpec, plan: Plan, layout: Layout, driver: Driver, bus: EventBus
) -> Launched:
    return Launched(
        id=plan.id,
        spec=spec,
        plan=plan,
        layout=layout,
        driver=driver,
        bus=bus,
        env=record.env,
        timeout=record.timeout,
        max_output=record.max_output,
        workdir=record.workdir,
        created=record.info.created,
        network=record.network,
        port=record.port,
    )


async def connect(record: SandboxRecord) -> Launched:
    """One that runs already, as it was made."""
    spec = _detachable(record)
    plan = _plan(record, detached=True)
    bus = EventBus(plan.id, _audit_log(spec.capabilities))
    driver = await spec.connect(record)
    launched = _launched(record, spec, plan, Layout(record.mounts, record.protected), driver, bus)
    return replace(launched, secrets=Secrets(record.secrets, os.environ))


async def living() -> list[SandboxRecord]:
    """The detached sandboxes that run, the oldest first."""
    import asyncio

    found = await asyncio.to_thread(records.living)
    await asyncio.to_thread(places.sweep)  # what those left who were killed while they began, as `records` does
    for backend in {record.info.backend for record in found}:
        spec = find(backend)
        if isinstance(spec, KeptElsewhereSpec):
            theirs = [record for record in found if record.info.backend == backend]
            alive = await spec.living(theirs)
            found = [record for record in found if record not in theirs or record in alive]
    return found


async def remove(record: SandboxRecord) -> None:
    """End a detached one, with all that it had."""
    spec = _detachable(record)
    gate = Gate(EventBus(record.info.id, _audit_log(spec.capabilities)))
    with Operation(gate, "sandbox", "remove", None):
        await spec.remove(record)


def _detachable(record: SandboxRecord) -> DetachableSpec:
    """The backend that a detached sandbox runs on."""
    spec = find(record.info.backend)
    if not isinstance(spec, DetachableSpec):
        raise unsupported(record.info.backend, "detached", "cannot be detached")
    return spec


def _spec(backend: str | BackendSpec, image: str | None) -> BackendSpec:
    """The backend that was asked for; if a variable or a file asked, an error says which. An image needs containers."""
    chosen = setting("backend", backend)
    try:
        return find("docker" if chosen.value == "auto" and image is not None else chosen.value)
    except (ConfigError, UnavailableError) as error:
        if chosen.source in (ARGUMENT, DEFAULT):
            raise
        raise type(error)(f"{chosen.source}: {error.message}", hint=error.hint) from error


def unsupported(backend: str, capability: str, words: str, hint: str | None = None) -> UnsupportedError:
    """The one error for what a backend cannot do."""
    return UnsupportedError(f"The backend '{backend}' {words}.", backend=backend, capability=capability, hint=hint)


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ConfigError(f"{name}={value!r} is not a list.", hint=f"Such as {name}=[…].")
    return tuple(value)


def _check_values(request: Request) -> None:
    for name, value in (
        ("timeout", request.timeout),
        ("idle_timeout", request.idle_timeout),
        ("lifetime", request.lifetime),
    ):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
            raise ConfigError(f"{name}={value!r} is not a time.", hint="Give seconds above 0, or None.")
    for name, flag in (("detached", request.detached), ("review", request.review)):
        if not isinstance(flag, bool):
            raise ConfigError(f"{name}={flag!r} is neither True nor False.", hint="Give one of them.")
    if not isinstance(request.limits, Limits):
        raise ConfigError(f"limits={request.limits!r} is not a Limits value.", hint='Such as Limits(memory="2g").')
    if not isinstance(request.network, Network):
        raise ConfigError(f"network={request.network!r} is not a Network value.", hint="Such as Network.none().")
    if request.name is not None and not (isinstance(request.name, str) and _NAME.fullmatch(request.name)):
        raise ConfigError(
            f"name={request.name!r} is not a name.",
            hint="Use up to 64 letters, digits, '-' and '_', and not the form of an id.",
        )
    check_labels(request.labels)
    if not isinstance(request.workdir, str) or not request.workdir.startswith("/"):
        raise ConfigError(f"workdir={request.workdir!r} is not absolute.", hint='Such as "/workspace".')


def check_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Labels that were given, or to look for."""
    given = {} if labels is None else labels
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise ConfigError(f"labels={given!r} is not a mapping of text to text.", hint='Such as {"team": "blue"}.')
    return dict(given)


def _check_image(image: str | None) -> None:
    if image is not None and not (isinstance(image, str) and image):
        raise ConfigError(f"image={image!r} is not the name of an image.", hint="Such as 'python:3.12-slim'.")


def _check_tools(request: Request) -> None:
    """Before anything is made: whether they are some, and can be served here."""
    if request.tools:
        from paddock.bridge import sdk
        from paddock.bridge.grants import as_grantable

        sdk.need()
        for tool in request.tools:
            as_grantable(tool)


def _checked_secrets(request: Request) -> Secrets:
    """Before anything is made: whether a network may be asked for, can be had here, and every secret has its value."""
    if request.network.policy == "none" and not request.secrets:
        return Secrets()
    if initiator() == "model":
        raise NotAuthorizedError("A model cannot open a network.", hint="The host program does.")
    return checked_secrets(request.network, request.secrets)


def checked_secrets(network: Network, given: Iterable[Secret]) -> Secrets:
    """The secrets with their values; a `ConfigError` that names the one that has none, or can be sent to nobody."""
    given = tuple(given)
    for secret in given:
        if not isinstance(secret, Secret) or not secret.hosts:
            raise ConfigError(
                "secrets= has a Secret with hosts.", hint='Such as Secret("TOKEN", hosts=["example.org"]).'
            )
    packages.need(tls=any(secret.tls for secret in given))
    for secret in given:
        check_reach(network, secret)
    secrets = Secrets(given, os.environ)
    for secret in given:
        if secret.name in secrets.missing:
            raise ConfigError(
                f"The secret {secret.name} has no value.",
                hint=f"Set the variable {secret.variable} here, or give value=.",
            )
    return secrets


def check_reach(network: Network, secret: Secret) -> None:
    """Return if the network allows all that the secret is for."""
    from paddock.egress.rules import Rules, Verdict
    from paddock.types.hosts import shown

    rules = Rules(network)
    for place in secret.places():
        if rules.place(*place) is Verdict.NOTHING:
            raise ConfigError(
                f"The secret {secret.name} is for {shown(*place)}, which the network does not allow.",
                hint="Name that host in Network.allow(...) too.",
            )


def _check_capabilities(request: Request, backend: str, can: Capabilities) -> None:
    sources = [mount.source for mount in request.mounts if isinstance(mount, Mount)]
    hosts = (request.root, request.workspace, request.cache, request.mode, *sources)
    wanted = (
        ("host_mounts", any(value is not None for value in hosts), "shows no host directories"),
        ("review", request.review, "has no review mode"),
        ("images", request.image is not None, "takes no image"),
        ("network", request.network != Network.none(), "has no network"),
        ("tools", bool(tuple(request.tools)), "takes no tools"),
        ("secrets", bool(tuple(request.secrets)), "takes no secrets"),
        ("detached", request.detached, "cannot be detached"),
        (
            "lifetimes",
            request.idle_timeout is not None or request.lifetime is not None,
            "does not end by itself",
        ),
    )
    for capability, asked, words in wanted:
        if asked and not getattr(can, capability):
            raise unsupported(backend, capability, words)
    missing = sorted(request.limits.asked() - can.limits)
    if missing and not request.limits.best_effort:
        held = ", ".join(sorted(can.limits)) or "none"
        raise unsupported(
            backend,
            "limits",
            f"cannot hold the limit on {missing[0]}",
            f"It holds: {held}. Leave the limit out, or pass Limits(..., best_effort=True).",
        )


def _audit_log(can: Capabilities) -> AuditLog | None:
    if not can.host_effects and setting("audit").source == DEFAULT:
        return None
    return default_log()


@dataclass(frozen=True, slots=True)
class _Shown:
    """A directory of this host that a sandbox sees."""

    what: str
    path: str
    read_only: bool

    def holds(self, path: str | os.PathLike[str]) -> bool:
        return paths.within(os.path.realpath(path), self.path)


def _shown(layout: Layout, spec: BackendSpec) -> list[_Shown]:
    shown = [
        _Shown(f"The host directory of {mount.target!r}", os.fspath(mount.source), mount.read_only)
        for mount in layout.mounts
        if mount.source is not None
    ]
    more = spec.host_directories() if _is_rooted(spec) else ()
    return shown + [_Shown(f"The host path {path!r}", path, read_only=True) for path in more]


def _keep_state_out(shown: Iterable[_Shown], log: AuditLog | None) -> None:
    """Private files, sockets, the audit log and the user's settings must not be reachable through what is shown."""
    for one in shown:
        for own in own_directories():
            inside = paths.within(one.path, os.path.realpath(own.path)) and not is_for_sandboxes(one.path)
            if one.holds(own.path) or inside:
                raise ConfigError(
                    f"{one.what} holds Paddock's own {own.name} directory, or lies in it.",
                    hint=f"Choose another directory, or set {own.variable} to an absolute path elsewhere.",
                )
        if log is not None and one.holds(log.path):
            raise ConfigError(
                f"{one.what} holds the audit log.", hint="Set PADDOCK_AUDIT to an absolute path elsewhere."
            )
        if not one.read_only and user_path() and one.holds(user_path()):
            raise ConfigError(
                f"{one.what} holds your own paddock.toml, or would.",
                hint="Choose another directory, or set PADDOCK_CONFIG to an absolute path elsewhere.",
            )


async def _sweep_at_times() -> None:
    """What a crashed process left is removed by others: before the first sandbox of each, and beside later ones."""
    import asyncio

    where, now = str(state_directory()), time.monotonic()
    first = where not in _swept
    if first or now - _swept[where] > _SECONDS_BETWEEN_SWEEPS:
        _swept[where] = now
        sweeping = asyncio.get_running_loop().run_in_executor(None, _sweep, where)
        if first:
            await sweeping


def _finish_applies(where: str) -> None:
    """What was being written to host directories when somebody was killed is finished, or undone."""
    if any(os.path.isdir(os.path.join(where, name)) for name in ("applying", "reviews")):
        from paddock.review import recover

        recover()


def _sweep(where: str) -> None:
    try:
        sweep()
        places.sweep()
        _finish_applies(where)
    except (OSError, SandboxError):
        _swept.pop(where, None)  # not a reason to refuse a new sandbox; the next one tries again
