"""Putting chosen changes on the host: looked at once more, staged, and then carried out to the end."""

from collections.abc import Sequence
from dataclasses import dataclass

from paddock.errors import ConflictError, PermissionDeniedError, SandboxError, UnavailableError, visible
from paddock.paths import join
from paddock.review import journal
from paddock.review.bounds import Bounds, Spending
from paddock.review.carry import Left, carry_out, is_still, is_there
from paddock.review.emptied import STAYS, UNSHOWN, unshown
from paddock.review.findings import Found
from paddock.review.host import Host
from paddock.review.journal import Journal
from paddock.review.plan import Plan, Root, steps
from paddock.review.shown import Opener, Shown, copy_out
from paddock.review.tree import Seen
from paddock.types.review import Applied, Layer

_MOST_NAMED = 5
_BOTH = "Look at both and pass overwrite=True, or apply other paths."
_AGAIN = "Call changes() again and look at what is there now; nothing was applied."


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be applied, and where it comes from."""

    layers: tuple[Layer, ...]
    found: tuple[Found, ...]
    contents: Opener

    @property
    def roots(self) -> tuple[Root, ...]:
        return tuple(Root.of(layer) for layer in self.layers)

    @property
    def applicable(self) -> tuple[Found, ...]:
        return tuple(one for one in self.found if one.is_applicable)


def refuse_conflicts(found: Sequence[Found]) -> None:
    """A `ConflictError` that names the host's files that are not the ones that the sandbox began with."""
    conflicts = [one.change for one in found if one.change.conflict is not None]
    if not conflicts:
        return
    named = ", ".join(f"'{visible(change.path)}'" for change in conflicts[:_MOST_NAMED])
    more = f" and {len(conflicts) - _MOST_NAMED} more" if len(conflicts) > _MOST_NAMED else ""
    raise ConflictError(
        f"The host has something else at {named}{more}: {conflicts[0].conflict}",
        path=conflicts[0].path,
        hint=STAYS if any(one.conflict == UNSHOWN for one in conflicts) else _BOTH,
    )


def check(order: Order, spending: Spending | None = None) -> tuple[Found, ...]:
    """Those that are still to be done, if both sides are as they were at the look; else a `ConflictError`."""
    spending = spending or Bounds()
    with order.contents() as shown, journal.opened(order.roots) as hosts:
        return _checked(order, shown, hosts, spending)


def apply(order: Order) -> Applied:
    """Do it. After this returns or raises, each file is as it was or as it was shown, and an error says which were left."""
    spending = Bounds()
    with order.contents() as shown, journal.opened(order.roots) as hosts, journal.begun() as kept:
        todo = _checked(order, shown, hosts, spending)
        plan = _committed(Order(order.layers, todo, order.contents), shown, hosts, kept)
        left = _carried_out(plan, hosts, kept)
    if left:
        raise _unfinished(left)
    done = {one.change.path for one in todo}
    skipped = {one.change.path for one in order.found if not one.is_applicable}
    return Applied(
        paths=tuple(sorted(done)),
        unchanged=tuple(one.change.path for one in order.applicable if one.change.path not in done),
        skipped=tuple(sorted(skipped)),
    )


def _checked(order: Order, shown: Shown, hosts: Sequence[Host], spending: Spending) -> tuple[Found, ...]:
    todo = []
    for one in order.applicable:
        spending.spend(entries=1)
        shown.check(one, spending)
        if not _is_done(one, hosts[one.layer], spending):
            _check_host(one, hosts[one.layer], spending)
            todo.append(one)
    _check_emptied(todo, hosts, spending)
    return tuple(todo)


def _is_done(one: Found, host: Host, spending: Spending) -> bool:
    """Whether the host has it so already."""
    try:
        there = is_there(host, one.relative, one.new, spending)
        return there and (one.old_relative is None or host.look(one.old_relative) is None)
    except PermissionError:
        return False


def _check_host(one: Found, host: Host, spending: Spending) -> None:
    try:
        same = is_still(host, one.relative, one.host, spending)
        if one.old_relative is not None:
            same = same and is_still(host, one.old_relative, one.old_host, spending)
        if one.change.operation == "mode":
            same = same and _mode(host.look(one.relative)) == _mode(one.host)
    except PermissionError as error:
        raise PermissionDeniedError(
            f"'{visible(one.change.path)}' cannot be reached on the host.",
            path=one.change.path,
            hint="Change the modes of the directories that it is in, there; nothing was applied.",
        ) from error
    if not same:
        raise ConflictError(
            f"'{visible(one.change.path)}' was changed on the host since changes() was called.",
            path=one.change.path,
            hint=_AGAIN,
        )


def _mode(found: Seen | None) -> int | None:
    return None if found is None else found.mode


def _check_emptied(todo: Sequence[Found], hosts: Sequence[Host], spending: Spending) -> None:
    """A directory that is to go holds nothing that nobody was shown."""
    for one, name in unshown(todo, dict(enumerate(hosts)), spending):
        path = join(one.change.path, name)
        raise ConflictError(
            f"'{visible(one.change.path)}' is to be removed, and '{visible(path)}' in it was not shown.",
            path=path,
            hint=f"{STAYS} Nothing was applied.",
        )


def _committed(order: Order, shown: Shown, hosts: Sequence[Host], kept: Journal) -> Plan:
    """The plan, with all contents in the journal, and both sides looked at for the last time."""
    spending = Bounds()
    try:
        plan = Plan(kept.id, order.roots, steps(order.found, hosts))
        _stage(plan, order.found, shown, kept, spending)
        for one in order.found:
            shown.check(one, spending)
            _check_host(one, hosts[one.layer], spending)
        kept.commit(plan)
    except SandboxError:
        raise
    except OSError as error:
        raise UnavailableError(
            f"What is to be applied cannot be staged: {error.strerror}.",
            hint="Free some space, or set PADDOCK_STATE to an absolute path elsewhere; nothing was applied.",
        ) from error

    return plan


def _carried_out(plan: Plan, hosts: Sequence[Host], kept: Journal) -> tuple[Left, ...]:
    try:
        left = carry_out(plan, kept.contents, hosts)
    except OSError as error:
        raise UnavailableError(
            f"What was agreed to cannot be finished now: {error.strerror}.", hint="The next run of Paddock finishes it."
        ) from error
    kept.done()
    return left


def _stage(plan: Plan, todo: Sequence[Found], shown: Shown, kept: Journal, spending: Spending) -> None:
    by_place, sync = {(one.layer, one.relative): one for one in todo}, plan.is_small
    for step in plan.steps:
        if step.content is not None:
            copy_out(shown, by_place[step.layer, step.relative], kept.staging / step.content, spending, sync=sync)


def _unfinished(left: Sequence[Left]) -> ConflictError:
    named = "; ".join(f"'{visible(one.path)}': {one.why}" for one in left[:_MOST_NAMED])
    more = f" ({len(left) - _MOST_NAMED} more)" if len(left) > _MOST_NAMED else ""
    return ConflictError(
        f"Not everything could be applied. {named}{more}",
        path=left[0].path,
        hint="What is not named here is applied. Call changes() again and look at what is left.",
    )
