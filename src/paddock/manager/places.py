"""How many sandboxes there may be: places that are taken before one is made, and given back when it is gone."""

from collections import Counter
from typing import TYPE_CHECKING

from paddock.errors import LimitReachedError, visible
from paddock.manager.keys import Key

if TYPE_CHECKING:
    import asyncio


class Places:
    """Who has a place. A set and no counter: giving back twice, or taking twice, changes nothing."""

    def __init__(self, max_total: int, max_per_user: int | None) -> None:
        self.max_total = max_total
        self.max_per_user = max_per_user
        self._taken: set[Key] = set()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def total(self) -> int:
        """How many are taken."""
        return len(self._taken)

    def has(self, key: Key) -> bool:
        """Whether this one has a place."""
        return key in self._taken

    def by_user(self) -> dict[str, int]:
        """How many each user has."""
        return dict(Counter(key.user for key in self._taken))

    def full_for(self, user: str) -> str | None:
        """The limit that leaves no room for one more, if there is one. That of the user comes first: it frees both."""
        if self.max_per_user is not None and self.by_user().get(user, 0) >= self.max_per_user:
            return "max_per_user"
        return "max_total" if len(self._taken) >= self.max_total else None

    def take(self, key: Key) -> None:
        """It is taken, whether there is room or not: what runs already is counted."""
        self._taken.add(key)

    def give_back(self, key: Key) -> None:
        """It is free again."""
        self._taken.discard(key)
        self.tell_waiting()

    def tell_waiting(self) -> None:
        """Something has changed: whoever waits for a place looks again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_change(self) -> None:
        """Wait until something has."""
        import asyncio

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future


def reached(limit: str, places: Places, user: str) -> LimitReachedError:
    """The error for a limit that leaves no room."""
    if limit == "max_per_user":
        words = f"The user '{visible(user)}' has {places.max_per_user} sandboxes, and may have no more"
    else:
        words = f"There are {places.max_total} sandboxes, and there may be no more"
    return LimitReachedError(
        f"{words} ({limit}); all of them are in use, or to be kept.",
        limit=limit,
        hint=f"Release a lease, remove a sandbox, or raise {limit}.",
    )
