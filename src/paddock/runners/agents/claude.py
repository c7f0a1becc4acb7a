"""Claude Code: `claude -p`, with a line of JSON for each event."""

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
from paddock.runners.shapes import amount, count, fields, items, output, status, text

_PACKAGES = (
    Package("@anthropic-ai/claude-code-linux-{arch}", "claude"),
    Package("@anthropic-ai/claude-code", "cli.js", "node"),
)
_MODES = {"all": "bypassPermissions", "edit": "acceptEdits", "plan": "plan"}
_CONFIG = ".paddock/claude"
_RULES = ".claude/rules/paddock.md"
_PROJECT = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
_NO_SESSION = re.compile(r"No conversation found with session ID|Session ID \S+ is already in use")


class Claude:
    """Anthropic's agent."""

    name = "claude"
    title = "Claude Code"
    command = ("claude",)
    needs_models = True
    install = f"npm install @anthropic-ai/claude-code-linux-{programs.architecture()[0]}@latest"
    skills = ".claude/skills"
    sessions = (".claude/projects",)

    def find(self) -> Program | None:
        """On the PATH, or as npm installs it."""
        return programs.find(self.name, self.command[0], _PACKAGES)

    def check(self, options: Options) -> None:
        """It has a word for everything."""

    def launch(self, task: Task) -> Launch:
        """The prompt by standard input, all else by files in the home."""
        files = {
            f"{_CONFIG}/mcp.json": json.dumps(_servers(task.inside.bridge)),
            _RULES: "".join(_words_of_the_project(task.inside.workdir)),
        }
        if task.system:
            files[f"{_CONFIG}/system.md"] = task.system
        return Launch((*task.inside.program, *_flags(task)), task.no_command.encode(), _environment(task), files)

    def reader(self, task: Task) -> "ClaudeReader":
        """Who understands what it prints."""
        return ClaudeReader(resumed=task.resume is not None)


