"""Which of the changes are meant: all of them, or those at some paths and below, with the directories they need."""

from collections.abc import Iterable, Iterator

from paddock.errors import InvalidPathError, NotFoundError, visible
from paddock.paths import normalise, parent
from paddock.review.findings import Found
from paddock.types.review import Change

_MOST_NAMED = 5


def chosen(found: tuple[Found, ...], paths: Iterable[str | Change] | None) -> tuple[Found, ...]:
    """Those at `paths` or below. A path at which nothing changed is a `NotFoundError`.

    A renamed file is meant by its old path as well. A directory that something chosen is in comes along if it is new. A
    `Change` instead of a path means just that one, and nothing below it.
    """
    if paths is None:
        return found
    given = [paths] if isinstance(paths, str) else list(paths)
    exactly = {item.path for item in given if isinstance(item, Change)}
    known = {one.change.path for one in found}
    wanted = {
        path if path in known else _absolute(path) for path in given if not isinstance(path, Change)
    }  # what was found may have a path that is longer than a call would take
    hit, meant, needed = set[str](), exactly & known, set[str]()
    known_by: dict[str, frozenset[str]] = {}
    for missing in sorted(exactly - known):
        raise _unknown(missing, found)
    for one in found:
        by = {above for path in _paths(one) for above in _covering(path, wanted, known_by)}
        if by:
            meant.add(one.change.path)
            hit |= by
    for missing in sorted(wanted - hit):
        raise _unknown(missing, found)
    for path in meant:
        while path not in needed and path != "/":
            needed.add(path)
            path = parent(path)
    return tuple(one for one in found if one.change.path in meant or (one.change.path in needed and _makes(one)))


def _makes(one: Found) -> bool:
    return one.change.kind == "directory" and one.change.operation in ("create", "update")


def _paths(one: Found) -> Iterator[str]:
    yield one.change.path
    if one.change.old_path is not None:
        yield one.change.old_path


def _covering(path: str, wanted: set[str], known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Those of `wanted` at which a path lies, or below which. Each directory is looked at once, however many lie in it."""
    climbed = []
    while path not in known:
        climbed.append(path)
        if path == "/":
            break
        path = parent(path)
    above = known.get(path, frozenset[str]())
    for path in reversed(climbed):
        above = known[path] = above | {path} if path in wanted else above
    return above


def _absolute(path: str) -> str:
    if isinstance(path, str) and not path.startswith("/"):
        raise InvalidPathError(
            f"'{visible(path)}' is a relative path.", path=path, hint="Name the path as the change has it."
        )
    return normalise(path)


def _unknown(path: str, found: tuple[Found, ...]) -> NotFoundError:
    named = ", ".join(visible(one.change.path) for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return NotFoundError(
        f"Nothing changed at '{visible(path)}'.",
        path=path,
        hint=f"What changed: {named}{more}." if found else "Nothing changed at all.",
    )
