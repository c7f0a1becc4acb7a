"""What a sandbox changed in a host directory that it cannot write to: found, shown, applied, kept, forgotten.

It is given layers and writes to host directories; how layers are mounted and what a command line looks like are not its
concern.
"""

from paddock.review.changes import find as find
from paddock.review.changes import look as look
from paddock.review.changeset import ChangeSet as ChangeSet
from paddock.review.journal import Recovered as Recovered
from paddock.review.recovery import recover as recover
