"""Cursor's agent: `cursor-agent -p`, with a line of JSON for each event. Written by its documentation."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.errors import AgentError, ConfigError
from paddock.runners import failures, programs
from paddock.runners.agent import Launch, Task
from paddock.runners.events import Done, Event, Failed, Started, Thinking, ToolCall, ToolResult, Usage
from paddock.runners.names import Names, name
from paddock.runners.options import Options
from paddock.runners.programs import Program
from paddock.runners.prose import Prose, Tail
from paddock.runners.shapes import count, fields, items, text

_NAMES = ("cursor-agent", "agent")
_FOLDER = "cursor-agent/versions/*"
"""Where its installer puts it, with a Node of its own and all else that it needs."""
_MODES = {"all": ("--force",), "plan": ("--mode", "plan")}
_RULE = re.compile(r"(Shell|Read|Write|WebFetch|Mcp)\(.+\)")
_NO_SESSION = re.compile(r"(chat|session|conversation)\b.{0,80}(not found|not exist|no longer)", re.IGNORECASE)
_WORDS = ("stdout", "stderr", "errorMessage", "error", "message", "reason")


class Cursor:
    """Cursor's agent, which asks Cursor's own servers alone."""

    name = "cursor"
    title = "Cursor"
    command = ("cursor-agent",)
    needs_models = False
    install = "see cursor.com/docs/cli"
    skills = ".cursor/skills"
    sessions = (".cursor/chats",)
    key_variable = "CURSOR_API_KEY"
    hosts = ("*.cursor.sh",)

    def find(self) -> Program | None:
        """On the PATH, by either of its names; others are called `agent` too."""
        for command in _NAMES:
            path = shutil.which(command)
            if path is not None and "cursor" in str(Path(path).resolve()):
                return programs.find(self.name, command, (), _FOLDER)
        return None

    def check(self, options: Options) -> None:
        """It has modes, and permissions of its own kind."""
        if options.permission not in _MODES:
            raise ConfigError(
                f"permission={options.permission!r} is none that Cursor keeps to where nobody can be asked.",
                hint="Use 'all' or 'plan'.",
            )
        if options.max_turns is not None:
            raise ConfigError(
                f"Cursor has no word for max_turns={options.max_turns}.", hint="Leave it out, and use timeout."
            )
        for rule in (*options.allowed_tools, *options.disallowed_tools):
            if not _RULE.fullmatch(rule):
                raise ConfigError(
                    f"{rule!r:.80} is no permission of Cursor's.", hint="Such as 'Shell(git)' or 'Write(src/**)'."
                )

    def launch(self, task: Task) -> Launch:
        """The prompt by standard input, all else by files in the home."""
        files = {
            ".cursor/cli-config.json": json.dumps(_config(task.options)),
            ".cursor/mcp.json": json.dumps({"mcpServers": _servers(task.inside.bridge)}),
        }
        environment = {"HOME": task.inside.home, "NO_OPEN_BROWSER": "1", "NODE_USE_ENV_PROXY": "1"}
        return Launch((*task.inside.program, *_flags(task)), _input(task).encode(), environment, files)

    def reader(self, task: Task) -> "CursorReader":
        """Who understands what it prints."""
        return CursorReader(resumed=task.resume is not None)


def _flags(task: Task) -> Iterator[str]:
    options = task.options
    yield from ("-p", "--output-format", "stream-json", "--stream-partial-output", "--trust")
    yield from ("--workspace", task.inside.workdir, *_MODES[options.permission])
    if task.inside.bridge:
        yield "--approve-mcps"
    if options.model:
        yield from ("--model", options.model)
    if task.resume:
        yield from ("--resume", task.resume)


def _config(options: Options) -> dict[str, Any]:
    permissions = {"allow": list(options.allowed_tools), "deny": list(options.disallowed_tools)}
    return {"version": 1, "editor": {"vimMode": False}, "permissions": permissions}


def _servers(bridge: tuple[str, ...]) -> dict[str, Any]:
    return {"paddock": {"command": bridge[0], "args": list(bridge[1:])}} if bridge else {}


def _input(task: Task) -> str:
    """There is no way to add to its system prompt: what is to be there comes first in a conversation."""
    return f"{task.system}\n\n{task.prompt}" if task.system and not task.resume else task.prompt


class CursorReader:
    """The events of one run."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._session: str | None = None
        self._model: str | None = None
        self._prose = Prose()
        self._message = 0
        self._heard = Tail()
        self._in_pieces = False
        self._called = Names()
        self._used = Usage()

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """What a line tells."""
        read = {
            "system": self._system,
            "thinking": self._thought,
            "assistant": self._said,
            "tool_call": self._tool,
            "result": self._result,
        }.get(str(line.get("type")))
        if read is not None:
            yield from read(line)

    def finish(self, exit_code: int, stderr: str) -> Failed:
        """It ended without a result, which it may do with 0 too."""
        return Failed(self._end(exit_code, stderr), self._session, self._used)

    def _end(self, exit_code: int, stderr: str) -> AgentError:
        if self._resumed and self._session is None and _NO_SESSION.search(stderr):
            return failures.no_session("cursor", stderr)
        return failures.exited("cursor", exit_code, stderr)

    def _system(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if line.get("subtype") == "init" and self._session is None:
            self._session, self._model = name(line.get("session_id")) or None, text(line.get("model")) or None
            yield Started("cursor", self._session, self._model, None, self._resumed)

    def _thought(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if words := text(line.get("text")):
            yield Thinking(words)

    def _said(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """Pieces have a time and no call; what comes without the one or with the other repeats them."""
        words = "".join(text(block.get("text")) for block in items(fields(line.get("message")).get("content")))
        if "timestamp_ms" in line and "model_call_id" not in line:
            self._in_pieces = True
            self._heard.add(_packed(words))
            yield from self._prose.add(str(self._message), words)
            return
        if not self._in_pieces or not self._heard.ends_with(_packed(words)):
            self._message += 1
            self._heard.add(_packed(words))
            yield from self._prose.add(str(self._message), words)
        self._message += 1

    def _tool(self, line: Mapping[str, Any]) -> Iterator[Event]:
        known = name(line.get("call_id"))
        kind, call = next(iter(fields(line.get("tool_call")).items()), ("", {}))
        if known not in self._called:
            self._called.add(known)
            self._message += 1
            self._prose.pause()
            yield ToolCall(known, *_called(kind, fields(call)))
        if line.get("subtype") == "completed":
            yield ToolResult(known, *_came(fields(fields(call).get("result"))))

    def _result(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self._session = self._session or name(line.get("session_id")) or None
        self._used = _tokens(fields(line.get("usage")))
        if self._used:
            yield self._used
        words = text(line.get("result"))
        if line.get("is_error") or line.get("subtype") != "success":
            yield Failed(failures.failed("cursor", words or str(line.get("subtype"))), self._session, self._used)
        else:
            yield Done(self._prose.reply or words, self._session, self._model, self._used)


def _packed(words: str) -> str:
    return "".join(words.split())


def _called(kind: str, call: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A tool's name, and what it was given: `{"shellToolCall": {"args": …}}`, or a function by name."""
    if kind == "function":
        return text(call.get("name")), _parsed(text(call.get("arguments")))
    given = fields(call.get("args"))
    if kind == "mcpToolCall":
        return text(given.get("toolName")) or text(given.get("name")), fields(given.get("args"))
    return kind.removesuffix("ToolCall"), given


def _parsed(arguments: str) -> Mapping[str, Any]:
    try:
        return fields(json.loads(arguments))
    except (ValueError, RecursionError):
        return {}


def _came(result: Mapping[str, Any]) -> tuple[str, bool]:
    """What a tool came to, and whether it failed: `{"success": …}`, or another word for how it did not."""
    how, came = next(iter(result.items()), ("success", {}))
    said = fields(came)
    whole = text(said.get("content")) or text(said.get("interleavedOutput"))
    told = whole or "\n".join(words for name in _WORDS if (words := text(said.get(name))))
    told = told or text(came) or (json.dumps(came) if came else "")
    return told, how != "success" or bool(said.get("exitCode"))


def _tokens(usage: Mapping[str, Any]) -> Usage:
    """As newer versions tell it."""
    return Usage(
        count(usage.get("inputTokens")),
        count(usage.get("outputTokens")),
        count(usage.get("cacheReadTokens")),
        count(usage.get("cacheWriteTokens")),
    )
