"""`ChangeSet`: what a sandbox changed, for a person or a program to decide about."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, overload

from paddock.consent import Consent
from paddock.errors import ConflictError, UnsupportedError
from paddock.finishing import in_thread
from paddock.review import applying, store, summary
from paddock.review.applying import Order
from paddock.review.choice import chosen
from paddock.review.findings import Findings, Found, digest
from paddock.review.shown import Opener, Uppers
from paddock.types.consent import Approval
from paddock.types.review import Applied, Change

T = TypeVar("T")

Restore = Callable[[Findings], Awaitable[None]]
"""Makes what was found in the living sandbox what the host has: `restoring.restore`, with the sandbox's directories."""


class Runner(Protocol):
    """Runs what blocks somewhere else, and waits for its end."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """Some of the changes, as somebody is asked about them: an approval is given for `subject` and `digest`."""

    changes: tuple[Change, ...]
    subject: str
    """The host directories that are written to."""
    digest: str
    summary: str


class ChangeSet(Sequence[Change]):
    """What changed, as it was when it was looked at, sorted by path. Nothing has left the sandbox yet."""

    def __init__(
        self,
        findings: Findings,
        consent: Consent,
        *,
        restore: Restore | None = None,
        contents: Opener | None = None,
        run: Runner = in_thread,
    ) -> None:
        self._findings = findings
        self._changes = tuple(one.change for one in findings.found)
        self._consent = consent
        self._restore = restore
        self._contents: Opener = contents or (lambda: Uppers(findings.layers))
        self._run = run
        self._over = False

    @property
    def changes(self) -> tuple[Change, ...]:
        """All of them."""
        return self._changes

    @property
    def conflicts(self) -> tuple[Change, ...]:
        """Those where the host's file is not the one that the sandbox began with."""
        return tuple(change for change in self.changes if change.conflict is not None)

    @property
    def flagged(self) -> tuple[Change, ...]:
        """Those that a person should look at twice."""
        return tuple(change for change in self.changes if change.flags)

    @property
    def digest(self) -> str:
        """The hash of everything that `apply()` would write."""
        return digest(self._findings.layers, self._findings.found)

    def __len__(self) -> int:
        return len(self._changes)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Change, ...]: ...
    def __getitem__(self, index: int | slice) -> Change | tuple[Change, ...]:
        return self.changes[index]

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {summary.headline(self.changes)}>"

    def choose(self, paths: Iterable[str | Change] | None = None) -> Choice:
        """What `apply(paths)` would do. A path at which nothing changed is a `NotFoundError`."""
        return self._choice(chosen(self._findings.found, paths))

    async def apply(
        self,
        paths: Iterable[str | Change] | None = None,
        *,
        overwrite: bool = False,
        approval: Approval | str | None = None,
    ) -> Applied:
        """Write to the host exactly what was shown: all, or what is at `paths` and below.

        Each file is written at once or not at all, and a crash in the middle is finished or undone by `review.recover`.
        A path at which nothing changed is a `NotFoundError`. What changed since it was shown, on either side, is a
        `ConflictError`, and nothing is applied; a host file that changed since the sandbox began as well, unless
        `overwrite`. Without consent it is a `NotAuthorizedError`. Pipes, sockets and devices are skipped.
        """
        self._refuse_over()
        found = chosen(self._findings.found, paths)
        if not overwrite:
            applying.refuse_conflicts(found)
        order = Order(self._findings.layers, found, self._contents)
        await self._run(lambda: applying.check(order))
        choice = self._choice(found)
        await self._consent.ask("apply", choice.subject, choice.digest, choice.summary, approval)
        applied = await self._run(lambda: applying.apply(order))
        await self._after(applied)
        return applied

    async def discard(self) -> None:
        """Forget all of it: the sandbox sees what the host has again. The host is not touched."""
        self._refuse_over()
        if self._restore is None:
            raise UnsupportedError("This sandbox cannot put back what it changed.", capability="discard")
        await self._restore(self._findings)
        self._over = True

    async def keep(self, name: str | None = None) -> str:
        """Keep it on this host, contents and all, for after the sandbox's end; returns its id."""
        self._refuse_over()
        return await self._run(lambda: store.keep(self._findings, self._contents, name))

    async def _after(self, applied: Applied) -> None:
        """For those who keep more than a sandbox does."""

    def _choice(self, found: tuple[Found, ...]) -> Choice:
        layers = self._findings.layers
        subject = ", ".join(sorted({layers[one.layer].lower for one in found}))
        changes = tuple(one.change for one in found)
        return Choice(changes, subject, digest(layers, found), summary.headline(changes))

    def _refuse_over(self) -> None:
        if self._over:
            raise ConflictError("These changes were discarded.", hint="Call changes() to see what there is now.")
