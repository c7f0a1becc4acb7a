"""Paddock: a place for coding agents to work, isolated, fast and reviewable.

Importing this package does no I/O and loads nothing else; each name below is loaded when it is first used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as type checkers know it; importing `typing` for it would be most of the cost of this module

if TYPE_CHECKING:
    from paddock.backends.docker import Docker as Docker
    from paddock.backends.local import Local as Local
    from paddock.backends.memory import Call as Call
    from paddock.backends.memory import Memory as Memory
    from paddock.backends.namespaces import Namespaces as Namespaces
    from paddock.bridge import Grant as Grant
    from paddock.bridge import McpServer as McpServer
    from paddock.bridge import Tool as Tool
    from paddock.bridge import ToolContext as ToolContext
    from paddock.consent import ApprovalPolicy as ApprovalPolicy
    from paddock.errors import AgentError as AgentError
    from paddock.errors import BridgeError as BridgeError
    from paddock.errors import ClosedError as ClosedError
    from paddock.errors import CommandFailedError as CommandFailedError
    from paddock.errors import ConfigError as ConfigError
    from paddock.errors import ConflictError as ConflictError
    from paddock.errors import ExecTimeoutError as ExecTimeoutError
    from paddock.errors import ExistsError as ExistsError
    from paddock.errors import GitAuthError as GitAuthError
    from paddock.errors import GitError as GitError
    from paddock.errors import InvalidPathError as InvalidPathError
    from paddock.errors import LimitReachedError as LimitReachedError
    from paddock.errors import NotAuthorizedError as NotAuthorizedError
    from paddock.errors import NotDirectoryError as NotDirectoryError
    from paddock.errors import NotEmptyError as NotEmptyError
    from paddock.errors import NotFileError as NotFileError
    from paddock.errors import NotFoundError as NotFoundError
    from paddock.errors import NotTextError as NotTextError
    from paddock.errors import OutsideError as OutsideError
    from paddock.errors import PermissionDeniedError as PermissionDeniedError
    from paddock.errors import QuotaExceededError as QuotaExceededError
    from paddock.errors import ReadOnlyError as ReadOnlyError
    from paddock.errors import SandboxDiedError as SandboxDiedError
    from paddock.errors import SandboxError as SandboxError
    from paddock.errors import TooLargeError as TooLargeError
    from paddock.errors import UnavailableError as UnavailableError
    from paddock.errors import UnsupportedError as UnsupportedError
    from paddock.gateway import Allowance as Allowance
    from paddock.gateway import Attachment as Attachment
    from paddock.gateway import Connector as Connector
    from paddock.gateway import Gateway as Gateway
    from paddock.gateway import Price as Price
    from paddock.gateway import router_config as router_config
    from paddock.git import Git as Git
    from paddock.manager import Lease as Lease
    from paddock.manager import Manager as Manager
    from paddock.review import ChangeSet as ChangeSet
    from paddock.sandbox import Pool as Pool
    from paddock.sandbox import Process as Process
    from paddock.sandbox import Sandbox as Sandbox
    from paddock.skills import Skill as Skill
    from paddock.skills import copy_skills as copy_skills
    from paddock.skills import load_skill as load_skill
    from paddock.skills import load_skills as load_skills
    from paddock.skills import skills_prompt as skills_prompt
    from paddock.tools.python import PythonError as PythonError
    from paddock.tools.python import PythonResult as PythonResult
    from paddock.tools.python import PythonSession as PythonSession
    from paddock.tools.python import RichOutput as RichOutput
    from paddock.types import Applied as Applied
    from paddock.types import Approval as Approval
    from paddock.types import ApprovalRequest as ApprovalRequest
    from paddock.types import Branch as Branch
    from paddock.types import Change as Change
    from paddock.types import Chunk as Chunk
    from paddock.types import Endpoint as Endpoint
    from paddock.types import Event as Event
    from paddock.types import ExecResult as ExecResult
    from paddock.types import FileEvent as FileEvent
    from paddock.types import FileInfo as FileInfo
    from paddock.types import Guarantee as Guarantee
    from paddock.types import Isolation as Isolation
    from paddock.types import Limits as Limits
    from paddock.types import ManagedInfo as ManagedInfo
    from paddock.types import ManagerStats as ManagerStats
    from paddock.types import Match as Match
    from paddock.types import Mount as Mount
    from paddock.types import Network as Network
    from paddock.types import ProcessInfo as ProcessInfo
    from paddock.types import PullResult as PullResult
    from paddock.types import PushResult as PushResult
    from paddock.types import Removal as Removal
    from paddock.types import RepoStatus as RepoStatus
    from paddock.types import SandboxInfo as SandboxInfo
    from paddock.types import Secret as Secret
    from paddock.types import Snapshot as Snapshot
    from paddock.types import StagedCommit as StagedCommit
    from paddock.types import StagedFile as StagedFile
    from paddock.types import Usage as Usage
    from paddock.types import WorkspaceInfo as WorkspaceInfo
    from paddock.types import error_from_dict as error_from_dict

_WHERE = {
    "paddock.backends.docker": ("Docker",),
    "paddock.backends.local": ("Local",),
    "paddock.backends.memory": ("Call", "Memory"),
    "paddock.backends.namespaces": ("Namespaces",),
    "paddock.bridge": ("Grant", "McpServer", "Tool", "ToolContext"),
    "paddock.consent": ("ApprovalPolicy",),
    "paddock.errors": (
        "AgentError",
        "BridgeError",
        "ClosedError",
        "CommandFailedError",
        "ConfigError",
        "ConflictError",
        "ExecTimeoutError",
        "ExistsError",
        "GitAuthError",
        "GitError",
        "InvalidPathError",
        "LimitReachedError",
        "NotAuthorizedError",
        "NotDirectoryError",
        "NotEmptyError",
        "NotFileError",
        "NotFoundError",
        "NotTextError",
        "OutsideError",
        "PermissionDeniedError",
        "QuotaExceededError",
        "ReadOnlyError",
        "SandboxDiedError",
        "SandboxError",
        "TooLargeError",
        "UnavailableError",
        "UnsupportedError",
    ),
    "paddock.gateway": ("Allowance", "Attachment", "Connector", "Gateway", "Price", "router_config"),
    "paddock.git": ("Git",),
    "paddock.manager": ("Lease", "Manager"),
    "paddock.review": ("ChangeSet",),
    "paddock.sandbox": ("Pool", "Process", "Sandbox"),
    "paddock.skills": ("Skill", "copy_skills", "load_skill", "load_skills", "skills_prompt"),
    "paddock.tools.python": ("PythonError", "PythonResult", "PythonSession", "RichOutput"),
    "paddock.types": (
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
        "ManagedInfo",
        "ManagerStats",
        "Match",
        "Mount",
        "Network",
        "ProcessInfo",
        "PullResult",
        "PushResult",
        "Removal",
        "RepoStatus",
        "SandboxInfo",
        "Secret",
        "Snapshot",
        "StagedCommit",
        "StagedFile",
        "Usage",
        "WorkspaceInfo",
        "error_from_dict",
    ),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = sorted([*_MODULES, "__version__"])  # pyright: ignore


if not TYPE_CHECKING:  # a type checker would take any name to be there

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module 'paddock' has no attribute {name!r}")
        value: object = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
