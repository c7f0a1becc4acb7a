"""The one `Sandbox`, written once over any `Driver`: files, commands, views and events. Nothing here knows a backend."""

from paddock.sandbox.pool import Acquisition, Pool
from paddock.sandbox.process import Process
from paddock.sandbox.sandbox import Creation, Sandbox
from paddock.sandbox.watch import Watch

__all__ = ["Acquisition", "Creation", "Pool", "Process", "Sandbox", "Watch"]
