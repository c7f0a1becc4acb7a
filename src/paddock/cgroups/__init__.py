"""Control groups of this host: one for each sandbox, with the limits that it holds, and removing what a crash left."""

from paddock.cgroups.group import Group, make, watch
from paddock.cgroups.places import parent
from paddock.cgroups.removal import NAME, remove

__all__ = ["NAME", "Group", "make", "parent", "remove", "watch"]
