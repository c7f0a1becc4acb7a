"""Consent: what is possible, who agreed and who began it are three things. Whatever leaves a sandbox asks here first."""

import hmac
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Literal, TypeGuard, get_args

from paddock import state
from paddock.asking import answer, forget_typed
from paddock.audit import EventBus
from paddock.errors import ConfigError, NotAuthorizedError, visible
from paddock.types.consent import Approval, ApprovalRequest
from paddock.types.events import Initiator

Named = Literal["interactive", "approve-all", "deny-all"]
Answer = bool | Literal["session"]
"""`"session"` is a yes to the same act on the same content as often as it comes, while the sandbox is open."""
Callback = Callable[[ApprovalRequest], "Answer | Awaitable[Answer]"]
Rule = Literal["allowed", "ask", "blocked"]


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Who is asked, and about what: a rule for an action decides before anybody is."""

    ask: Named | Callback | None = None
    rules: Mapping[str, Rule] = field(default_factory=dict)
    """By action, such as `{"write": "allowed", "delete": "blocked"}`; what is not named is asked about."""

    def __post_init__(self) -> None:
        check_policy(self.ask)
        for action, rule in dict(self.rules).items():
            if not isinstance(action, str) or rule not in get_args(Rule):
                raise ConfigError(
                    f"rules: {action!r}: {rule!r} is no rule.", hint=f"Give {', '.join(map(repr, get_args(Rule)))}."
                )


Policy = ApprovalPolicy | Named | Callback | None

NEVER_BY_A_MODEL = frozenset({"apply", "push", "widen"})
"""What leaves the sandbox, or lets more leave it. No policy makes these a model's to begin."""
SECONDS = 3600.0
_SUFFIX = ".json"
_BEING_WRITTEN = 60.0
"""Seconds that one is left alone whose file does not have the time of its end yet."""

_initiator: ContextVar[Initiator] = ContextVar("paddock_initiator", default="host")


@contextmanager
def begun_by(initiator: Initiator) -> Iterator[None]:
    """What is called in this block was begun by somebody: a tool says `model`, a command line `person`.

    Tasks, `asyncio.to_thread` and calls of `paddock.sync` that are made in it belong to it. A thread or an executor that
    somebody starts by hand does not, unless it is given the context (`contextvars.copy_context().run`).
    """
    if initiator not in get_args(Initiator):
        raise ConfigError(
            f"{initiator!r} is nobody who begins something.", hint=f"Give {', '.join(map(repr, get_args(Initiator)))}."
        )
    token = _initiator.set("model" if _initiator.get() == "model" else initiator)  # nobody gets out of a model's call
    try:
        yield
    finally:
        _initiator.reset(token)


def initiator() -> Initiator:
    """Who began what happens now."""
    return _initiator.get()


def check_policy(policy: object) -> TypeGuard[Policy]:
    """Whether this can be `approve=`; a `ConfigError` if not."""
    if policy is None or callable(policy) or isinstance(policy, ApprovalPolicy) or policy in get_args(Named):
        return True
    raise ConfigError(
        f"approve={policy!r} is no policy.",
        hint=f"Give {', '.join(map(repr, get_args(Named)))}, a function that is asked, or None.",
    )


