"""Gemini CLI: `gemini -o stream-json`, with a line of JSON for each event."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.errors import AgentError, ConfigError, TooLargeError
from paddock.runners import failures, programs
from paddock.runners.agent import Launch, Task
from paddock.runners.events import Done, Event, Failed, Log, Started, ToolCall, ToolResult, Usage
from paddock.runners.names import Names, name
from paddock.runners.options import Options
from paddock.runners.programs import Package, Program
from paddock.runners.prose import Prose
from paddock.runners.shapes import count, fields, text

_PACKAGES = (Package("@google/gemini-cli", "bundle/gemini.js", "node"),)
_MODES = {"all": "yolo", "edit": "auto_edit", "plan": "plan"}
_MODEL = "pro"
"""By itself it would ask one model which to ask, for every turn."""
_SETTINGS = ".gemini/settings.json"
_SYSTEM = "PADDOCK.md"
_CONTEXT = {"fileName": ["GEMINI.md", _SYSTEM], "importFormat": "flat"}
"""By the other format, words with an @ before them would be taken for files, and taken out."""
_POLICY = ".paddock/gemini/policy.toml"
_NOT_THE_WORKSPACES = ("GEMINI_SYSTEM_MD", "GEMINI_WRITE_SYSTEM_MD", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI")
"""What `.gemini/.env` of the workspace may say as long as nobody else does."""
_API_ERROR = re.compile(r"\[API Error: (.*)\]", re.DOTALL)
_TOOL = re.compile(r"[A-Za-z0-9_*.-]+")
_WRITES = ("write_file", "replace")
"""Which write plans, in its mode for planning."""
_WAYS_OUT = ("enter_plan_mode", "exit_plan_mode")
"""Of its mode: where nobody can be asked, whoever leaves the one for planning may do everything."""
_MOST_INPUT = 8 << 20
"""Bytes of a prompt; the program leaves out the rest."""
_NO_SESSION = ("Error resuming session", "No previous sessions found")
_NO_MODEL = "ModelNotFoundError"
_STATUSES = {status & 0xFF: status for status in (400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529)}
"""The program ends with what is left of the model's status in a byte, but for a model that is not there."""


class Gemini:
    """Google's agent."""

    name = "gemini"
    title = "Gemini CLI"
    command = ("gemini",)
    needs_models = True
    install = "npm install @google/gemini-cli"
    skills = ".gemini/skills"
    sessions = (".gemini/tmp", ".gemini/projects.json")

    def find(self) -> Program | None:
        """On the PATH, or as npm installs it."""
        return programs.find(self.name, self.command[0], _PACKAGES)

    def check(self, options: Options) -> None:
        """Rules about tools have to be those of its policy engine."""
        for tool in (*options.allowed_tools, *options.disallowed_tools):
            if not _TOOL.fullmatch(tool):
                raise ConfigError(
                    f"{tool!r:.80} is no tool of Gemini's.", hint="Such as 'run_shell_command' or 'mcp_paddock_*'."
                )

    def launch(self, task: Task) -> Launch:
        """The prompt by standard input, all else by files in the home."""
        files = {_SETTINGS: json.dumps(_settings(task))}
        if task.system:
            files[f".gemini/{_SYSTEM}"] = task.system
        files[_POLICY] = "\n".join(_policy(task.options))
        return Launch((*task.inside.program, *_flags(task)), _input(task.no_command), _environment(task), files)

    def reader(self, task: Task) -> "GeminiReader":
        """Who understands what it prints."""
        return GeminiReader(resumed=task.resume is not None)


def _flags(task: Task) -> Iterator[str]:
    # The flag, and not the variable: settings and .env of the workspace are read before it, and therefore left out.
    yield from ("--output-format", "stream-json", "--skip-trust")
    yield from ("--approval-mode", _MODES[task.options.permission])
    yield from ("--model", task.options.model or task.inside.model or _MODEL)
    yield from ("--policy", f"{task.inside.home}/{_POLICY}")
    if task.resume:
        yield from ("--resume", task.resume)


def _environment(task: Task) -> dict[str, str]:
    return {
        "HOME": task.inside.home,
        "GEMINI_CLI_NO_RELAUNCH": "true",  # or it starts itself once more, for a larger heap
        "NO_COLOR": "1",
        "TERM": "xterm-256color",  # or its last words, when it fails, are about the terminal that there is not
        "COLORTERM": "truecolor",
        "NO_BROWSER": "1",
        "GEMINI_CLI_HOME": task.inside.home,  # or the workspace names another, with words and skills of its own
        "GEMINI_SANDBOX": "false",
        **dict.fromkeys(_NOT_THE_WORKSPACES, ""),
    }


