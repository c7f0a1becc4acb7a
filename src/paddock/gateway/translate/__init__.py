"""Between Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, without any input or output of its own.

A client asks in the words of one wire format (`read_request`), and a provider is asked in those of another
(`write_request`); the answer goes the same way back, whole (`read_answer`, `write_answer`) or as a stream
(`AnswerReader`, `AnswerWriter`). In between is a neutral model: an `Ask`, and a stream of `Delta`. So each format is
written once, and any client works with any provider. `UsageReader` finds the tokens in what is passed through as it is.

This is written here because no library was good enough. litellm is 62 packages, 300 MB and 3 s to import, talks to
providers itself, with the keys, and its converters are no public module: they move between releases. Smaller ones refuse
requests with anything that they do not know yet, which every other release of an agent sends, or change it silently.

What a client sends wrongly is a `BadRequest`, which names the place. What a provider sends never raises: it becomes a
`Failed`. What cannot be said in another format is left out and named in the warnings.
"""

from paddock.gateway.translate.anthropic.system import plain_system
from paddock.gateway.translate.deltas import (
    Began,
    Delta,
    Ended,
    Failed,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
)
from paddock.gateway.translate.failures import Wire, error_body, failure, read_failure
from paddock.gateway.translate.model import Ask
from paddock.gateway.translate.reading import BadRequest, dump_json, load_json, values_in
from paddock.gateway.translate.streams import AnswerReader, AnswerWriter, Translated, ping
from paddock.gateway.translate.target import Target, Written, merge_options
from paddock.gateway.translate.usage import UsageReader
from paddock.gateway.translate.whole import read_answer, read_request, write_answer, write_request

__all__ = [
    "AnswerReader",
    "AnswerWriter",
    "Ask",
    "BadRequest",
    "Began",
    "Delta",
    "Ended",
    "Failed",
    "PartEnded",
    "Target",
    "TextDelta",
    "ThinkingDelta",
    "ThinkingSealed",
    "ToolArguments",
    "ToolBegan",
    "Translated",
    "Usage",
    "UsageReader",
    "Used",
    "Wire",
    "Written",
    "dump_json",
    "error_body",
    "failure",
    "load_json",
    "merge_options",
    "ping",
    "plain_system",
    "read_answer",
    "read_failure",
    "read_request",
    "values_in",
    "write_answer",
    "write_request",
]
