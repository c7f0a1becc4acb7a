"""`memory`: a sandbox without a process or a file, for testing code that uses one."""

from paddock.backends.memory.commands import Call, CommandFunction
from paddock.backends.memory.driver import Memory

__all__ = ["Call", "CommandFunction", "Memory"]
