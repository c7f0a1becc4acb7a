"""Where a symbolic link leads: still into the directory that it lies in, or out of it."""

from collections.abc import Callable

from paddock.review.tree import Seen

_MOST_STEPS = 400
Look = Callable[[str], Seen | None]


def leads_out(relative: str, target: str, look: Look) -> bool:
    """Whether a link at `relative`, followed through all others, leaves the tree that `look` looks at.

    An absolute one always does: on the host the mount has another path. What is in a circle or far away is taken to.
    """
    here = relative.split("/")[:-1]
    ahead = target.split("/")[::-1]
    if target.startswith("/"):
        return True
    for _ in range(_MOST_STEPS):
        if not ahead:
            return False
        name = ahead.pop()
        if name == "..":
            if not here:
                return True
            here.pop()
        elif name not in ("", "."):
            here.append(name)
            found = look("/".join(here))
            if found is not None and found.kind == "link" and found.target is not None:
                if found.target.startswith("/"):
                    return True
                here.pop()
                ahead += found.target.split("/")[::-1]
    return True
