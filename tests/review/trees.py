"""All that counts about a tree. The standard library alone: it also runs inside."""

import os
import stat


def tree(top: str) -> dict[str, tuple[object, ...]]:
    """Kinds, modes, contents and targets, by path."""
    found: dict[str, tuple[object, ...]] = {}
    pending = [b""]
    while pending:
        directory = pending.pop()
        for name in os.listdir(os.path.join(os.fsencode(top), directory)):
            relative = os.path.join(directory, name)
            path = os.path.join(os.fsencode(top), relative)
            info = os.lstat(path)
            found[os.fsdecode(relative)] = entry(path, info)
            if stat.S_ISDIR(info.st_mode):
                pending.append(relative)
    return dict(sorted(found.items()))


def entry(path: bytes, info: os.stat_result) -> tuple[object, ...]:
    if stat.S_ISLNK(info.st_mode):
        return ("link", os.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        return ("directory" if stat.S_ISDIR(info.st_mode) else "other", info.st_mode & 0o777)
    with open(path, "rb") as file:
        return ("file", info.st_mode & 0o777, file.read())
