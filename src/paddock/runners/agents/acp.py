"""The Agent Client Protocol: any agent that speaks it, as JSON-RPC by lines. Its program is named by the user.

What is sent is what the protocol's own package makes of it. What comes is from a sandbox: it is read here, within bounds, and
as far as it is known, so that an agent may be newer than that package.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from paddock.errors import AgentError, UnavailableError
from paddock.extras import find, how_to_get
from paddock.runners import failures
from paddock.runners.agent import Launch, Task, Tell
from paddock.runners.events import Done, Event, Failed, Log, Started, Thinking, ToolCall, ToolResult, Usage
from paddock.runners.names import Names, TooManyError, name
from paddock.runners.options import Options, Permission
from paddock.runners.programs import Program
from paddock.runners.prose import Prose
from paddock.runners.shapes import amount, count, fields, items, status, text

_VERSION = 1
_LOOKS = frozenset({"read", "search", "think"})
_PERMITTED: dict[Permission, frozenset[str]] = {"edit": _LOOKS | {"edit", "delete", "move"}, "plan": _LOOKS}
"""The kinds of tools that may be used, where not all may."""
_PLAN = "plan"
"""What agents call the mode in which they only look."""
_NOT_FOUND = -32601
_LOGIN = -32000
_LONGEST_ID = 256
_LONGEST_NAME = 200
_MOST_OPEN = 1000
_MOST_HELD = 64 << 20
"""Characters of what tools are given and come to, before it can be told."""

_SENT = {
    "initialize": "InitializeRequest",
    "session/new": "NewSessionRequest",
    "session/load": "LoadSessionRequest",
    "session/resume": "ResumeSessionRequest",
    "session/set_config_option": "SetSessionConfigOptionSelectRequest",
    "session/set_mode": "SetSessionModeRequest",
    "session/prompt": "PromptRequest",
    "session/cancel": "CancelNotification",
    "session/request_permission": "RequestPermissionResponse",
}
"""The package's names of what is sent. `session/set_model` was never in it: agents had it before there were options."""

_Said = Event | Tell
_Answer = Mapping[str, Any]


class Acp:
    """Whoever speaks the protocol."""

    name = "acp"
    title = "An ACP agent"
    command = ()
    needs_models = True
    install = "any that speaks the Agent Client Protocol, and name it: Program('acp', ('its-command', '--acp'))"
    skills = ".agents/skills"
    sessions = ()

    def find(self) -> Program | None:
        """There is none of its own."""
        return None

    def check(self, options: Options) -> None:
        """What the protocol has a word for."""
        options.refuse("The Agent Client Protocol", ("max_turns", "allowed_tools", "disallowed_tools"))

    def launch(self, task: Task) -> Launch:
        """It is asked who it is; all else is said when it has answered."""
        _begin_to_load()
        return Launch(task.inside.program, _line(_initialize()), {"HOME": task.inside.home})

    def reader(self, task: Task) -> "AcpReader":
        """Who talks with it."""
        return AcpReader(task)