def _settings(task: Task) -> dict[str, Any]:
    bridge, turns = task.inside.bridge, task.options.max_turns
    servers = {"paddock": _server(bridge, task.options.tool_seconds)} if bridge else {}
    return {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": 1,  # the gateway has tried again already
            "retryFetchErrors": False,
            "sessionRetention": {"enabled": False},  # whoever keeps what it remembers decides that
        },
        "advanced": {"ignoreLocalEnv": True, "autoConfigureMemory": False},
        "hooksConfig": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "tools": {"shell": {"enableInteractiveShell": False}},
        "mcpServers": servers,
        **({"model": {"maxSessionTurns": turns}} if turns is not None else {}),
        **({"context": _CONTEXT} if task.system else {}),
    }


def _server(bridge: tuple[str, ...], seconds: float) -> dict[str, Any]:
    return {"command": bridge[0], "args": list(bridge[1:]), "timeout": math.ceil(seconds * 1000)}


def _policy(options: Options) -> Iterator[str]:
    """Rules of the user's, which go before those of the modes. A tool that is denied is not offered."""
    if options.permission == "plan":
        yield from _rules(_WRITES, "deny", 800)
    yield from _rules(options.allowed_tools, "allow", 900)
    yield from _rules(options.disallowed_tools, "deny", 998)
    if options.permission != "all":
        yield from _rules(_WAYS_OUT, "deny", 999)


def _rules(names: tuple[str, ...], decision: str, priority: int) -> Iterator[str]:
    for tool in names:
        yield f'[[rule]]\ntoolName = "{tool}"\ndecision = "{decision}"\npriority = {priority}\n'


def _input(prompt: str) -> bytes:
    given = prompt.encode()
    if len(given) > _MOST_INPUT:
        raise TooLargeError(f"The prompt has more than {_MOST_INPUT} bytes.", hint="Put what is long into files.")
    return given


class GeminiReader:
    """The events of one run."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._session: str | None = None
        self._model: str | None = None
        self._prose = Prose()
        self._message = 0
        self._called = Names()
        self._answered = Names()
        self._used = Usage()
        self._complaint = ""
        self._error: Mapping[str, Any] | None = None

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """What a line tells."""
        read = {
            "init": self._init,
            "message": self._said,
            "tool_use": self._call,
            "tool_result": self._came,
            "error": self._remark,
            "result": self._result,
        }.get(str(line.get("type")))
        if read is not None:
            yield from read(line)

    def finish(self, exit_code: int, stderr: str) -> Failed:
        """It ended: with an error, of which its exit code and its last words say more, or without any result."""
        if self._error is not None:
            status = 404 if _NO_MODEL in stderr else _STATUSES.get(exit_code)
            error = _error(self._error, self._complaint, status)
        elif self._session is None and any(known in stderr for known in _NO_SESSION):
            error = failures.no_session("gemini", stderr)
        else:
            error = failures.exited("gemini", exit_code, stderr)
        return Failed(error, self._session, self._used)

    def _init(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if self._session is None:
            self._session, self._model = name(line.get("session_id")) or None, text(line.get("model")) or None
            yield Started("gemini", self._session, self._model, None, self._resumed)

    def _said(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if line.get("role") == "assistant":
            yield from self._prose.add(str(self._message), text(line.get("content")))

    def _call(self, line: Mapping[str, Any]) -> Iterator[Event]:
        known = name(line.get("tool_id"))
        if known not in self._called:
            self._called.add(known)
            self._message += 1
            self._prose.pause()
            yield ToolCall(known, text(line.get("tool_name")), fields(line.get("parameters")))

    def _came(self, line: Mapping[str, Any]) -> Iterator[Event]:
        known, failed = name(line.get("tool_id")), line.get("status") == "error"
        said = text(fields(line.get("error")).get("message")) if failed else ""
        if known not in self._answered:
            self._answered.add(known)
            yield ToolResult(known, text(line.get("output")) or said, failed)

    def _remark(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self._complaint = text(line.get("message"))
        yield Log(self._complaint)

    def _result(self, line: Mapping[str, Any]) -> Iterator[Event]:
        used = _tokens(fields(line.get("stats"))).beyond(self._used)
        if used:
            self._used += used
            yield used
        if line.get("status") == "success":
            yield Done(self._prose.reply, self._session, self._model, self._used)
        else:
            self._error = fields(line.get("error"))


def _tokens(stats: Mapping[str, Any]) -> Usage:
    """Thoughts are in the total alone."""
    read, cached = count(stats.get("input_tokens")), count(stats.get("cached"))
    said = max(count(stats.get("output_tokens")), count(stats.get("total_tokens")) - read)
    return Usage(max(0, read - cached), said, cached)


def _error(error: Mapping[str, Any], complaint: str, status: int | None) -> AgentError:
    kind, words = text(error.get("type")), text(error.get("message")) or complaint
    if kind == "FatalTurnLimitedError":
        return failures.turns("gemini", words)
    if kind.startswith("Fatal"):
        return failures.failed("gemini", words)
    return failures.api("gemini", status, _plain(words))


def _plain(words: str) -> str:
    """What the provider said, without its wrapping."""
    found = _API_ERROR.search(words)
    try:
        said = json.loads(found[1]) if found else None
    except (ValueError, RecursionError):
        return words
    return text(fields(fields(said).get("error")).get("message")) or words
