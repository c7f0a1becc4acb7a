"""What a manager holds in memory for one key."""

from dataclasses import replace
from time import perf_counter

from paddock.manager.clock import SteadyTime
from paddock.manager.entries import Entry
from paddock.manager.keys import Key, Place
from paddock.manager.lease import Lease
from paddock.manager.locks import FileLock
from paddock.manager.policies import Facts, Verdict, verdict
from paddock.types import ManagedInfo


class Slot:
    """One key: its lock, under which everything is done, what is kept about it, and who has leases."""

    def __init__(self, key: Key, time: SteadyTime) -> None:
        import asyncio

        self.key = key
        self.lock: asyncio.Lock = asyncio.Lock()
        self.entry: Entry | None = None
        self.leases: set[Lease] = set()
        self.place: Place | None = None
        self.hold: FileLock | None = None
        """Keeps the workspace, while there are leases or the sandbox is being made."""
        self.asking = 0
        """How many are about to use it, so that it must not be dropped."""
        self.leaving = 0
        """How many are at ending its sandbox, or a lease on it: a place may soon be free."""
        self._time = time
        self._used = time.monotonic()
        self._made = time.monotonic()

    @property
    def running(self) -> bool:
        """Whether it has a sandbox."""
        return self.entry is not None and self.entry.state == "running"

    @property
    def is_free(self) -> bool:
        """Whether it runs and nobody has a lease."""
        return self.running and not self.leases

    @property
    def may_have_died(self) -> bool:
        """Whether a lease has lost its sandbox."""
        return self.running and not all(lease._is_usable for lease in self.leases)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return self.entry is None and not self.leases and not self.asking and not self.lock.locked()

    def adopt(self, entry: Entry) -> None:
        """Go on with what is on disk, with its clocks."""
        self.entry = entry
        now = self._time.monotonic()
        self._used = now - self._time.since(entry.last_used)
        self._made = now - self._time.since(entry.created)

    def touch(self) -> None:
        """It is used now."""
        self._used = self._time.monotonic()

    def observe(self) -> None:
        """Notice the calls that were made through leases since the last look."""
        now = self._time.monotonic()
        for lease in self.leases:
            last = lease._was_called()
            if last is not None:
                self._used = max(self._used, now - max(perf_counter() - last, 0.0))

    @property
    def idle(self) -> float:
        """Seconds since it was last used."""
        return self._time.monotonic() - self._used

    @property
    def age(self) -> float:
        """Seconds since it was made."""
        return self._time.monotonic() - self._made

    def dated(self, entry: Entry) -> Entry:
        """The entry with the time of its last use, as it is kept on disk."""
        return replace(entry, last_used=self._time.now() - self.idle)

    def info(self, more: int = 0) -> ManagedInfo:
        """As it is told, with so many more leases."""
        assert self.entry is not None  # noqa: S101 - whoever asks has looked
        return self.dated(self.entry).info(len(self.leases) + more)

    def verdict(self) -> Verdict | None:
        """What its policy says now."""
        if self.entry is None:
            return None
        return verdict(self.entry.policy, Facts(self.entry.state, self.age, self.idle, len(self.leases)))

    def let_go(self) -> None:
        """Keep the workspace no longer, if nobody has a lease."""
        if self.hold is not None and not self.leases:
            self.hold.release()
            self.hold = None