def _initialize() -> dict[str, Any]:
    nothing = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    params = {
        "protocolVersion": _VERSION,
        "clientCapabilities": nothing,
        "clientInfo": {"name": "paddock", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


@cache
def _begin_to_load() -> None:
    """The package takes half a second. It is there when the agent has answered, which takes longer, or is waited for."""
    if find("acp").missing:
        raise UnavailableError("The Agent Client Protocol needs its package.", hint=how_to_get("acp"))
    threading.Thread(target=import_module, args=("acp.schema",), name="paddock-acp", daemon=True).start()


def sent(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """What goes out for a method, as the protocol's package has it."""
    if method not in _SENT:
        return dict(params)
    try:
        model = getattr(import_module("acp.schema"), _SENT[method]).model_validate(params)
        made: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    except ValueError:  # with half a character in it, which the agent has sent itself
        return dict(params)
    return made


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


@dataclass
class _Call:
    """A tool call, from its first mention on."""

    name: str
    kind: str
    title: str
    input: Mapping[str, Any] = field(default_factory=dict)
    output: str = ""
    told: bool = False
    held: int = 0
    """Characters of what it is given."""

    def size(self) -> int:
        """How much there is to keep."""
        return len(self.title) + len(self.output) + self.held


class AcpReader:
    """One conversation: a request of Paddock's at a time, and what the agent says and asks in between."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._asked = 0
        self._then: Callable[[_Answer], Iterator[_Said]] = self._who
        self._else: Callable[[_Answer], AgentError] = _error
        self._session = task.resume
        self._model = task.options.model or task.inside.model
        self._version: str | None = None
        self._prompted = False
        self._prose = Prose()
        self._message = 0
        self._calls: dict[str, _Call] = {}
        self._held = 0
        self._ended = Names()
        self._cost: float | None = None
        self._told = Usage()

    def feed(self, line: Mapping[str, Any]) -> Iterator[_Said]:
        """What a message tells. Whatever is no message of the protocol is nothing."""
        method, params = line.get("method"), fields(line.get("params"))
        if isinstance(method, str):
            if "id" in line:
                yield from self._request(line["id"], method, params)
            elif method == "session/update" and params.get("sessionId") == self._session:
                yield from self._update(fields(params.get("update")))
        elif type(line.get("id")) is int and line["id"] == self._asked:
            self._asked += 1  # nothing is awaited until something else is asked
            if "error" in line:
                yield self._failed(self._else(fields(line["error"])))
            else:
                yield from self._then(fields(line.get("result")))

    def cancel(self) -> Iterator[Tell]:
        """Stop the turn."""
        if self._prompted:
            params = sent("session/cancel", {"sessionId": self._session})
            yield Tell({"jsonrpc": "2.0", "method": "session/cancel", "params": params})

    def finish(self, exit_code: int, stderr: str) -> Failed:
        """It ended in the middle."""
        hint = (
            None if self._asked else "Look whether it speaks the Agent Client Protocol; many want an option for that."
        )
        return self._failed(failures.exited("acp", exit_code, stderr, hint))

    def _failed(self, error: AgentError) -> Failed:
        return Failed(error, self._session, self._told)

    def _ask(
        self,
        method: str,
        then: Callable[[_Answer], Iterator[_Said]],
        otherwise: Callable[[_Answer], AgentError] | None = None,
        **params: Any,
    ) -> Tell:
        self._then, self._else = then, otherwise or _error
        return Tell({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": sent(method, params)})

    # From its first word to the prompt

    def _who(self, answer: _Answer) -> Iterator[_Said]:
        if answer.get("protocolVersion") != _VERSION:
            words = f"it speaks version {answer.get('protocolVersion')!r:.20} of the protocol, and not {_VERSION}"
            yield self._failed(failures.failed("acp", words))
            return
        self._version = text(fields(answer.get("agentInfo")).get("version")) or None
        where: dict[str, Any] = {"cwd": self._task.inside.workdir, "mcpServers": _servers(self._task.inside.bridge)}
        if self._task.resume is None:
            yield self._ask("session/new", self._begun, **where)
        elif (method := _how_to_resume(fields(answer.get("agentCapabilities")))) is None:
            yield self._failed(failures.no_session("acp", "it remembers none"))
        else:
            yield self._ask(method, self._begun, _gone, sessionId=self._task.resume, **where)

    def _begun(self, answer: _Answer) -> Iterator[_Said]:
        self._session = self._session or name(answer.get("sessionId"))
        if not self._session:
            yield self._failed(failures.failed("acp", "it has given the conversation no name"))
            return
        choice = _Models.of(answer)
        wanted = self._task.options.model
        self._model = wanted or (choice.current if choice else None) or self._model
        yield Started("acp", self._session, self._model, self._version, self._task.resume is not None)
        if wanted is None or (choice and choice.current == wanted):
            yield from self._choose_mode(answer)
        elif choice is None:
            hint = "Name it in the agent's own configuration."
            yield self._failed(
                AgentError("The agent lets nobody choose its model.", hint=hint, agent="acp", kind="setup")
            )
        else:
            method, params = choice.request(wanted)
            yield self._ask(method, lambda _: self._choose_mode(answer), sessionId=self._session, **params)

    def _choose_mode(self, answer: _Answer) -> Iterator[_Said]:
        if self._task.options.permission != "plan":
            yield self._prompt()
            return
        known = {text(mode.get("id")) for mode in items(fields(answer.get("modes")).get("availableModes"))}
        if _PLAN in known:
            yield self._ask("session/set_mode", lambda _: iter([self._prompt()]), sessionId=self._session, modeId=_PLAN)
        else:
            hint = "Use another permission, or another agent."
            yield self._failed(AgentError("The agent has no mode to plan only.", hint=hint, agent="acp", kind="setup"))

    def _prompt(self) -> Tell:
        self._prompted = True
        told = [self._task.prompt] if self._task.resume else [self._task.system, self._task.prompt]
        blocks = [{"type": "text", "text": each} for each in told if each]
        return self._ask("session/prompt", self._over, sessionId=self._session, prompt=blocks)

    def _over(self, answer: _Answer) -> Iterator[_Said]:
        usage, reason = fields(answer.get("usage")), text(answer.get("stopReason"))
        yield from self._count(
            Usage(
                count(usage.get("inputTokens")),
                count(usage.get("outputTokens")),
                count(usage.get("cachedReadTokens")),
                count(usage.get("cachedWriteTokens")),
            )
        )
        if reason == "end_turn":
            yield Done(self._prose.reply, self._session, self._model, self._told)
        else:
            yield self._failed(_stopped(reason))

    # What it asks

    def _request(self, number: object, method: str, params: _Answer) -> Iterator[_Said]:
        """Nothing of this host's is offered: no file and no terminal. The agent has its own, in the sandbox."""
        if not isinstance(number, (int, str)) or (isinstance(number, str) and len(number) > _LONGEST_ID):
            return
        if method == "initialize":
            words = "it does not speak the Agent Client Protocol, but repeats what it is told"
            yield self._failed(failures.failed("acp", words))
            return
        if method != "session/request_permission" or params.get("sessionId") != self._session:
            error = {"code": _NOT_FOUND, "message": "Paddock offers no such thing."}
            yield Tell({"jsonrpc": "2.0", "id": number, "error": error})
            return
        call, options = fields(params.get("toolCall")), list(items(params.get("options")))
        known = name(call.get("toolCallId"))
        yield from self._called(known, call, told=True)
        allowed = self._permitted(known)
        answer = sent(method, {"outcome": _outcome(options, allowed=allowed)})
        yield Tell({"jsonrpc": "2.0", "id": number, "result": answer})
        if not allowed and known in self._calls:
            yield Log(f"Not permitted: {self._calls[known].title}")
            yield from self._finished(known, failed=True)

    def _permitted(self, known: str) -> bool:
        permission = self._task.options.permission
        call = self._calls.get(known)
        return permission == "all" or (call is not None and call.kind in _PERMITTED[permission])

    # What it does

    def _update(self, update: _Answer) -> Iterator[_Said]:
        kind = text(update.get("sessionUpdate"))
        if not self._prompted:  # what was said before, in a conversation that goes on
            if kind == "usage_update":
                self._cost = _cost(update)
            return
        if kind == "agent_message_chunk":
            block = name(update.get("messageId")) or str(self._message)
            yield from self._prose.add(block, _content(update.get("content")))
        elif kind == "agent_thought_chunk":
            self._message += 1
            yield Thinking(_content(update.get("content")))
        elif kind in ("tool_call", "tool_call_update"):
            yield from self._tool(update)
        elif kind == "plan":
            entries = (
                f"[{text(each.get('status'))}] {text(each.get('content'))}" for each in items(update.get("entries"))
            )
            yield Log("\n".join(["Its plan:", *entries]))
        elif kind == "usage_update":
            yield from self._paid(_cost(update))
        elif kind not in _QUIET:
            yield Log(f"It tells of something unknown: {kind!r:.80}")

    def _tool(self, update: _Answer) -> Iterator[_Said]:
        known, status = name(update.get("toolCallId")), text(update.get("status"))
        yield from self._called(known, update, told=status not in ("", "pending"))
        if status in ("completed", "failed"):
            yield from self._finished(known, failed=status == "failed")

    def _called(self, known: str, update: _Answer, *, told: bool) -> Iterator[_Said]:
        """A tool is used. What it is given often comes after its name, so both are told when it begins."""
        if not known or known in self._ended:
            return
        title, kind = text(update.get("title")), name(update.get("kind"))
        call = self._calls.get(known) or _Call(title[:_LONGEST_NAME], kind or "other", title)
        before = call.size() if known in self._calls else 0
        call.kind, call.title = kind or call.kind, title or call.title
        if not call.told and (given := fields(update.get("rawInput"))):
            call.input, call.held = given, len(str(given))
        call.output = _output(update) or call.output
        self._hold(known, call, call.size() - before)
        if told and not call.told:
            call.told = True
            self._message += 1
            self._prose.pause()
            yield _event(known, call)

    def _hold(self, known: str, call: _Call, more: int) -> None:
        self._calls[known] = call
        self._held += more
        if len(self._calls) > _MOST_OPEN or self._held > _MOST_HELD:
            raise TooManyError

    def _finished(self, known: str, *, failed: bool) -> Iterator[_Said]:
        if known in self._calls:
            self._ended.add(known)
            call = self._calls.pop(known)
            self._held -= call.size()
            yield ToolResult(known, call.output, failed)

    def _paid(self, cost: float | None) -> Iterator[_Said]:
        """It tells what the whole conversation has cost."""
        if cost is not None:
            before, self._cost = self._cost or 0.0, cost
            yield from self._count(Usage(cost=max(0.0, cost - before)))

    def _count(self, usage: Usage) -> Iterator[_Said]:
        if usage:
            self._told += usage
            yield usage


_QUIET = frozenset(
    {
        *("available_commands_update", "config_option_update", "current_mode_update"),
        *("session_info_update", "user_message_chunk"),
    }
)


def _event(known: str, call: _Call) -> ToolCall:
    """The protocol has titles for people. Where that is all, it says what the tool is given, and the kind is the name."""
    if call.input or call.kind == "other":
        return ToolCall(known, (call.name or call.title or call.kind)[:_LONGEST_NAME], call.input)
    return ToolCall(known, call.kind, {"title": call.title})


@dataclass(frozen=True)
class _Models:
    """How the model of a conversation is chosen: as an option of it, or as agents did before there were any."""

    current: str
    option: str | None = None

    @classmethod
    def of(cls, answer: _Answer) -> "_Models | None":
        for option in items(answer.get("configOptions")):
            if option.get("category") == "model" and option.get("type") == "select":
                return cls(text(option.get("currentValue")), text(option.get("id")))
        models = fields(answer.get("models"))
        return cls(text(models.get("currentModelId"))) if models else None

    def request(self, model: str) -> tuple[str, dict[str, Any]]:
        if self.option is None:
            return "session/set_model", {"modelId": model}
        return "session/set_config_option", {"configId": self.option, "value": model}


def _servers(bridge: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"name": "paddock", "command": bridge[0], "args": list(bridge[1:]), "env": []}] if bridge else []


def _how_to_resume(capabilities: _Answer) -> str | None:
    """The one that does not tell everything again is better."""
    if isinstance(fields(capabilities.get("sessionCapabilities")).get("resume"), dict):
        return "session/resume"
    return "session/load" if capabilities.get("loadSession") is True else None


def _outcome(options: list[Mapping[str, Any]], *, allowed: bool) -> dict[str, str]:
    for kind in ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always"):
        for option in options:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return {"outcome": "selected", "optionId": option["optionId"]}
    return {"outcome": "cancelled"}


def _content(block: object) -> str:
    """What a block says; of one that is no text, that it is there."""
    found = fields(block)
    kind = text(found.get("type"))
    return text(found.get("text")) if kind in ("text", "") else f"[{kind}]"


def _output(update: _Answer) -> str:
    parts = [_part(part) for part in items(update.get("content"))]
    raw = update.get("rawOutput")
    return "\n".join(parts) or text(raw) or text(fields(raw).get("output"))


def _part(part: _Answer) -> str:
    kind = text(part.get("type"))
    if kind == "diff":
        return f"[changed {text(part.get('path'))}]"
    return _content(part.get("content")) if kind == "content" else f"[{kind}]"


def _cost(update: _Answer) -> float | None:
    cost = fields(update.get("cost"))
    return amount(cost.get("amount")) if cost.get("currency") == "USD" else None


def _stopped(reason: str) -> AgentError:
    if reason == "cancelled":
        return failures.interrupted("acp")
    if reason == "max_turn_requests":
        return failures.turns("acp", "it has asked its model as often as it may")
    known = {"max_tokens": "its reply was cut off, as it was too long", "refusal": "it refuses to go on"}
    return failures.failed("acp", known.get(reason, f"it stopped for a reason that nobody knows: {reason!r:.80}"))


def _gone(error: _Answer) -> AgentError:
    return failures.no_session("acp", text(error.get("message")))


def _error(error: _Answer) -> AgentError:
    code, words = error.get("code"), text(error.get("message"))
    if (status(code) or 0) >= 400:
        return failures.api("acp", status(code), words)
    if code == _LOGIN:
        return failures.failed("acp", f"it wants a login, for which it has to be configured: {words}")
    return failures.failed("acp", words or f"error {code!r:.20}")
