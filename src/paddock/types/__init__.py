"""The frozen values that cross Paddock's borders: what callers pass in and what they get back; no behaviour beyond that."""

from paddock.types.commands import Chunk, ExecResult, ProcessInfo, Usage
from paddock.types.events import Event
from paddock.types.files import FileEvent, FileInfo, Match
from paddock.types.isolation import Guarantee, Isolation
from paddock.types.limits import Limits, parse_size
from paddock.types.mounts import Mount
from paddock.types.network import Network, Secret
from paddock.types.record import Record
from paddock.types.sandboxes import SandboxInfo
from paddock.types.transport import error_from_dict

__all__ = [
    "Chunk",
    "Event",
    "ExecResult",
    "FileEvent",
    "FileInfo",
    "Guarantee",
    "Isolation",
    "Limits",
    "Match",
    "Mount",
    "Network",
    "ProcessInfo",
    "Record",
    "SandboxInfo",
    "Secret",
    "Usage",
    "error_from_dict",
    "parse_size",
]
