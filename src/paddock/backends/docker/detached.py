"""Detached sandboxes in containers: what is kept about one, and how others get to it. Whether it lives, the engine knows."""

import socket as sockets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from paddock import cgroups, records, state
from paddock.backends.docker.engine import Engine, reached, refusals
from paddock.backends.docker.engine import remove as remove_container
from paddock.backends.docker.order import LABEL, ROOT
from paddock.backends.docker.reach import over_relay
from paddock.backends.docker.volumes import remove_volume
from paddock.backends.namespaces import detached as common
from paddock.backends.namespaces.identity import Identity, dirs
from paddock.backends.supervised import connect as supervised
from paddock.backends.supervised.driver import SupervisedDriver
from paddock.backends.supervised.roots import open_roots
from paddock.driver import Plan
from paddock.errors import SandboxDiedError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.records import SandboxRecord
from paddock.state import PrivateDirectory
from paddock.types import Isolation
from paddock.types.record import Record
from paddock.types.review import Layer
from paddock.wire.channel import Channel

SANDBOX, STATE, NAME, USERS = f"{LABEL}sandbox", f"{LABEL}state", f"{LABEL}name", f"{LABEL}label."


@dataclass(frozen=True, slots=True)
class Held(Record):
    """What `connect` has to know besides the plan."""

    address: str | None
    engine: str
    """Which one it is, for at that address may be another one later."""
    container: str
    secret: str
    socket: str | None
    """Where its supervisor listens on this host; None where only a relay leads to it."""
    uid: int
    gid: int
    ours: bool
    isolation: Isolation
    environment: dict[str, str]
    paths: dict[str, str]
    counters: dict[str, list[str]]
    layers: tuple[Layer, ...] = ()

    @property
    def identity(self) -> Identity:
        """Who the sandbox's processes are."""
        return Identity(self.uid, self.gid, ours=self.ours)


def labels(plan: Plan) -> dict[str, str]:
    """What the engine knows of a sandbox: whose it is, above all."""
    own = {SANDBOX: plan.id, STATE: state.own_name()}
    if plan.name is not None:
        own[NAME] = plan.name
    return own | {f"{USERS}{key}": value for key, value in plan.labels.items()}


def socket_path(sandbox: str) -> str:
    """Where a detached one listens."""
    return str(state.runtime_directory() / f"{sandbox}{state.SOCKET}")


def listen(private: PrivateDirectory, sandbox: str) -> sockets.socket:
    """The socket for it, where only its owner gets to."""
    return common.listen(private, sandbox)


def terms(plan: Plan) -> list[str]:
    """How long it stays."""
    return common.terms(plan)


async def keep(record: SandboxRecord, held: Held) -> None:
    """From now on others find it, by its name too, which has to be free."""
    import asyncio

    await asyncio.to_thread(records.keep, replace(record, held=held.to_dict()))


async def keep_again(record: SandboxRecord, held: Held) -> None:
    """The same, with what is known when it runs."""
    import asyncio

    await asyncio.to_thread(records.replace_kept, replace(record, held=held.to_dict()))


async def leave(channel: Channel) -> None:
    """Let go of it. In a forked child the connection is still the parent's, and stays."""
    await common.leave(channel)


async def connect(record: SandboxRecord) -> SupervisedDriver:
    """One that runs; `NotFoundError` if it has ended."""
    held = Held.from_dict(record.held)
    try:
        channel = await _channel(held)
    except (SandboxDiedError, UnavailableError):
        if not await living([record]):
            raise records.ended(record.info.name or record.info.id) from None
        raise UnavailableError(
            f"The sandbox {record.info.id} cannot be reached, and its container engine does not say that it has ended.",
            hint="Start the engine, and try again.",
        ) from None
    make = dirs(held.identity, [mount for mount in record.mounts if mount.target != ROOT])
    try:
        roots = await open_roots(channel, {m.target: m.target for m in record.mounts}, held.paths, make)
    except BaseException:
        await to_the_end(supervised.hang_up(channel))
        raise
    counters = {limit: (path, word) for limit, (path, word) in held.counters.items()}
    return SupervisedDriver(
        channel,
        roots,
        held.isolation,
        held.environment,
        lambda: leave(channel),
        hits=cgroups.Group(None, (), {}, (), counters).hits,
        detached=True,
        layers={layer.target: layer for layer in held.layers},
    )


