"""What a run does first: see to what earlier ones were cut off in."""

from paddock import state
from paddock.review import journal, store
from paddock.review.journal import Recovered


def recover() -> tuple[Recovered, ...]:
    """Finish or undo every apply that a crash cut off, and remove what is left of half kept reviews.

    What somebody is at is left to them, and so is all that lies in another user's state directory. Where there is nothing to
    do, nothing is made, and it takes no time.
    """
    if not state.is_own():
        return ()
    store.sweep()
    return journal.recover()
