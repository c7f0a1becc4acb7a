"""How runs fail, in words that say what to do."""

from paddock.errors import AgentError, SandboxError, visible

_SHOWN = 600
_BY_STATUS = {
    400: "The provider refused the request; another model may be needed.",
    401: "Check the connector's key with `paddock connectors check`.",
    403: "Check what the connector's key may do.",
    404: "Check the model's name and the connector's address.",
    429: "Wait, or use another connector.",
    529: "The provider is overloaded: try again later.",
}


def api(agent: str, status: int | None, words: str) -> AgentError:
    """The model could not be asked."""
    what = f" ({status})" if status else ""
    hint = _BY_STATUS.get(status or 0, "Check the connector with `paddock connectors check`.")
    return AgentError(
        f"The model could not be asked{what}: {shown(words)}.", hint=hint, agent=agent, kind="api", status=status
    )


def turns(agent: str, words: str) -> AgentError:
    """It took more turns than it may."""
    return _of(agent, "max_turns", f"It was not done in time: {shown(words)}.", "Give it more with max_turns.")


def no_session(agent: str, words: str) -> AgentError:
    """The conversation that was to go on is not there."""
    return _of(agent, "no_session", f"The conversation is gone: {shown(words)}.", "Begin a new one.")


def failed(agent: str, words: str) -> AgentError:
    """The agent says so itself."""
    return _of(agent, "failed", f"The agent failed: {shown(words)}.", "Look at what it did until then.")


def timeout(agent: str, seconds: float) -> AgentError:
    """The whole took too long."""
    return _of(agent, "timeout", f"The agent was ended after {seconds:g} seconds.", "Give it more with timeout.")


def stalled(agent: str, seconds: float, words: str) -> AgentError:
    """Nothing came from the model."""
    last = f" Its last words: {shown(words)}." if words.strip() else ""
    hint = "Check the connector with `paddock connectors check`, or be more patient."
    return _of(agent, "stalled", f"Nothing came from the model for {seconds:g} seconds.{last}", hint)


def interrupted(agent: str) -> AgentError:
    """Somebody wanted it to end."""
    return _of(agent, "interrupted", "The agent was interrupted.", "What it did until then is done.")


def of_sandbox(agent: str, error: SandboxError) -> AgentError:
    """What it is in has failed, which is the cause."""
    if isinstance(error, AgentError):
        return error
    wrapped = AgentError(error.message, hint=error.hint, agent=agent, kind="sandbox")
    wrapped.__cause__ = error
    return wrapped


def not_startable(agent: str, words: str) -> AgentError:
    """Its program cannot be started."""
    hint = "Show it to the sandbox with mounts=, or use an image that has it; `paddock agents` lists what there is."
    return _of(agent, "setup", f"The program of {agent} cannot be started: {shown(words)}.", hint)


def exited(agent: str, exit_code: int, stderr: str, hint: str | None = None) -> AgentError:
    """The program ended without a result."""
    said = shown(stderr) or "it said nothing on standard error"
    return AgentError(
        f"The program of {agent} ended with {exit_code} and no result: {said}.",
        hint=hint,
        agent=agent,
        kind="exited",
        exit_code=exit_code,
        stderr=stderr,
    )


def shown(words: str) -> str:
    """The end of what a program said, in one line, without the full stop that follows."""
    line = " ".join(words.split())
    return visible(line if len(line) <= _SHOWN else f"…{line[-_SHOWN:]}").rstrip(".")


def _of(agent: str, kind: str, words: str, hint: str) -> AgentError:
    return AgentError(words, hint=hint, agent=agent, kind=kind)
