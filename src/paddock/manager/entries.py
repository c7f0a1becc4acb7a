"""What a manager keeps about each sandbox on disk, so that the next one goes on where it stopped."""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paddock.errors import UnavailableError
from paddock.manager.keys import Key
from paddock.manager.policies import Policy
from paddock.state import private
from paddock.types.managed import ManagedInfo, ManagedState
from paddock.types.record import Record

VERSION = 1
_UNFINISHED = ".new-"


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """One sandbox that is kept for somebody. Whether it runs, its record says: this is what the record does not."""

    key: Key
    chat: str
    policy: Policy
    workspace: str
    state: ManagedState
    created: float
    last_used: float
    sandbox: str | None = None
    backend: str | None = None
    options: str = ""
    """A hash of what it was made with."""
    version: int = VERSION

    def info(self, leases: int | None = None) -> ManagedInfo:
        """As it is told."""
        return ManagedInfo(
            user=self.key.user,
            chat=self.chat,
            assistant=self.key.assistant,
            policy=self.policy.name,
            state=self.state,
            workspace=self.workspace,
            sandbox=self.sandbox,
            backend=self.backend,
            created=self.created,
            last_used=self.last_used,
            leases=leases,
        )


class Entries:
    """The entries of one manager: a file for each, replaced as a whole."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "entries"

    def read(self) -> list[Entry]:
        """All that can be read. One that a power cut spoilt is not missed: a sandbox that runs has labels too."""
        if not self._directory.is_dir():
            return []
        found = (_read(path) for path in sorted(self._directory.glob("*.json")))
        return [entry for entry in found if entry is not None]

    def tidy(self) -> None:
        """Remove what was being written. Only for the manager, which is the one that writes."""
        remove_unfinished(self._directory, "*.json")

    def find(self, key: Key) -> Entry | None:
        """The one of a key."""
        return _read(self._directory / f"{key.file_name()}.json")

    def write(self, entry: Entry) -> None:
        """Keep it, in place of what was kept before."""
        path = private(self._directory) / f"{entry.key.file_name()}.json"
        write_whole(path, json.dumps(entry.to_dict()))

    def forget(self, key: Key) -> None:
        """Keep it no longer."""
        with suppress(OSError):  # the next manager sees that nothing runs, and tries again
            (self._directory / f"{key.file_name()}.json").unlink()


def write_whole(path: Path, text: str) -> None:
    """All of it or nothing, for nobody else's eyes. It outlives the process; for a power cut there is no promise."""
    beside = path.with_name(f"{path.name}{_UNFINISHED}{secrets.token_hex(8)}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
        os.rename(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise UnavailableError(
            f"What the manager knows cannot be written: {error.strerror}.", hint="Free some space."
        ) from error


def remove_unfinished(directory: Path, name: str = "*") -> None:
    """What was being written when somebody was killed."""
    for path in directory.glob(f"{name}{_UNFINISHED}*"):
        with suppress(OSError):
            path.unlink()


def _read(path: Path) -> Entry | None:
    try:
        data = json.loads(path.read_bytes())
        return Entry.from_dict(data) if data["version"] == VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