class Consent:
    """The policy of one sandbox."""

    def __init__(self, policy: Policy, bus: EventBus, sandbox: str | None = None) -> None:
        self._policy = policy if isinstance(policy, ApprovalPolicy) else ApprovalPolicy(policy)
        self._bus = bus
        self._sandbox = sandbox
        self._remembered: set[tuple[str, str, str, Initiator]] = set()

    def blocks(self, action: str) -> bool:
        """Whether a rule says so, whoever would agree."""
        return self._policy.rules.get(action) == "blocked"

    async def ask(
        self, action: str, subject: str, digest: str, summary: str, approval: Approval | str | None = None
    ) -> None:
        """Return if somebody agrees to this act on this content; else `NotAuthorizedError`. Either is an event.

        With an approval, or its nonce, a person has agreed already, and it is used up. Without a policy a call by the host
        program is its own consent.
        """
        request = ApprovalRequest(
            action, subject, digest, secrets.token_hex(16), summary, _initiator.get(), self._sandbox
        )
        started = time.perf_counter()
        agreed = False
        try:
            agreed = await self._agreed(request, approval)
        finally:
            outcome = "ok" if agreed else NotAuthorizedError.code
            took = time.perf_counter() - started
            self._bus.emit("approval", action, subject, outcome, took, initiator=request.initiator)
        if not agreed:
            raise _refused(request, "Nobody agreed to it.")

    async def _agreed(self, request: ApprovalRequest, approval: Approval | str | None) -> bool:
        if request.initiator == "model" and request.action in NEVER_BY_A_MODEL:
            raise _refused(request, "A model cannot begin it.")
        if self.blocks(request.action):
            raise _refused(request, "It is blocked.")
        if approval is not None:
            take(approval, request)
            return True
        same = (request.action, request.subject, request.digest, request.initiator)
        if self._policy.rules.get(request.action) == "allowed" or same in self._remembered:
            return True
        answer = await self._answer(request)
        if answer == "session" and request.action not in NEVER_BY_A_MODEL:  # what leaves is asked about every time
            self._remembered.add(same)
        return answer is True or answer == "session"

    async def _answer(self, request: ApprovalRequest) -> Answer:
        ask = self._policy.ask
        if ask is None:
            return request.initiator != "model"
        if ask == "interactive":
            return await asked_at_terminal(request)
        if not callable(ask):
            return ask == "approve-all"
        answer = ask(request)
        return await answer if isawaitable(answer) else answer


def _refused(request: ApprovalRequest, why: str) -> NotAuthorizedError:
    return NotAuthorizedError(
        f"{request.action} of '{visible(request.subject)}' was not approved. {why}",
        hint="Have a person look at it and approve it, or change approve= of the sandbox.",
    )


async def asked_at_terminal(request: ApprovalRequest) -> bool:
    """A question on the terminal of this process. Without one the answer is no."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        forget_typed(terminal)
        lines = [*request.summary.splitlines(), f"{request.action} {request.subject}? [y/N] "]
        os.write(terminal, "\n".join(map(visible, lines)).encode("utf-8", "replace"))
        return (await answer(terminal) or "").strip().lower() in ("y", "yes")
    finally:
        os.close(terminal)


def offer(action: str, subject: str, digest: str, seconds: float = SECONDS) -> Approval:
    """A person has looked at this content and agrees: kept on disk until it is used, for a while."""
    sweep()
    approval = Approval(secrets.token_hex(16), action, subject, digest, time.time() + seconds)
    path = _directory() / f"{approval.nonce}{_SUFFIX}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(approval.to_dict(), file)
        file.flush()
        os.utime(fd, (approval.expires, approval.expires))
    return approval


def take(approval: Approval | str, request: ApprovalRequest) -> None:
    """Use one up. One that was used, has expired, or was given for something else is `NotAuthorizedError`."""
    nonce = approval.nonce if isinstance(approval, Approval) else approval
    kept = _taken(nonce)
    if kept is None:
        raise _refused(request, "That approval was used already, or never given.")
    if kept.expires < time.time():
        raise _refused(request, "That approval has expired.")
    same = (kept.action, kept.subject) == (request.action, request.subject)
    if not same or not hmac.compare_digest(kept.digest, request.digest):
        raise _refused(request, "That approval was given for something else.")


def _taken(nonce: str) -> Approval | None:
    """The approval, which nobody else can take from now on: only one process can rename it."""
    if not isinstance(nonce, str) or not nonce.isalnum():
        return None
    path = _directory() / f"{nonce}{_SUFFIX}"
    mine = path.with_suffix(f".{secrets.token_hex(4)}")
    try:
        path.rename(mine)
        return Approval.from_dict(json.loads(mine.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    finally:
        mine.unlink(missing_ok=True)


def sweep() -> None:
    """Remove those that have expired."""
    with suppress(OSError):
        for path in _directory().iterdir():
            if path.stat().st_mtime < time.time() - _BEING_WRITTEN:
                path.unlink(missing_ok=True)


def _directory() -> Path:
    return state.private(state.state_directory() / "approvals")
