"""What users are told of a request that failed: what is theirs. Of this host they are told nothing; its log says more."""

import logging

from paddock.errors import (
    AgentError,
    CommandFailedError,
    ExecTimeoutError,
    LimitReachedError,
    QuotaExceededError,
    SandboxError,
)

INSIDE = (CommandFailedError, ExecTimeoutError)
"""What a command of the sandbox came to: its words are those of the sandbox."""
_THEIRS = (LimitReachedError, QuotaExceededError)
"""What a user has too much of."""
_MORE = "The log of this host says more."
_log = logging.getLogger("paddock.assistants")


def for_the_user(name: str, error: Exception) -> AgentError:
    """The error that a request to an assistant ends with; what it was at first is its cause."""
    if isinstance(error, AgentError):
        return error
    if isinstance(error, _THEIRS):
        return as_it_is(name, "sandbox", error)
    known = isinstance(error, SandboxError)
    words = error.to_llm() if isinstance(error, SandboxError) else repr(error)
    _log.error("a request to the assistant %s failed: %s", name, words, exc_info=None if known else error)
    told = AgentError(
        f"The request to {name} failed: {type(error).__name__}.",
        hint=_MORE,
        agent=name,
        kind="sandbox" if known else "internal",
    )
    told.__cause__ = error
    return told


def as_it_is(name: str, kind: str, error: SandboxError) -> AgentError:
    """An error in its own words: it says nothing but what a user knows, or may know."""
    told = AgentError(error.message, hint=error.hint, agent=name, kind=kind)
    told.__cause__ = error
    return told
