"""Cheap copies of a workspace: kept by content, so that what did not change costs nothing. No sandbox belongs here."""

from paddock.snapshots.base import Base
from paddock.snapshots.bounds import Bounds, Work
from paddock.snapshots.comparing import diff
from paddock.snapshots.restoring import Restored, restore
from paddock.snapshots.store import Store
from paddock.snapshots.taking import take

__all__ = ["Base", "Bounds", "Restored", "Store", "Work", "diff", "restore", "take"]