def _flags(task: Task) -> Iterator[str]:
    options, config = task.options, f"{task.inside.home}/{_CONFIG}"
    yield from ("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
    yield from ("--permission-mode", _MODES[options.permission])
    yield from ("--mcp-config", f"{config}/mcp.json", "--strict-mcp-config", "--setting-sources", "user")
    yield from ("--resume", task.resume) if task.resume else ("--session-id", task.session)
    yield from ("--system-prompt-snapshot", "off")  # or what goes on has the words of its beginning for ever
    if task.system:
        yield from ("--append-system-prompt-file", f"{config}/system.md")
    if options.model:
        yield from ("--model", options.model)
    if options.max_turns is not None:
        yield from ("--max-turns", str(options.max_turns))
    if options.allowed_tools:
        yield from ("--allowedTools", ",".join(options.allowed_tools))
    if options.disallowed_tools:
        yield from ("--disallowedTools", ",".join(options.disallowed_tools))


def _words_of_the_project(workdir: str) -> Iterator[str]:
    """They are read by this detour, as whoever does not read a project's settings does not read its words either."""
    place = workdir.replace(" ", "\\ ")
    yield from (f"@{place}/{name}\n" for name in _PROJECT)


def _environment(task: Task) -> dict[str, str]:
    return {
        "HOME": task.inside.home,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",  # the gateway has tried again already
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",  # tools are offered at once, whatever the model
    }


def _servers(bridge: tuple[str, ...]) -> dict[str, Any]:
    if not bridge:
        return {"mcpServers": {}}
    return {"mcpServers": {"paddock": {"command": bridge[0], "args": list(bridge[1:])}}}


class ClaudeReader:
    """The events of one run."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._session: str | None = None
        self._model: str | None = None
        self._prose = Prose()
        self._thoughts = Names()
        self._streamed = Names()
        """The message that comes in pieces now, by parent."""
        self._called = Names()
        self._answered = Names()
        self._told = Usage()

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """What a line tells."""
        read = {
            "system": self._system,
            "stream_event": self._piece,
            "assistant": self._message,
            "user": self._results,
            "result": self._result,
        }.get(str(line.get("type")))
        if read is not None:
            yield from read(line)

    def finish(self, exit_code: int, stderr: str) -> Failed:
        """It ended without a result."""
        if self._session is None and _NO_SESSION.search(stderr):
            return Failed(failures.no_session("claude", stderr))
        return Failed(failures.exited("claude", exit_code, stderr), self._session, self._told)

    def _system(self, line: Mapping[str, Any]) -> Iterator[Event]:
        kind = line.get("subtype")
        if kind == "init" and self._session is None:
            self._session, self._model = name(line.get("session_id")) or None, text(line.get("model")) or None
            version = text(line.get("claude_code_version")) or None
            yield Started("claude", self._session, self._model, version, self._resumed)
            for server in items(line.get("mcp_servers")):
                if server.get("status") == "failed":
                    yield Log(f"The MCP server '{text(server.get('name'))}' did not start.")
        elif kind == "api_retry":
            self._prose.pause()  # what was cut off is no part of the reply
            yield Log(f"Asking the model again: {line.get('error')} ({line.get('error_status')})")
        elif kind == "permission_denied":
            yield Log(f"Not permitted: {text(line.get('tool_name'))}. {text(line.get('message'))}")

    def _piece(self, line: Mapping[str, Any]) -> Iterator[Event]:
        event, parent = fields(line.get("event")), _parent(line)
        kind = event.get("type")
        if kind == "message_start":
            message = fields(event.get("message"))
            self._streamed.add(parent or "", name(message.get("id")))
            yield from self._count(_tokens(fields(message.get("usage")), with_output=False))
        elif kind == "message_delta":
            yield from self._count(Usage(output=count(fields(event.get("usage")).get("output_tokens"))))
        elif kind == "content_block_delta":
            delta = fields(event.get("delta"))
            streamed = self._streamed.get(parent or "", "")
            if delta.get("type") == "text_delta":
                yield from self._prose.add(f"{streamed}:{event.get('index')}", text(delta.get("text")), parent)
            elif delta.get("type") == "thinking_delta":
                self._thoughts.add(streamed)
                yield Thinking(text(delta.get("thinking")), parent)

    def _message(self, line: Mapping[str, Any]) -> Iterator[Event]:
        message, parent = fields(line.get("message")), _parent(line)
        if line.get("is_api_error_message"):  # the result says it too
            return
        known = name(message.get("id"))
        in_pieces = self._streamed.get(parent or "") == known
        for number, block in enumerate(items(message.get("content"))):
            kind = block.get("type")
            if kind == "tool_use":
                yield from self._call(block, parent)
            elif kind == "text" and not in_pieces:
                yield from self._prose.whole(f"{_of(line)}:{number}", text(block.get("text")), parent)
            elif kind == "thinking" and known not in self._thoughts:
                yield Thinking(text(block.get("thinking")), parent)

    def _call(self, block: Mapping[str, Any], parent: str | None) -> Iterator[Event]:
        known = name(block.get("id"))
        if known not in self._called:
            self._called.add(known)
            if parent is None:  # others work while the agent itself speaks
                self._prose.pause()
            yield ToolCall(known, text(block.get("name")), fields(block.get("input")), parent)

    def _results(self, line: Mapping[str, Any]) -> Iterator[Event]:
        for block in items(fields(line.get("message")).get("content")):
            known = name(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and known not in self._answered:
                self._answered.add(known)
                yield ToolResult(known, output(block.get("content")), block.get("is_error") is True, _parent(line))

    def _result(self, line: Mapping[str, Any]) -> Iterator[Event]:
        begun = self._session is not None
        self._session = self._session or name(line.get("session_id")) or None
        yield from self._count(_whole(line).beyond(self._told))
        if line.get("is_error"):
            yield Failed(_error(line, begun=begun), self._session, self._told)
        else:
            reply = self._prose.reply or text(line.get("result"))
            yield Done(reply, self._session, self._model, self._told, count(line.get("num_turns")))

    def _count(self, usage: Usage) -> Iterator[Event]:
        if usage:
            self._told += usage
            yield usage


def _whole(line: Mapping[str, Any]) -> Usage:
    """What the run used: a conversation that went on counts from its beginning everywhere else."""
    models = fields(line.get("model_usage_since_last_result"))
    if not models:
        return _tokens(fields(line.get("usage")))
    total = Usage()
    for model in models.values():
        used = fields(model)
        total += Usage(
            count(used.get("inputTokens")),
            count(used.get("outputTokens")),
            count(used.get("cacheReadInputTokens")),
            count(used.get("cacheCreationInputTokens")),
            amount(used.get("costUSD")),
        )
    return total


def _tokens(usage: Mapping[str, Any], *, with_output: bool = True) -> Usage:
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")) if with_output else 0,
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
    )


def _error(line: Mapping[str, Any], *, begun: bool) -> AgentError:
    errors = line.get("errors")
    words = text(line.get("result")) or "; ".join(map(str, errors if isinstance(errors, list) else ()))
    reason, code = line.get("terminal_reason"), status(line.get("api_error_status"))
    if line.get("subtype") == "error_max_turns":
        return failures.turns("claude", words)
    if not begun and _NO_SESSION.search(words):
        return failures.no_session("claude", words)
    if reason == "api_error" or code:
        return failures.api("claude", code, words)
    return failures.failed("claude", words or str(reason))


def _of(line: Mapping[str, Any]) -> str:
    """What a line is known by: its own name, or else all that it says."""
    return name(line.get("uuid")) or name(json.dumps(line.get("message")))


def _parent(line: Mapping[str, Any]) -> str | None:
    return name(line.get("parent_tool_use_id")) or None
