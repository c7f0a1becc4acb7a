"""The log of this program, where nobody has set up another: warnings on standard error, as text in which nothing acts."""

import logging


class _Inert(logging.Formatter):
    """An error may say what an agent or a model wrote, in a traceback too."""

    def format(self, record: logging.LogRecord) -> str:
        from paddock.cli.telling import inert  # little is ever logged

        return inert(super().format(record))


def begin() -> None:
    """From now on. A handler that hooks or tools have set up themselves is theirs."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Inert())
