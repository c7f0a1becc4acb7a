"""The frozen values that cross Paddock's borders: what callers pass in and what they get back; no behaviour beyond that."""

from paddock.types.commands import Chunk, ExecResult, ProcessInfo, Usage
from paddock.types.consent import Approval, ApprovalRequest
from paddock.types.events import Event
from paddock.types.files import FileEvent, FileInfo, Match
from paddock.types.git import (
    Branch,
    LocalChange,
    PullResult,
    PushResult,
    RepoStatus,
    SkippedPath,
    StagedCommit,
    StagedFile,
)
from paddock.types.isolation import Guarantee, Isolation
from paddock.types.limits import Limits, parse_size
from paddock.types.managed import ManagedInfo, ManagerStats, Removal, WorkspaceInfo
from paddock.types.mounts import Mount
from paddock.types.network import Network, Secret
from paddock.types.ports import Endpoint
from paddock.types.record import Record
from paddock.types.review import Applied, Change
from paddock.types.sandboxes import SandboxInfo
from paddock.types.snapshots import Snapshot
from paddock.types.transport import error_from_dict

__all__ = [
    "Applied",
    "Approval",
    "ApprovalRequest",
    "Branch",
    "Change",
    "Chunk",
    "Endpoint",
    "Event",
    "ExecResult",
    "FileEvent",
    "FileInfo",
    "Guarantee",
    "Isolation",
    "Limits",
    "LocalChange",
    "ManagedInfo",
    "ManagerStats",
    "Match",
    "Mount",
    "Network",
    "ProcessInfo",
    "PullResult",
    "PushResult",
    "Record",
    "Removal",
    "RepoStatus",
    "SandboxInfo",
    "Secret",
    "SkippedPath",
    "Snapshot",
    "StagedCommit",
    "StagedFile",
    "Usage",
    "WorkspaceInfo",
    "error_from_dict",
    "parse_size",
]