async def _channel(held: Held) -> Channel:
    if held.socket is not None:
        with suppress(SandboxDiedError):  # or it never called, because its maker was killed, and waits for a relay
            return await supervised.connect(held.socket)
    channel: Channel | None = None
    try:
        async with reached(held.address) as engine:
            channel = await over_relay(engine, held.container, held.secret)
    except BaseException:
        if channel is not None:
            channel.close()
        raise
    channel.ends_sandbox = False
    return channel


async def remove(record: SandboxRecord) -> None:
    """End it with all that it had; one that has ended is fine."""
    import asyncio

    held = Held.from_dict(record.held)
    async with reached(held.address) as engine:
        if await engine.identity() != held.engine:
            raise UnavailableError(
                f"The container engine of the sandbox {record.info.id} is not there: another one answers.",
                hint="Start that one, or name it: DOCKER_HOST.",
            )
        await remove_container(engine, held.container)
        if held.layers:
            await _remove_volumes(engine, record.info.id)
    if not await asyncio.to_thread(state.forget, record.info.id):
        raise SandboxError(
            f"Private files of the sandbox {record.info.id} could not be removed.",
            hint="The next sandbox that is made tries again.",
        )


async def living(found: Iterable[SandboxRecord]) -> list[SandboxRecord]:
    """Those of them that run. What is left of the others is removed; where their engine does not answer, nobody knows."""
    import asyncio

    known = [(record, Held.from_dict(record.held)) for record in found]
    starting = await asyncio.to_thread(_starting, [record for record, _ in known])
    addresses = {held.address for _, held in known}
    told = dict(zip(addresses, await asyncio.gather(*map(_running, addresses)), strict=True))
    alive = []
    for record, held in known:
        there = told[held.address]
        if there is None or there.engine != held.engine or held.container in there.names or record.info.id in starting:
            alive.append(record)
        else:
            await _forget(record, held)
    return alive


def _starting(found: Iterable[SandboxRecord]) -> set[str]:
    """Those that somebody is at making. To be asked before an engine is: later one may run that the engine did not know."""
    return {record.info.id for record in found if state.has_owner(record.info.id)}


async def _forget(record: SandboxRecord, held: Held) -> None:
    """Remove what is left of one that does not run: of one that never started there is a container, too."""
    import asyncio

    with suppress(UnavailableError):
        async with reached(held.address) as engine:
            await remove_container(engine, held.container)
            if held.layers:
                await _remove_volumes(engine, record.info.id)
        await asyncio.to_thread(state.forget, record.info.id)


@dataclass(frozen=True, slots=True)
class _Told:
    """What an engine says: who it is, and what of ours runs on it."""

    engine: str
    names: frozenset[str]


async def _running(address: str | None) -> _Told | None:
    try:
        async with reached(address) as engine:
            running = [one for one in await _ours(engine) if one["State"] not in ("created", "exited", "dead")]
            names = [name.lstrip("/") for one in running for name in one["Names"]]
            return _Told(await engine.identity(), frozenset(names))
    except UnavailableError:
        return None


async def _ours(engine: Engine) -> list[Any]:
    with refusals("list its containers"):
        found: list[Any] = await engine.containers.list(all=True, filters=_filters())
    return found


async def sweep(engine: Engine) -> None:
    """Remove the containers of those who were killed while they made one."""
    import asyncio

    for container in await _ours(engine):
        sandbox = container["Labels"].get(SANDBOX, "")
        if sandbox and not await asyncio.to_thread(state.is_held, sandbox):
            with suppress(UnavailableError):
                await remove_container(engine, container.id)
    for name, sandbox in (await _volumes(engine)).items():
        if not await asyncio.to_thread(state.is_held, sandbox):
            with suppress(UnavailableError):
                await remove_volume(engine, name)
                await asyncio.to_thread(state.sweep_one, sandbox)  # what could not be removed before that


async def _remove_volumes(engine: Engine, sandbox: str) -> None:
    for name, owner in (await _volumes(engine)).items():
        if owner == sandbox:
            await remove_volume(engine, name)


async def _volumes(engine: Engine) -> dict[str, str]:
    """Ours, and the sandboxes that they belong to."""
    with refusals("list its volumes"):
        told = await engine.volumes.list(filters={"label": [f"{STATE}={state.own_name()}"]})
    found = [(one["Name"], (one.get("Labels") or {}).get(SANDBOX)) for one in told.get("Volumes") or ()]
    return {name: sandbox for name, sandbox in found if sandbox}


def _filters() -> str:
    import json

    return json.dumps({"label": [f"{STATE}={state.own_name()}"]})
