"""OpenCode: `opencode run --format json`, with a plugin of ours that tells what it keeps to itself."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from paddock.errors import AgentError, ConfigError
from paddock.runners import failures, programs
from paddock.runners.agent import Launch, Task
from paddock.runners.events import Done, Event, Failed, Log, Started, Thinking, ToolCall, ToolResult, Usage
from paddock.runners.names import Names, name
from paddock.runners.options import Options
from paddock.runners.programs import Package, Program
from paddock.runners.prose import Prose
from paddock.runners.shapes import amount, count, fields, status, text

_PACKAGES = (
    Package("opencode-linux-{arch}", "bin/opencode"),
    Package("opencode-linux-{arch}-baseline", "bin/opencode"),
)
_RIPGREP = (
    Package("@vscode/ripgrep-linux-{arch}", "bin/rg"),
    Package("@vscode/ripgrep", "bin/rg"),
    Package("@openai/codex-linux-{arch}", "vendor/{machine}-unknown-linux-musl/codex-path/rg"),
)
_WITH_SEARCH = 'PATH="$PATH:${0%/*}" exec "$@"'
_PLUGIN = Path(__file__).with_name("opencode.js")
_CONFIG = ".config/opencode"
_LOOKING = ("read", "glob", "grep", "list", "lsp", "skill", "task", "todoread", "todowrite")
_MODES = {
    "all": {"*": "allow"},
    "edit": {"*": "deny", **dict.fromkeys(_LOOKING, "allow"), "edit": "allow"},
    "plan": {"*": "deny", **dict.fromkeys(_LOOKING, "allow")},
}
_LIMITS = {"context": 128_000, "output": 16_384}
"""It has to know them, and nobody tells."""
_TRIES = 2
"""How often a model is asked in vain: by itself it goes on for a minute, and the gateway has tried again already."""
_NO_SESSION = "Session not found"


class OpenCode:
    """The agent of the people behind SST, for any provider."""

    name = "opencode"
    title = "OpenCode"
    command = ("opencode",)
    needs_models = True
    install = "npm install opencode-ai"
    skills = f"{_CONFIG}/skills"
    sessions = tuple(f".local/share/opencode/opencode.db{end}" for end in ("", "-wal", "-shm"))

    def find(self) -> Program | None:
        """On the PATH, or as npm installs it; with ripgrep, without which it neither searches nor knows skills."""
        program, search = programs.find(self.name, self.command[0], _PACKAGES), programs.find("ripgrep", "rg", _RIPGREP)
        if program is None or search is None or not search.mounts:
            return program
        argv = ("sh", "-c", _WITH_SEARCH, search.argv[-1], *program.argv)
        return replace(program, argv=argv, mounts=(*program.mounts, *search.mounts))

    def check(self, options: Options) -> None:
        """It has a word for everything, with a plugin of ours."""

    def launch(self, task: Task) -> Launch:
        """The prompt by standard input, all else by its configuration in the home."""
        resume = ("--session", task.resume) if task.resume else ("--title", "Paddock")  # else it asks for one
        argv = (*task.inside.program, "run", "--format", "json", "--thinking", *resume)
        files = {
            f"{_CONFIG}/opencode.json": json.dumps(_config(task)),
            f"{_CONFIG}/plugin/paddock.js": _PLUGIN.read_text(),
            f"{_CONFIG}/node_modules/.keep": "",  # with these two it does not try to install anything
            f"{_CONFIG}/package-lock.json": '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}',
            f"{_CONFIG}/models.json": "{}",
        }
        if task.system:
            files[f"{_CONFIG}/paddock.md"] = task.system
        return Launch(argv, task.no_mark.encode(), _environment(task), files)

    def reader(self, task: Task) -> "OpenCodeReader":
        """Who understands what it prints."""
        return OpenCodeReader(_model(task), resumed=task.resume is not None, most=task.options.max_turns)


def _model(task: Task) -> str | None:
    model = task.options.model or task.inside.model
    if model is None and task.inside.url:
        raise ConfigError("OpenCode chooses no model by itself.", hint="Give model=, or a connector that names one.")
    return model


def _config(task: Task) -> dict[str, Any]:
    model, inside = _model(task), task.inside
    says = f"{inside.home}/{_CONFIG}/paddock.md"
    config: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "formatter": False,
        "lsp": False,
        "permission": _permission(task.options),
        "instructions": [f"{inside.workdir}/AGENTS.md", *((says,) if task.system else ())],
    }
    if inside.bridge:
        config["mcp"] = {"paddock": _server(inside.bridge, task.options.tool_seconds)}
    if inside.url and model:
        config |= {"model": f"paddock/{model}", "small_model": f"paddock/{model}"}
        config |= {"enabled_providers": ["paddock"], "provider": {"paddock": _provider(inside.url, model)}}
    elif model:
        config["model"] = model
    return config


def _server(bridge: tuple[str, ...], seconds: float) -> dict[str, Any]:
    return {"type": "local", "command": list(bridge), "enabled": True, "timeout": math.ceil(seconds * 1000)}


def _provider(url: str, model: str) -> dict[str, Any]:
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Paddock",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:OPENAI_API_KEY}"},
        "models": {model: {"name": model, "limit": _LIMITS}},
    }


def _permission(options: Options) -> dict[str, str]:
    """The last that fits is what holds."""
    allowed, denied = dict.fromkeys(options.allowed_tools, "allow"), dict.fromkeys(options.disallowed_tools, "deny")
    return {**_MODES[options.permission], **allowed, **denied}


def _environment(task: Task) -> dict[str, str]:
    found = {
        "HOME": task.inside.home,
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    }
    if task.inside.url:
        found["OPENCODE_MODELS_PATH"] = f"{task.inside.home}/{_CONFIG}/models.json"
    return found


class OpenCodeReader:
    """The events of one run. Its own lines and the plugin's say much twice; parts are known by their names."""

    def __init__(self, model: str | None = None, *, resumed: bool = False, most: int | None = None) -> None:
        self._model = model
        self._resumed = resumed
        self._most = most
        self._session: str | None = None
        self._parents = Names()
        """The call that a session of a sub-agent is for."""
        self._prose = Prose()
        self._kinds = Names()
        """What the parts are that come in pieces."""
        self._told_parts = Names()
        self._called = Names()
        self._turns = 0
        self._used = Usage()

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """What a line tells."""
        kind, part = text(line.get("type")), fields(line.get("part"))
        session = name(line.get("sessionID"))
        if session and self._session is None:
            self._session = session
            yield Started("opencode", session, self._model, resumed=self._resumed)
        parent = self._parents.get(session)
        if kind == "error":
            yield Failed(_error(fields(line.get("error"))), self._session, self._used)
        elif kind == "session.status":
            yield from self._retry(fields(line.get("status")), status(line.get("refusal")), parent)
        elif kind == "message.part.delta":
            yield from self._piece(line, parent)
        elif part:
            yield from self._part(part, parent)

    def finish(self, exit_code: int, stderr: str) -> Done | Failed:
        """Its end is the end; there is no line for it."""
        if self._session is None and _NO_SESSION in stderr:
            return Failed(failures.no_session("opencode", _NO_SESSION), self._session, self._used)
        if exit_code or not self._turns:
            return Failed(failures.exited("opencode", exit_code, stderr), self._session, self._used)
        return Done(self._prose.reply, self._session, self._model, self._used, self._turns)

    def _retry(self, told: Mapping[str, Any], refusal: int | None, parent: str | None) -> Iterator[Event]:
        if told.get("type") != "retry":
            return
        if parent is None:
            self._prose.pause()  # what was cut off is no part of the reply
        words = text(told.get("message"))
        if count(told.get("attempt")) < _TRIES:
            yield Log(f"Asking the model again: {words}")
        else:
            yield Failed(failures.api("opencode", refusal, words), self._session, self._used)

    def _piece(self, line: Mapping[str, Any], parent: str | None) -> Iterator[Event]:
        known, words = name(line.get("partID")), text(line.get("delta"))
        kind = self._kinds.get(known)
        if line.get("field") != "text" or not words or known in self._told_parts:
            return
        if kind == "text":
            yield from self._prose.add(known, words, parent)
        elif kind == "reasoning":
            self._told_parts.add(f"{known} begun")
            yield Thinking(words, parent)

    def _part(self, part: Mapping[str, Any], parent: str | None) -> Iterator[Event]:
        kind, known = text(part.get("type")), name(part.get("id"))
        if kind == "tool":
            yield from self._tool(part, parent)
            return
        self._kinds.add(known, name(kind))
        if known in self._told_parts or not _is_over(part):
            return
        self._told_parts.add(known)
        if kind == "text":
            yield from self._prose.whole(known, text(part.get("text")), parent)
        elif kind == "reasoning" and f"{known} begun" not in self._told_parts:
            yield Thinking(text(part.get("text")), parent)
        elif kind == "step-finish":
            yield from self._step(part, parent)

    def _tool(self, part: Mapping[str, Any], parent: str | None) -> Iterator[Event]:
        known, state = name(part.get("callID")), fields(part.get("state"))
        inner = name(fields(state.get("metadata")).get("sessionId"))
        if inner and inner != self._session:
            self._parents.add(inner, known)
        if known not in self._called:
            self._called.add(known)
            if parent is None:
                self._prose.pause()
            yield ToolCall(known, text(part.get("tool")), fields(state.get("input")), parent)
        if state.get("status") in ("completed", "error") and f"{known} ended" not in self._called:
            self._called.add(f"{known} ended")
            failed = state.get("status") == "error" or bool(fields(state.get("metadata")).get("exit"))
            yield ToolResult(known, text(state.get("output")) or text(state.get("error")), failed, parent)

    def _step(self, part: Mapping[str, Any], parent: str | None) -> Iterator[Event]:
        used = _tokens(part)
        if used:
            self._used += used
            yield used
        if parent is None:
            self._turns += 1
            if self._turns == self._most and part.get("reason") == "tool-calls":
                yield Failed(failures.turns("opencode", f"{self._most} turns"), self._session, self._used)


def _is_over(part: Mapping[str, Any]) -> bool:
    """What the user said has no time at all."""
    return part.get("type") == "step-finish" or bool(fields(part.get("time")).get("end"))


def _tokens(part: Mapping[str, Any]) -> Usage:
    tokens = fields(part.get("tokens"))
    cache = fields(tokens.get("cache"))
    return Usage(
        count(tokens.get("input")),
        count(tokens.get("output")) + count(tokens.get("reasoning")),
        count(cache.get("read")),
        count(cache.get("write")),
        amount(part.get("cost")) or None,  # it knows no prices of other people's models
    )


def _error(error: Mapping[str, Any]) -> AgentError:
    data = fields(error.get("data"))
    words, code = text(data.get("message")) or text(error.get("name")), status(data.get("statusCode"))
    if error.get("name") == "APIError" or code:
        return failures.api("opencode", code, words)
    return failures.failed("opencode", words)
