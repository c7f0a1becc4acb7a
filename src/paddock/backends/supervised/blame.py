"""Which limit ended a command."""

import signal
from collections.abc import Callable, Mapping

Hits = Callable[[], Mapping[str, int]]
"""How often each limit of the sandbox was met so far."""

_FILE_TOO_LARGE = 128 + signal.SIGXFSZ
_COUNTED = ("memory", "pids")


class Blame:
    """What is known of a sandbox's limits. Where none is counted, looking costs nothing."""

    def __init__(self, hits: Hits | None) -> None:
        self._hits = hits

    def now(self) -> Mapping[str, int]:
        """The counters as they are. A command is compared with those of its start: one before it may have met a limit too."""
        return {} if self._hits is None else self._hits()

    def limit(self, exit_code: int, before: Mapping[str, int]) -> str | None:
        """The limit that was met since `before`, when it was this command that failed.

        Counters are the sandbox's and not the command's: of several that fail at once, all are told.
        """
        if exit_code == 0:
            return None
        if exit_code == _FILE_TOO_LARGE:
            return "file_size"
        now = self.now()
        return next((name for name in _COUNTED if now.get(name, 0) > before.get(name, 0)), None)
