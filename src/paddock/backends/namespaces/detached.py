"""Detached sandboxes: the socket that leads to one, what is kept about it, and how others get to it."""

import math
import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from paddock import cgroups, records, state
from paddock.backends.namespaces.identity import Identity, dirs
from paddock.backends.namespaces.start import children, collect
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

_SECONDS_TO_END = 5.0
_SECONDS_TO_GO = 1.0
_MOST_WAITING = 64
_HELD_UP = 2
_FOREVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Held(Record):
    """What `connect` has to know besides the plan."""

    socket: str
    uid: int
    gid: int
    ours: bool
    isolation: Isolation
    environment: dict[str, str]
    paths: dict[str, str]
    """Where the mounts are on this host, those that are."""
    counters: dict[str, list[str]]
    layers: tuple[Layer, ...] = ()
    pid: int = 0
    """The supervisor's number on this host, and when it was started: for ending it when it does not listen."""
    started: int = 0

    @property
    def identity(self) -> Identity:
        """Who the sandbox's processes are."""
        return Identity(self.uid, self.gid, ours=self.ours)


def listen(private: PrivateDirectory, sandbox: str) -> socket.socket:
    """The socket of a new sandbox, where only its owner gets to."""
    collect()
    path = str(state.runtime_directory() / f"{sandbox}{state.SOCKET}")
    private.note_socket(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        os.chmod(path, 0o600)
        listening.listen(_MOST_WAITING)
    except BaseException:
        listening.close()
        raise
    return listening


def terms(plan: Plan) -> list[str]:
    """How long it stays, for its supervisor, which counts whole seconds.

    One that is not detached is ended by its host; the supervisor does it only if the host is held up.
    """
    times = {"--idle": plan.idle_timeout if plan.record else None, "--lifetime": plan.lifetime}
    late = 0 if plan.record else _HELD_UP
    given = {option: str(min(math.ceil(time) + late, _FOREVER)) for option, time in times.items() if time is not None}
    return [word for pair in given.items() for word in pair]


def keep(record: SandboxRecord, held: Held) -> None:
    """From now on others find it, by its name too, which has to be free."""
    records.keep(replace(record, held=held.to_dict()))


def keep_pid(record: SandboxRecord, held: Held, bubblewrap: int) -> None:
    """What is known when it runs."""
    for pid in children(bubblewrap):
        held = replace(held, pid=pid, started=_started(pid))
    records.replace_kept(replace(record, held=held.to_dict()))


async def connect(record: SandboxRecord) -> SupervisedDriver:
    """One that runs; `NotFoundError` if it has ended."""
    collect()
    held = Held.from_dict(record.held)
    try:
        return await _connected(record, held)
    except (SandboxDiedError, UnavailableError) as error:
        if await _is_ending(record):
            raise records.ended(record.info.name or record.info.id) from None
        if os.path.exists(held.socket):
            raise
        raise UnavailableError(
            f"The sandbox {record.info.id} runs, and the socket that leads to it is gone.",
            hint="It can still be removed.",
        ) from error


async def _connected(record: SandboxRecord, held: Held) -> SupervisedDriver:
    make = dirs(held.identity, record.mounts)
    channel = await supervised.connect(held.socket)
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


async def _is_ending(record: SandboxRecord) -> bool:
    """Whether it is gone, or will be in a moment: first it stops to listen, then it ends, then somebody sweeps."""
    import asyncio

    deadline = time.monotonic() + _SECONDS_TO_GO
    while state.is_held(record.info.id) and state.record_path(record.info.id).exists():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


async def leave(channel: Channel) -> None:
    """Let go of it. In a forked child the connection is still the parent's, and stays."""
    if not channel.foreign:
        await supervised.hang_up(channel)


async def remove(record: SandboxRecord) -> None:
    """End it, by asking its supervisor or else by the kernel, and remove what it had."""
    import asyncio

    held = Held.from_dict(record.held)
    try:
        async with asyncio.timeout(_SECONDS_TO_END):
            await supervised.end_sandbox(await supervised.connect(held.socket))
    except (SandboxError, TimeoutError):  # it has ended, or does not listen
        _kill(held)
    await asyncio.to_thread(_clear_away, record)


def _clear_away(record: SandboxRecord) -> None:
    """Remove all that is left, when it is gone."""
    deadline = time.monotonic() + _SECONDS_TO_END
    while state.is_held(record.info.id):
        if time.monotonic() > deadline:
            raise SandboxError(
                f"The sandbox {record.info.id} did not end.", hint="Look for its processes on the host, and try again."
            )
        time.sleep(0.002)
    if not state.sweep_one(record.info.id, _SECONDS_TO_END):
        raise SandboxError(
            f"Private files of the sandbox {record.info.id} could not be removed.",
            hint="The next sandbox that is made tries again.",
        )
    collect()


def _kill(held: Held) -> None:
    """End the first process of the sandbox, and with it all others. Its number may be somebody else's by now."""
    with suppress(ProcessLookupError):
        if held.pid and held.started:
            fd = os.pidfd_open(held.pid)
            try:
                if _started(held.pid) == held.started:
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)


def _started(pid: int) -> int:
    """When a process was started, in the kernel's own count; 0 if it is not there."""
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])
    return 0
