"""Codex: `codex exec --json`, with a line of JSON for each thing that it begins or ends."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.errors import AgentError
from paddock.runners import failures, programs
from paddock.runners.agent import Launch, Task
from paddock.runners.events import Done, Event, Failed, Log, Started, Thinking, ToolCall, ToolResult, Usage
from paddock.runners.names import Names, name
from paddock.runners.options import Options
from paddock.runners.programs import Package, Program
from paddock.runners.prose import Prose
from paddock.runners.shapes import count, fields, items, output, text

_PACKAGES = (
    Package("@openai/codex-linux-{arch}", "vendor/{machine}-unknown-linux-musl/bin/codex"),
    Package("@openai/codex", "vendor/{machine}-unknown-linux-musl/bin/codex"),
)
_NO_WORD = ("permission", "max_turns", "allowed_tools", "disallowed_tools")
"""It has fewer permissions only by a sandbox of its own, which cannot be made within ours."""
_BEGIN = """rm -rf "$HOME/.codex/AGENTS.md"
[ ! -f AGENTS.md ] || head -c 1048576 AGENTS.md > "$HOME/.codex/AGENTS.md"
[ -z "$1" ] || for log in "$HOME"/.codex/sessions/*/*/*/*"$1".jsonl; do
[ ! -f "$log" ] || grep -hs total_token_usage "$log"; done | tail -n 1
shift
exec "$@"
"""
"""What the project says is read by this detour, as a project that is not trusted is not listened to at all. Then comes what a
conversation that goes on has used until now, from Codex's own notes: it counts from the beginning. A pipe or a device in the
place of either, by whoever works there, would be read for ever."""
_OFF = (
    "apps",
    "goals",  # with these it goes on by itself after its reply
    "hooks",
    "plugins",
    "shell_snapshot",
    "skill_mcp_dependency_install",  # a project's skills would start servers
    "unbounded_connection_retries",  # it would never end
)
_STATUS = re.compile(r"\bstatus:? ([45]\d\d)\b")
_API = (
    "Connection failed",
    "stream disconnected",
    "experiencing high demand",
    "at capacity",
    "retry limit",
    "quota",
    "usage limit",
)
_NO_SESSION = "no rollout found"
_SAID = ("agent_message", "reasoning", "error", "todo_list")


class Codex:
    """OpenAI's agent."""

    name = "codex"
    title = "Codex"
    command = ("codex",)
    needs_models = True
    install = "npm install @openai/codex"
    skills = ".codex/skills"
    sessions = (".codex/sessions",)

    def find(self) -> Program | None:
        """On the PATH, or as npm installs it: with all that is beside it."""
        return programs.find(self.name, self.command[0], _PACKAGES)

    def check(self, options: Options) -> None:
        """It has no choice but to be let do everything."""
        options.refuse(self.title, _NO_WORD)

    def launch(self, task: Task) -> Launch:
        """The prompt by standard input, all else by its configuration in the home."""
        resume = ("resume", task.resume) if task.resume else ()
        argv = (*task.inside.program, "exec", "--json", "--skip-git-repo-check", "--ignore-rules", *resume, "-")
        env = {"HOME": task.inside.home, "CODEX_HOME": f"{task.inside.home}/.codex"}
        files = {".codex/config.toml": "\n".join(_config(task)) + "\n"}
        return Launch(("sh", "-c", _BEGIN, "sh", task.resume or "", *argv), task.no_mark.encode(), env, files)

    def reader(self, task: Task) -> "CodexReader":
        """Who understands what it prints."""
        return CodexReader(task.options.model or task.inside.model, resumed=task.resume is not None)


def _config(task: Task) -> Iterator[str]:
    model = task.options.model or task.inside.model
    if model:
        yield f"model = {_toml(model)}"
    if task.inside.url:
        yield 'model_provider = "paddock"'
    if task.system:
        yield f"developer_instructions = {_toml(task.system)}"
    yield 'approval_policy = "never"'
    yield 'sandbox_mode = "danger-full-access"'
    yield 'web_search = "disabled"'
    yield 'cli_auth_credentials_store = "file"'
    yield "check_for_update_on_startup = false"
    yield "analytics = { enabled = false }"
    yield "feedback = { enabled = false }"
    yield 'history = { persistence = "none" }'
    yield "[features]"
    yield from (f"{name} = false" for name in _OFF)
    yield f"[projects.{_toml(task.inside.workdir)}]"
    yield 'trust_level = "untrusted"'
    if task.inside.url:
        yield from _provider(task.inside.url)
    if task.inside.bridge:
        yield from _server(task.inside.bridge, task.options.tool_seconds)


def _provider(url: str) -> Iterator[str]:
    yield "[model_providers.paddock]"
    yield 'name = "Paddock"'
    yield f"base_url = {_toml(f'{url}/v1')}"
    yield 'env_key = "OPENAI_API_KEY"'
    yield 'wire_api = "responses"'
    yield "request_max_retries = 1"  # the gateway has tried again already
    yield "stream_max_retries = 2"


def _server(bridge: tuple[str, ...], seconds: float) -> Iterator[str]:
    yield "[mcp_servers.paddock]"
    yield f"command = {_toml(bridge[0])}"
    yield f"args = [{', '.join(map(_toml, bridge[1:]))}]"
    yield "required = true"
    yield f"tool_timeout_sec = {seconds:.3f}"


def _toml(value: str) -> str:
    """A text as TOML has it: as JSON, but for characters that JSON does not mind."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class CodexReader:
    """The events of one run."""

    def __init__(self, model: str | None = None, *, resumed: bool = False) -> None:
        self._model = model
        self._resumed = resumed
        self._session: str | None = None
        self._prose = Prose()
        self._called = Names()
        self._ended = Names()
        self._remarks = Names()
        self._plans = 0
        self._before = Usage()
        self._told = Usage()
        self._trouble = ""

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """What a line tells."""
        kind = text(line.get("type"))
        item = fields(line.get("item"))
        if kind == "event_msg":
            self._counted(line)
        elif kind == "thread.started" and self._session is None:
            self._session = name(line.get("thread_id")) or None
            yield Started("codex", self._session, self._model, resumed=self._resumed)
        elif kind.startswith("item."):
            yield from self._said(kind, item) if item.get("type") in _SAID else self._tool(kind, item)
        elif kind == "error":
            self._trouble = text(line.get("message"))
            yield from self._remark(self._trouble)
        elif kind == "turn.completed":
            yield from self._completed(line)
        elif kind == "turn.failed":
            words = text(fields(line.get("error")).get("message")) or self._trouble
            yield Failed(_error(words), self._session, self._told)

    def finish(self, exit_code: int, stderr: str) -> Failed:
        """It ended without a result."""
        if self._session is None and _NO_SESSION in stderr:
            return Failed(failures.no_session("codex", stderr), self._session, self._told)
        if self._trouble and not stderr.strip():
            return Failed(_error(self._trouble), self._session, self._told)
        return Failed(failures.exited("codex", exit_code, stderr), self._session, self._told)

    def _counted(self, line: Mapping[str, Any]) -> None:
        """What was used before this run."""
        if self._session is None:
            info = fields(fields(line.get("payload")).get("info"))
            self._before = _tokens(fields(info.get("total_token_usage")))

    def _completed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        used = _tokens(fields(line.get("usage"))).beyond(self._before)
        if used:
            self._told += used
            yield used
        yield Done(self._prose.reply, self._session, self._model, self._told)

    def _said(self, kind: str, item: Mapping[str, Any]) -> Iterator[Event]:
        what, known = item.get("type"), name(item.get("id"))
        if what == "todo_list":
            yield from self._plan(kind, item)
        elif kind != "item.completed" or known in self._ended:
            return
        elif what == "error":  # a warning: those that matter are no items
            yield from self._remark(text(item.get("message")))
        elif what == "reasoning":
            self._ended.add(known)
            yield Thinking(text(item.get("text")))
        else:
            yield from self._prose.whole(known, text(item.get("text")))

    def _plan(self, kind: str, item: Mapping[str, Any]) -> Iterator[Event]:
        """It stays open for the whole run, and is no tool that would be waited for."""
        if kind != "item.completed":
            self._plans += 1
            known = f"{name(item.get('id'))}.{self._plans}"
            yield ToolCall(known, "todo_list", {"items": list(items(item.get("items")))})
            yield ToolResult(known)

    def _tool(self, kind: str, item: Mapping[str, Any]) -> Iterator[Event]:
        known = name(item.get("id"))
        if known not in self._called:
            self._called.add(known)
            self._prose.pause()
            yield ToolCall(known, _name(item), _input(item))
        if kind == "item.completed" and known not in self._ended:
            self._ended.add(known)
            yield ToolResult(known, _output(item), _failed(item))

    def _remark(self, words: str) -> Iterator[Event]:
        known = name(words)
        if known and known not in self._remarks:
            self._remarks.add(known)
            yield Log(words)


_OUTCOME = ("id", "type", "status", "aggregated_output", "exit_code", "result", "error", "agents_states")


def _name(item: Mapping[str, Any]) -> str:
    kind = text(item.get("type"))
    if kind == "mcp_tool_call":
        return f"mcp__{text(item.get('server'))}__{text(item.get('tool'))}"
    return text(item.get("tool")) or kind


def _input(item: Mapping[str, Any]) -> Mapping[str, Any]:
    if item.get("type") == "mcp_tool_call":
        return fields(item.get("arguments"))
    return {name: value for name, value in item.items() if name not in _OUTCOME}


def _output(item: Mapping[str, Any]) -> str:
    found = [
        text(item.get("aggregated_output")),
        output(fields(item.get("result")).get("content")),
        text(fields(item.get("error")).get("message")),
        "\n".join(f"{text(change.get('kind'))} {text(change.get('path'))}" for change in items(item.get("changes"))),
        "\n".join(text(fields(state).get("message")) for state in fields(item.get("agents_states")).values()),
    ]
    return "\n".join(words for words in found if words.strip())


def _failed(item: Mapping[str, Any]) -> bool:
    return item.get("status") in ("failed", "declined") or bool(item.get("exit_code"))


def _tokens(usage: Mapping[str, Any]) -> Usage:
    """Its input is all that there was; ours is what was new."""
    cached, written = count(usage.get("cached_input_tokens")), count(usage.get("cache_write_input_tokens"))
    fresh = max(0, count(usage.get("input_tokens")) - cached - written)
    return Usage(fresh, count(usage.get("output_tokens")), cached, written)


def _error(words: str) -> AgentError:
    found = _STATUS.search(words)
    status = int(found[1]) if found else 400 if words.startswith("{") else None  # then it is the body of an answer
    if status or any(known in words for known in _API):
        return failures.api("codex", status, words)
    return failures.failed("codex", words)
