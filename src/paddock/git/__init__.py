"""The git gate: work leaves a sandbox as commits that a person has seen. It knows files and repositories, and no sandbox."""

from paddock.git.context import Files, GitContext
from paddock.git.gate import Git
from paddock.git.hostfiles import HostFiles

__all__ = ["Files", "Git", "GitContext", "HostFiles"]
