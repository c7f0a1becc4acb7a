"""The contract in parts, one noun each. `SandboxContract` is all of them."""

from paddock.testing.contract.commands import CommandsContract
from paddock.testing.contract.events import EventsContract
from paddock.testing.contract.files import FilesContract
from paddock.testing.contract.life import LifeContract
from paddock.testing.contract.links import LinksContract
from paddock.testing.contract.mounts import MountsContract
from paddock.testing.contract.paths import PathsContract
from paddock.testing.contract.ports import PortsContract
from paddock.testing.contract.review import ReviewContract
from paddock.testing.contract.search import SearchContract
from paddock.testing.contract.snapshots import SnapshotsContract
from paddock.testing.contract.trees import TreesContract
from paddock.testing.contract.views import ViewsContract


class SandboxContract(
    LifeContract,
    FilesContract,
    PathsContract,
    LinksContract,
    MountsContract,
    ViewsContract,
    TreesContract,
    SearchContract,
    EventsContract,
    CommandsContract,
    SnapshotsContract,
    ReviewContract,
    PortsContract,
):
    """Everything a backend has to keep. Override the fixture `backend`."""


__all__ = ["SandboxContract"]
