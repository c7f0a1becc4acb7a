"""The driver over a supervisor's channel: the same for every backend that has one."""

import os
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.backends.supervised.blame import Blame, Hits
from paddock.backends.supervised.output import Output
from paddock.backends.supervised.relays import RelayConnection, RelayListener, Relays, SocketPath
from paddock.backends.supervised.running import CommandRun
from paddock.backends.supervised.streams import (
    MOST_KEPT,
    WINDOW,
    FrameStreams,
    Pipes,
    PipeStreams,
    Streams,
    TerminalStreams,
    budget,
)
from paddock.dirs.protocol import Dir
from paddock.driver import Handler, Running, Spawn
from paddock.errors import ClosedError, ConfigError, NotFoundError, SandboxError
from paddock.paths import encode
from paddock.types import Isolation, ProcessInfo
from paddock.types.ports import RelayAddress
from paddock.types.review import Layer
from paddock.wire.channel import Channel
from paddock.wire.fields import Fields, Malformed, pack_text, pack_texts, pack_u32
from paddock.wire.frames import MAX_PAYLOAD, Frame, Reply, Request, SpawnFlag

if TYPE_CHECKING:
    import asyncio

_SPAWN = struct.Struct("<HHHIII")
_ROWS, _COLUMNS = 24, 80
_HAS_ENDED = 16
"""In a list, beside the flags of a command: then the high byte is its exit code."""
_SHELL = ("/bin/sh", "-c")
_SHELL_AND = pack_u32(len(_SHELL) + 1) + b"".join(pack_text(word.encode()) for word in _SHELL)
"""A list of texts that wants one more: what the shell is to run."""
_STDIN, _PTY, _QUIET, _DESCRIPTORS, _LEFT = (
    int(flag) for flag in (SpawnFlag.STDIN, SpawnFlag.PTY, SpawnFlag.QUIET, SpawnFlag.DESCRIPTORS, SpawnFlag.LEFT)
)


@dataclass(frozen=True, slots=True)
class Root:
    """One mount, as the supervisor knows it."""

    number: int
    dir: Dir
    host_path: str | None


@dataclass(frozen=True, slots=True)
class _Listed:
    """A command that runs; with `run` it is ours."""

    info: ProcessInfo
    flags: int
    run: CommandRun | None


