"""`changes()`: what a sandbox did to host directories that it cannot write to, with what the rest of a sandbox adds to it."""

from collections.abc import Iterable

from paddock import review
from paddock.consent import Consent
from paddock.errors import UnsupportedError
from paddock.review import ChangeSet
from paddock.review.bounds import Bounds
from paddock.review.changeset import Restore
from paddock.review.findings import Findings
from paddock.review.restoring import restore
from paddock.sandbox.budget import Budget
from paddock.sandbox.copies import layers
from paddock.sandbox.core import Core
from paddock.sandbox.operation import Gate, Operation
from paddock.types.consent import Approval
from paddock.types.review import Applied, Change


class SandboxChanges(ChangeSet):
    """The changes of a sandbox that runs: what is done with them are events of it."""

    def __init__(self, findings: Findings, consent: Consent, gate: Gate, put_back: Restore) -> None:
        super().__init__(findings, consent, restore=put_back)
        self._gate = gate

    async def apply(
        self,
        paths: Iterable[str | Change] | None = None,
        *,
        overwrite: bool = False,
        approval: Approval | str | None = None,
    ) -> Applied:
        with Operation(self._gate, "review", "apply", None) as operation:
            applied = await super().apply(paths, overwrite=overwrite, approval=approval)
            operation.count = len(applied.paths)
            return applied

    async def discard(self) -> None:
        with Operation(self._gate, "review", "discard", None) as operation:
            operation.count = len(self)
            await super().discard()

    async def keep(self, name: str | None = None) -> str:
        with Operation(self._gate, "review", "keep", None) as operation:
            operation.count = len(self)
            operation.target = await super().keep(name)
            return operation.target


async def changes(core: Core, gate: Gate) -> ChangeSet:
    """What changed by now."""
    found = tuple(layers(core.launched).values())
    if not found:
        raise UnsupportedError(
            "This sandbox works on its directories directly: there is nothing to review.",
            backend=core.launched.spec.name,
            capability="review",
            hint="Create it with review=True.",
        )
    budget = Budget(seconds=None)
    bounds = Bounds(check=budget.spend)
    findings = await core.in_thread(budget, lambda: review.look(found, bounds, core.running))

    async def put_back(findings: Findings) -> None:
        mounts = [core.launched.driver.dir(layer.target) for layer in found]
        await core.in_thread(Budget(seconds=None), lambda: restore(findings, mounts))

    return SandboxChanges(findings, core.consent, gate, put_back)
