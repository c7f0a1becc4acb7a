"""What the files of an assistant may say: the schemas that are published, and that files are checked against."""

from typing import Any

from paddock.config import POLICIES
from paddock.manager.keys import MAX_ID

Schema = dict[str, Any]

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _text(about: str, **more: Any) -> Schema:
    return {"type": "string", "minLength": 1, "description": about, **more}


def _number(about: str, **more: Any) -> Schema:
    return {"type": "integer", "minimum": 1, "description": about, **more}


def _flag(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def _time(about: str) -> Schema:
    return {"type": ["string", "number"], "format": "paddock-time", "description": about}


def _size(about: str) -> Schema:
    return {"type": ["string", "integer"], "format": "paddock-size", "description": about}


def _list(about: str, items: Schema) -> Schema:
    return {"type": "array", "items": items, "description": about}


def _texts(about: str) -> Schema:
    return _list(about, {"type": "string", "minLength": 1})


def _words(about: str) -> Schema:
    return {"anyOf": [{"type": "string", "minLength": 1}, {**_texts(about), "minItems": 1}], "description": about}


def _by_name(about: str, values: Schema, names: str | None = None) -> Schema:
    known = {"propertyNames": {"pattern": f"^{names}$"}} if names else {}
    return {"type": "object", "additionalProperties": values, "description": about, **known}


def _object(about: str, properties: dict[str, Schema], **more: Any) -> Schema:
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "additionalProperties": False,
        **more,
    }


_REFERENCES = "`$ENV.NAME` is what that variable of this host has."
_ENV = r"[^=\u0000]+"
_CONSENT = _text("`ask`: somebody is asked about each call.", enum=["allowed", "ask"])

SERVER = _object(
    "An MCP server, whose tools the assistant may use. It runs on this host, or is connected to from here.",
    {
        "command": _words("The program that is started, in the folder of the assistant: words, or one text."),
        "url": _text("Where it is, if it is not started: a streamable HTTP endpoint."),
        "env": _by_name(f"What the program gets in its environment. {_REFERENCES}", {"type": "string"}, _ENV),
        "headers": _by_name(f"What is sent along to the url. {_REFERENCES}", {"type": "string"}),
        "only": _texts("Of its tools, only these."),
        "exclude": _texts("Of its tools, all but these."),
        "rename": _by_name("Other names for its tools.", {"type": "string", "minLength": 1}),
        "consent": _CONSENT,
        "timeout": _time("How long one call may take."),
    },
    oneOf=[{"required": ["command"]}, {"required": ["url"]}],
)

_STEP = _object(
    "One step: exactly one of file, copy and exec.",
    {
        "file": _text("A path inside that is written."),
        "content": {"type": "string", "description": "What is in it."},
        "copy": _text("A file or folder of the assistant that is copied."),
        "to": _text("Where to, inside."),
        "exec": _words("A command that is run inside: a text for the shell, or words."),
        "once": _flag("Not again in this workspace, until the step changes."),
        "keep": _flag("A file that is there already stays as it is."),
        "background": _flag("Started once for each sandbox, and not waited for."),
        "ignore_error": _flag("If it fails, go on."),
        "timeout": _time("How long the command may take, 5 minutes if it is not given."),
    },
    oneOf=[{"required": ["file"]}, {"required": ["copy", "to"]}, {"required": ["exec"]}],
)

_SANDBOX = _object(
    "Where the agent works. Without it, or without an agent, the model is asked directly.",
    {
        "agent": {"type": "string", "description": "Which agent: `paddock agents` lists them. Empty is none."},
        "command": {"type": "string", "description": "Another word for agent."},
        "backend": _text("Where sandboxes run, if not as configured."),
        "image": _text("The image of the sandbox, which has the agent's program in it."),
        "memory": _size('How much it may use, such as "4g".'),
        "max_memory": _size("Another word for memory."),
        "cpu": {"type": "number", "exclusiveMinimum": 0, "description": "How many processors."},
        "max_cpu": {"type": "number", "exclusiveMinimum": 0, "description": "Another word for cpu."},
        "pids": _number("How many processes."),
        "best_effort": _flag("Go on where a limit cannot be held."),
        "timeout": _time('How long one request may take the agent, such as "10m".'),
        "policy": _text("What becomes of the sandbox after a request.", enum=list(POLICIES)),
        "idle_timeout": _time("How long it is kept while nobody uses it."),
        "lifetime": _time("How long it is kept at the most."),
        "workspace": _text("The name of a workspace that all chats of a user share.", maxLength=MAX_ID),
        "env": _by_name(
            "What commands find in their environment. No secrets: those stay outside.", {"type": "string"}, _ENV
        ),
        "arguments": {
            "type": "object",
            "description": "Options of the agent, such as model, max_turns, permission.",
            "properties": {
                "allowed_tools": _texts("The agent's own tools that it may use."),
                "disallowed_tools": _texts("Those that it may not use."),
            },
        },
        "prepare": _list("What is done inside before the first hook.", _STEP),
    },
)