class SupervisedDriver:
    """One sandbox with a supervisor."""

    def __init__(
        self,
        channel: Channel,
        roots: Mapping[str, Root],
        isolation: Isolation,
        environment: Mapping[str, str],
        end: Callable[[], Awaitable[None]],
        hits: Hits | None = None,
        *,
        detached: bool = False,
        layers: Mapping[str, Layer] | None = None,
        socket_path: SocketPath | None = None,
    ) -> None:
        """With `detached` the sandbox outlives this connection, and so do its commands in the background.

        `socket_path` says where a path of a socket inside really is; without it, there.
        """
        self.isolation = isolation
        self.environment = environment
        self.layers = {} if layers is None else layers
        self._channel = channel
        self._roots = roots
        self._end = end
        self._blame = Blame(hits)
        self._detached = detached
        self._attaching: asyncio.Lock | None = None
        self._runs: dict[int, CommandRun] = {}
        self._relays = Relays(channel, socket_path)
        self._packed: tuple[Mapping[str, str], bytes] = ({}, b"")

    @property
    def error(self) -> SandboxError | None:
        return self._channel.error

    def dir(self, target: str) -> Dir:
        return self._roots[target].dir

    def host_path(self, target: str) -> str | None:
        return self._roots[target].host_path

    async def spawn(self, command: Spawn) -> Running:
        if self._channel.error is not None:
            raise self._channel.error
        if self._channel.foreign:
            raise ClosedError("The sandbox belongs to the process that this one was forked from.")
        run = self._send(command)
        self._runs[run.id] = run
        if command.background:
            await run.started(or_kill=True)
            if command.left:
                run.leave()
            else:
                run.begin()
        return run

    async def processes(self) -> list[ProcessInfo]:
        return [listed.info for listed in await self._listed()]

    async def attach(self, pid: int) -> Running:
        import asyncio

        if self._attaching is None:
            self._attaching = asyncio.Lock()
        async with self._attaching:  # so that two who ask at once get the same
            for listed in await self._listed():
                if listed.info.pid == pid:
                    return listed.run or await self._take_over(listed)
        raise NotFoundError(f"No command with pid {pid} runs here.", hint="processes() lists those that do.")

    async def listen(self, address: RelayAddress, handler: Handler) -> RelayListener:
        return await self._relays.listen(address, handler)

    async def connect(self, address: RelayAddress) -> RelayConnection:
        return await self._relays.connect(address)

    def on_close(self, action: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        return self._relays.on_close(action)

    async def close(self) -> None:
        try:
            await self._relays.close()
        finally:
            await self._close()

    async def _close(self) -> None:
        for root in self._roots.values():  # first: the last handle of a file system in memory is what frees it
            root.dir.close()
        await self._end()

    async def _take_over(self, listed: "_Listed") -> CommandRun:
        id_ = self._channel.new_id()
        output = Output(MOST_KEPT, last=True)
        pty, stdin = bool(listed.flags & SpawnFlag.PTY), bool(listed.flags & SpawnFlag.STDIN)
        streams = FrameStreams(self._channel, id_, output, pty=pty, stdin=stdin, attached=True)
        run = CommandRun(
            self._channel, id_, listed.info.command, output, streams, self._blame, self._blame.now(), background=True
        )
        self._runs[id_] = run
        run.when_ended(lambda: self._forget(run, streams))
        self._channel.send(Request.ATTACH, id_, struct.pack("<II", listed.info.pid, WINDOW))
        await run.started(or_kill=False)
        return run

    async def _listed(self) -> "list[_Listed]":
        frames = await self._channel.ask(Request.PROCESSES)
        try:
            return [known for frame in frames for known in self._known(frame)]
        except Malformed as error:
            raise self._channel.fail(error) from None

    def _known(self, frame: Frame) -> "Iterator[_Listed]":
        if frame.type != Reply.PROCESSES:
            raise Malformed("the list of processes is none")
        fields = Fields(frame.payload)
        fields.u8()
        for _ in range(fields.u32()):
            id_, pid, flags, started, argv = fields.u32(), fields.u32(), fields.u16(), fields.u64(), fields.texts()
            run = self._runs.get(id_)
            if run is not None and run.running:
                run.pid = pid
                yield _Listed(ProcessInfo(pid, run.words, started / 1e6), flags, run)
            elif id_ == 0 and self._detached:
                exit_code = flags >> 8 if flags & _HAS_ENDED else None
                yield _Listed(ProcessInfo(pid, _words(argv), started / 1e6, exit_code), flags, None)
        fields.end()

    def _send(self, command: Spawn) -> CommandRun:
        id_ = self._channel.new_id()
        hits = self._blame.now()
        pipes = self._order(command, id_)
        # From here on the command starts. What it says is heard on the loop, when all of this is done.
        output = Output(command.max_output, last=command.background)
        output.held = command.background
        streams = self._streams(command, id_, output, pipes)
        run = CommandRun(
            self._channel, id_, command.argv, output, streams, self._blame, hits, background=command.background
        )
        run.when_ended(lambda: self._forget(run, streams))
        return run

    def _order(self, command: Spawn, id_: int) -> Pipes | None:
        """Have it started; with pipes, if they can be sent along."""
        payload = self._payload(command)
        pipes = self._pipes(command)
        if pipes is not None and pipes.theirs:
            order = self._head(command, descriptors=True) + payload
            if self._channel.send_with(pipes.theirs, Request.SPAWN, id_, order):
                return pipes
            # The kernel takes no more of this user's: somebody, perhaps in another sandbox, sends many and receives none.
            pipes.close()
            budget.give_back()
            pipes = None
        self._channel.send(Request.SPAWN, id_, self._head(command, descriptors=pipes is not None) + payload)
        return pipes

    def _head(self, command: Spawn, *, descriptors: bool) -> bytes:
        flags = _flags(command, descriptors=descriptors)
        window = 0 if command.left else WINDOW
        return _SPAWN.pack(flags, _ROWS, _COLUMNS, window, self._keep(command), self._roots[command.mount].number)

    def _pipes(self, command: Spawn) -> Pipes | None:
        """Pipes of our own where they can travel, are not too many, and need not outlive us; else frames.

        A terminal has none: what it has of its own is sent by the supervisor.
        """
        lasting = self._detached and command.background
        if lasting or not self._channel.descriptors or not budget.take():
            return None
        try:
            return Pipes(0 if command.pty else 3 if command.stdin else 2)
        except OSError:  # out of descriptors after all
            budget.give_back()
            return None

    def _streams(self, command: Spawn, id_: int, output: Output, pipes: Pipes | None) -> Streams:
        if pipes is None:
            return FrameStreams(self._channel, id_, output, pty=command.pty, stdin=command.stdin)
        pipes.sent()
        streams = (TerminalStreams if command.pty else PipeStreams)(self._channel, output, pipes.ours)
        if not command.background:
            streams.resume_later()
        return streams

    def _keep(self, command: Spawn) -> int:
        """How much of its output the supervisor keeps for whoever attaches."""
        return min(command.max_output, MOST_KEPT) if self._detached and command.background else 0

    def _forget(self, run: CommandRun, streams: Streams) -> None:
        self._runs.pop(run.id, None)
        if isinstance(streams, PipeStreams):
            budget.give_back()

    def _payload(self, command: Spawn) -> bytes:
        if self._packed[0] is not command.env:  # most commands of a sandbox have the same
            variables = [os.fsencode(f"{name}={value}") for name, value in command.env.items()]
            self._packed = (command.env, pack_texts(variables))
        if command.shell:
            words = _SHELL_AND + pack_text(os.fsencode(command.argv[0]))
        else:
            words = pack_texts([os.fsencode(word) for word in command.argv])
        payload = b"".join((pack_text(encode(command.relative)), words, self._packed[1]))
        if len(payload) > MAX_PAYLOAD - _SPAWN.size:
            raise ConfigError(
                "The command and its environment are too long.", hint="Pass large input by stdin or a file."
            )
        return payload


def _words(argv: list[bytes]) -> tuple[str, ...]:
    """The words of a command as its user gave them: a text for the shell is one."""
    words = tuple(os.fsdecode(word) for word in argv)
    return words[2:] if words[:2] == _SHELL and len(words) == len(_SHELL) + 1 else words


def _flags(command: Spawn, *, descriptors: bool) -> int:
    kind = _STDIN * command.stdin + _PTY * command.pty + _QUIET * (not command.background)
    return kind + _DESCRIPTORS * descriptors + _LEFT * command.left
