"""Coding agents in sandboxes: one object that runs any of them, and tells what they do by the same events."""

import paddock.runners.agents  # noqa: F401 - now, as a folder that is loaded later takes the place of a function of its name
from paddock.runners.events import (
    Done,
    Event,
    Failed,
    Log,
    Progress,
    Started,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from paddock.runners.messages import Message
from paddock.runners.options import Options
from paddock.runners.programs import Program
from paddock.runners.registry import agents, find_agent
from paddock.runners.runner import Run, Runner
from paddock.runners.sessions import Sessions

__all__ = [
    "Done",
    "Event",
    "Failed",
    "Log",
    "Message",
    "Options",
    "Program",
    "Progress",
    "Run",
    "Runner",
    "Sessions",
    "Started",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Usage",
    "agents",
    "find_agent",
]
