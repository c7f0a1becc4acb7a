"""What running a command gives back."""

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """What a command used: seconds of processor time and the largest resident size in bytes."""

    cpu: float = 0.0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Chunk(Record):
    """A piece of a running command's output, as it came."""

    stream: Literal["stdout", "stderr"]
    data: bytes
    _carried: bytes = field(default=b"", repr=False, compare=False)
    _held: int = field(default=0, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The piece as text; bytes that are not UTF-8 are replaced. A character that was cut is whole in the next one."""
        whole = self._carried + self.data if self._carried else self.data
        return (whole[: len(whole) - self._held] if self._held else whole).decode("utf-8", "replace")

    def to_dict(self) -> dict[str, Any]:
        """Stream and data."""
        return {"stream": self.stream, "data": b64encode(self.data).decode()}


@dataclass(frozen=True, slots=True)
class ExecResult(Record):
    """How a command ended and what it printed. A nonzero `exit_code` is a result, not an error."""

    exit_code: int
    """The status; 128+n for signal n."""
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    truncated: bool = False
    """Whether a stream was longer than `max_output`; what is here is its beginning."""
    duration: float = 0.0
    usage: Usage = Usage()
    limit: str | None = None
    """The limit that ended it, if one did; also the sandbox's own `lifetime`."""

    @property
    def stdout(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; bytes that are not UTF-8 are replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ProcessInfo(Record):
    """A command that runs, or that ended and was not collected yet."""

    pid: int
    command: tuple[str, ...]
    started: float
    exit_code: int | None = None