_SECRET = _object(
    "A value that is added to requests for hosts, outside. The sandbox never holds it.",
    {
        "hosts": {**_texts("For which hosts."), "minItems": 1},
        "value": _text(
            "`$ENV.NAME`, if the variable is not called as the secret is.",
            writeOnly=True,
            pattern=r"^\$ENV\.[A-Za-z_]\w*$",
        ),
        "header": _text("In which header, `authorization` if it is not given."),
        "format": _text("The header's value, `Bearer {}` if it is not given."),
        "tls": _flag("Add it to HTTPS requests."),
    },
    required=["hosts"],
)

_TOOL = {
    "anyOf": [
        {"type": "string", "pattern": r"^[^:]+\.py:[A-Za-z_]\w*$"},
        _object(
            "The same, with terms.",
            {
                "use": _text("Such as `tools.py:add`.", pattern=r"^[^:]+\.py:[A-Za-z_]\w*$"),
                "name": _text("What the model calls it."),
                "consent": _CONSENT,
                "timeout": _time("How long one call may take."),
            },
            required=["use"],
        ),
    ],
    "description": "A Python function of a file in the folder, such as `tools.py:add`. It runs on this host.",
}

ASSISTANT = _object(
    "An assistant of Paddock: assistant.yml.",
    {
        "name": _text("What it is called, if not as its folder is.", pattern=f"^{NAME}$"),
        "description": _text("What it is for."),
        "connector": _text("Which of the configured connectors it asks; the only one if it is not given."),
        "model": _text("What it asks the connector for."),
        "variables": _by_name(
            "What prompts may use beside the known variables, with what they are unless a request says otherwise; "
            "one that is null has to be given.",
            {"type": ["string", "null"]},
            r"[a-z][a-z0-9_]{0,63}",
        ),
        "sandbox": _SANDBOX,
        "network": {
            "anyOf": [
                {"type": "string", "enum": ["none", "open"]},
                {"type": "array", "items": {"type": "string", "minLength": 1}},
            ],
            "description": "What the sandbox may reach: `none`, `open`, or a list of hosts.",
        },
        "secrets": _by_name("By name; the variable of that name has the value.", _SECRET, r"[A-Za-z_][A-Za-z0-9_]*"),
        "tools": _list("Functions that it may use.", _TOOL),
        "mcp": _by_name(
            "MCP servers by name; the files of mcp/ are others.", SERVER, r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}"
        ),
        "hooks": _object("Terms of hooks.py.", {"timeout": _time("How long a hook may take, 30 seconds.")}),
        "attachments": _object(
            "What may be sent along with a message.",
            {
                "max": _number("How many, 4 if it is not given.", minimum=0),
                "max_bytes": _size("How much together, 10 MB if it is not given."),
                "allowed": _texts("Only these suffixes, such as `.pdf`."),
                "denied": _texts("All but these suffixes."),
            },
        ),
        "history": _number(
            "How many messages of the past it is told at the most, 40 if it is not given. An agent whose own session goes on "
            "knows all of it; with 0 it begins anew each time, and knows nothing.",
            minimum=0,
        ),
    },
)

PROMPTS = _object(
    "What an assistant is told: prompts.yml. {{name}} stands for a variable, {{{{ and }}}} for two braces.",
    {
        "system": _text("Who it is and what it does: a part of its system prompt."),
        "examples": _list(
            "Conversations that it is shown as if it had had them.",
            _object("A turn.", {"user": _text("What is asked."), "assistant": _text("What it answers.")})
            | {"required": ["user", "assistant"]},
        ),
        "greeting": _text("What people see before they say something."),
    },
)

SCHEMAS: dict[str, Schema] = {"assistant": ASSISTANT, "prompts": PROMPTS, "mcp": SERVER}


def published(name: str) -> Schema:
    """One of them as it is published."""
    return {"$schema": DRAFT, "title": f"{name}.yml of a Paddock assistant", **SCHEMAS[name]}
