"""Symbolic links, resolved in the sandbox's own tree: an absolute link means a sandbox path, never one of the host."""

from paddock import paths
from paddock.errors import NotDirectoryError, OutsideError, visible
from paddock.sandbox.mounts import MountTable

MAX_LINKS = 40


def canonical(table: MountTable, path: str, *, last: bool) -> str:
    """Where `path` leads when its links are followed (the last name only if `last`).

    Only reachable places are looked at. What comes after the first missing name is kept as it is. The answer may be
    out of date at once: it is opened without following any link, so an attacker who swaps one in gains nothing.
    """
    hops, done, rest = 0, "/", path.split("/")[1:]
    while rest:
        name, *rest = rest
        if name in ("", ".", ".."):
            done = paths.parent(done) if name == ".." else done
            continue
        here = paths.join(done, name)
        target = _link_at(table, here) if last or rest else None
        if target is None:
            done = here
            continue
        hops += 1
        if hops > MAX_LINKS:
            raise OutsideError(f"'{visible(path)}' leads through more than {MAX_LINKS} links.", path=path)
        done = "/" if target.startswith("/") else done
        rest = target.split("/") + rest
    return done


def _link_at(table: MountTable, path: str) -> str | None:
    """What the link at `path` holds; None if there is none, or if it is one of the directories above what is reachable."""
    if table.virtual(path) is not None:
        return None
    place = table.locate(path)
    if not place.relative:
        return None
    try:
        return place.dir.stat(place.relative).target
    except NotADirectoryError as error:
        raise NotDirectoryError(f"'{visible(paths.parent(path))}' is not a directory.", path=path) from error
    except FileNotFoundError:
        return None
