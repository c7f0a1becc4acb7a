"""Sandboxes for evaluations with Inspect: `sandbox="paddock"` in a task, with a `PaddockConfig` or the name of a backend."""

import math
from pathlib import PurePath
from typing import Any, Literal, overload

from paddock.extras import need

need("inspect-ai")

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import (
    SandboxEnvironmentConfigType,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from pydantic import BaseModel, ConfigDict, Field

from paddock import types
from paddock.errors import (
    ClosedError,
    ConfigError,
    NotFileError,
    NotFoundError,
    OutsideError,
    PermissionDeniedError,
    SandboxDiedError,
    TooLargeError,
    visible,
)
from paddock.sandbox import Sandbox
from paddock.types import Limits, Network

_NOT_EXECUTABLE = 126
_OWNER_MAY_WRITE = 0o200
_GO_THERE = 'cd -- "$1" || exit 1; shift; exec "$@"'
_LOOK = (
    '[ -d "$1" ] && exit 21; [ -e "$1" ] || exit 22; [ -r "$1" ] || exit 23; '
    '[ -f "$1" ] || exit 24; exec head -c "$2" -- "$1"'
)
"""What is no regular file may have no end, and a link that a model made may lead to it."""
_SEEN = {
    21: (NotFileError, "is a directory"),
    22: (NotFoundError, "is not there"),
    23: (PermissionDeniedError, "cannot be read"),
    24: (NotFileError, "is a pipe, a socket or a device"),
}


class PaddockConfig(BaseModel):
    """How the sandboxes of a task are made; what is left out is as in `Sandbox.create`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: str = "auto"
    image: str | None = None
    memory: str | None = None
    cpu: float | None = None
    pids: int | None = 1024
    network: tuple[str, ...] = ()
    """Hosts that may be reached, as for `Network.allow`; none unless named."""
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str = "/workspace"

    def __hash__(self) -> int:
        """Inspect keeps configurations in sets."""
        return hash(self.model_dump_json())


@sandboxenv(name="paddock")
class PaddockSandboxEnvironment(SandboxEnvironment):
    """One sandbox for each sample. Commands and files are those of `Sandbox`, with Inspect's errors and limits."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self.sandbox = sandbox
        self._users: tuple[str, ...] | None = None

    # Its life

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """A sandbox for a sample."""
        given = _config(config)
        sandbox = await Sandbox.create(
            given.backend,
            image=given.image,
            limits=Limits(memory=given.memory, cpu=given.cpu, pids=given.pids),
            network=Network.allow(*given.network) if given.network else Network.none(),
            env=given.env,
            workdir=given.workdir,
            timeout=None,
        )
        return {"default": cls(sandbox)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Close it, however the sample ended."""
        for environment in environments.values():
            await environment.as_type(cls).sandbox.close()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """A configuration out of a log."""
        return PaddockConfig(**config)

    def default_polling_interval(self) -> float:
        """How often Inspect's services look for requests: it costs little here."""
        return 0.2

    # Commands

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command. It is never run twice: one that ran out of time has done something already."""
        if user is not None:
            await self._check(user)
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        limit = math.inf if timeout is None else timeout
        result = await self._run(cmd, cwd, env=env, stdin=input, timeout=limit, max_output=most)
        if result.truncated:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, result.stdout)
        if result.exit_code == _NOT_EXECUTABLE and "permission denied" in result.stderr.lower():
            raise PermissionDeniedError(result.stderr.strip(), hint="Name a program that may be executed.")
        return ExecResult(result.exit_code == 0, result.exit_code, result.stdout, result.stderr)

    async def _run(self, cmd: list[str], cwd: str | None, **options: Any) -> types.ExecResult:
        try:
            return await self.sandbox.exec(cmd, cwd=cwd, **options)
        except OutsideError:  # commands may start where file calls do not reach
            return await self.sandbox.exec(["/bin/sh", "-c", _GO_THERE, "sh", cwd or ".", *cmd], **options)
        except (ClosedError, SandboxDiedError) as error:
            raise SandboxUnavailableError(str(error)) from error

    async def _check(self, user: str) -> None:
        """All commands of a sandbox run as one user."""
        if self._users is None:
            result = await self._run(["sh", "-c", "id -u; id -un"], None)
            self._users = tuple(result.stdout.split())
        if user not in self._users:
            raise SandboxUserUnsupportedError(
                f"Commands cannot run as {user!r} here: all run as {' or '.join(self._users) or 'one user'}."
            )

    # Files

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Put a file there; one that its owner may not write is left alone."""
        try:
            await self._need_writable(file)
            await self.sandbox.write(file, contents)
        except (ClosedError, SandboxDiedError) as error:
            raise SandboxUnavailableError(str(error)) from error

    async def _need_writable(self, file: str) -> None:
        try:
            found = await self.sandbox.stat(file)
        except NotFoundError:
            return
        if not found.is_dir and not found.mode & _OWNER_MAY_WRITE:
            raise PermissionDeniedError(
                f"'{visible(file)}' is read-only.", path=file, hint="Make it writable with chmod first."
            )

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """A whole file, also of the system's where commands can read that."""
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            data = await self.sandbox.read_bytes(file, limit=most + 1)
        except OutsideError as error:
            data = await self._read_by_command(file, most + 1, error)
        except TooLargeError:
            raise _too_long() from None
        except (ClosedError, SandboxDiedError) as error:
            raise SandboxUnavailableError(str(error)) from error
        if len(data) > most:
            raise _too_long()
        return data.decode() if text else data

    async def _read_by_command(self, file: str, limit: int, otherwise: OutsideError) -> bytes:
        result = await self._run(["/bin/sh", "-c", _LOOK, "sh", file, str(limit)], None, max_output=limit)
        if result.exit_code in _SEEN:
            kind, what = _SEEN[result.exit_code]
            raise kind(f"'{visible(file)}' {what}.", path=file)
        if result.exit_code:
            raise otherwise
        return result.stdout_bytes


def _too_long() -> OutputLimitExceededError:
    return OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)


def _config(given: SandboxEnvironmentConfigType | None) -> PaddockConfig:
    if given is None:
        return PaddockConfig()
    if isinstance(given, str):
        return PaddockConfig(backend=PurePath(given).name)  # Inspect takes a task's text for a file beside the task
    if isinstance(given, PaddockConfig):
        return given
    raise ConfigError(
        f"A {type(given).__name__} says nothing about a Paddock sandbox.",
        hint='Give a PaddockConfig, or the name of a backend: sandbox=("paddock", "docker").',
    )
