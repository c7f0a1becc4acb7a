"""Reviews that were kept for later, to be looked at, applied and forgotten when the sandbox is gone."""

import builtins
from collections.abc import Iterable

from paddock.consent import Consent
from paddock.finishing import in_thread
from paddock.review import store
from paddock.review.changeset import ChangeSet, Runner
from paddock.review.shown import Shown
from paddock.review.store import KeptContents, KeptInfo, KeptReview
from paddock.types.consent import Approval
from paddock.types.review import Applied, Change


class Kept(ChangeSet):
    """A `ChangeSet` that is on disk. What is applied leaves it; with the last that can be applied it is gone."""

    def __init__(self, review: KeptReview, consent: Consent, run: Runner = in_thread) -> None:
        self.info = review.info
        super().__init__(review.findings, consent, contents=lambda: _Open(review.info.id), run=run)

    async def apply(
        self,
        paths: Iterable[str | Change] | None = None,
        *,
        overwrite: bool = False,
        approval: Approval | str | None = None,
    ) -> Applied:
        """As of any `ChangeSet`. A host directory that is gone is a `NotFoundError` that names it."""
        self._refuse_over()
        await self._run(lambda: store.check_there(self._findings))
        return await super().apply(paths, overwrite=overwrite, approval=approval)

    async def discard(self) -> None:
        """Forget it, with all of its contents. The host's files are not touched."""
        self._refuse_over()
        await self._run(lambda: store.discard(self.info.id))
        self._over = True

    async def _after(self, applied: Applied) -> None:
        gone = frozenset(applied.paths + applied.unchanged)
        self._findings = self._findings.without(gone)
        self._changes = tuple(one.change for one in self._findings.found)
        self._over = not self._changes
        await self._run(lambda: store.without(self.info.id, gone))


class _Open(KeptContents):
    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def list() -> builtins.list[KeptInfo]:
    """All that are kept, the oldest first."""
    return builtins.list(store.infos())


def load(id_or_name: str, consent: Consent, run: Runner = in_thread) -> Kept:
    """The one with this id, or else this name. Its conflicts are those with what the host has now.

    If the host directory is gone, every change is in conflict. An unknown one is a `NotFoundError` that names what there is.
    """
    return Kept(store.load(id_or_name), consent, run)


def discard(id_or_name: str) -> str:
    """Forget one, whatever became of its host directory, without opening it; its id. Unknown is a `NotFoundError`."""
    return store.discard(id_or_name)
