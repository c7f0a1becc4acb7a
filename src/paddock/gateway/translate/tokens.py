"""The tokens that each wire format says were used, read and written."""

from dataclasses import replace

from paddock.gateway.translate.deltas import Usage
from paddock.gateway.translate.reading import At, Body


def anthropic_usage(at: At, before: Usage | None = None) -> Usage:
    """Of Anthropic's `usage`. In a stream it comes in two halves, of which the later counts where it says something."""
    before = before or Usage()
    read = _count(at["cache_read_input_tokens"], before.cache_read)
    write = _count(at["cache_creation_input_tokens"], before.cache_write)
    return Usage(
        input=_count(at["input_tokens"], before.fresh) + read + write,
        output=_count(at["output_tokens"], before.output),
        cache_read=read,
        cache_write=write,
        reasoning=_count(at["output_tokens_details"]["thinking_tokens"], before.reasoning),
    )


def _count(at: At, before: int) -> int:
    # Servers that know the input only at the end say 0 first; some that know it first say 0 at the end.
    return at.any_count() or before


def anthropic_usage_body(usage: Usage) -> Body:
    """Anthropic's `usage`."""
    body: Body = {
        "input_tokens": usage.fresh,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return body


def chat_usage(at: At) -> Usage:
    """Of Chat Completions' `usage`, also as DeepSeek and OpenRouter have it."""
    details = at["prompt_tokens_details"]
    return _sane(
        Usage(
            input=at["prompt_tokens"].any_count(),
            output=at["completion_tokens"].any_count(),
            cache_read=details["cached_tokens"].any_count() or at["prompt_cache_hit_tokens"].any_count(),
            cache_write=details["cache_write_tokens"].any_count(),
            reasoning=at["completion_tokens_details"]["reasoning_tokens"].any_count(),
        )
    )


def chat_usage_body(usage: Usage) -> Body:
    """Chat Completions' `usage`."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def responses_usage(at: At) -> Usage:
    """Of Responses' `usage`."""
    details = at["input_tokens_details"]
    return _sane(
        Usage(
            input=at["input_tokens"].any_count(),
            output=at["output_tokens"].any_count(),
            cache_read=details["cached_tokens"].any_count(),
            cache_write=details["cache_write_tokens"].any_count(),
            reasoning=at["output_tokens_details"]["reasoning_tokens"].any_count(),
        )
    )


def responses_usage_body(usage: Usage) -> Body:
    """Responses' `usage`."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def gemini_usage(at: At) -> Usage:
    """Of Gemini's `usageMetadata`, which counts thinking beside the candidates and tools beside the prompt."""
    thoughts = at["thoughtsTokenCount"].any_count()
    return _sane(
        Usage(
            input=at["promptTokenCount"].any_count() + at["toolUsePromptTokenCount"].any_count(),
            output=at["candidatesTokenCount"].any_count() + thoughts,
            cache_read=at["cachedContentTokenCount"].any_count(),
            reasoning=thoughts,
        )
    )


def _sane(usage: Usage) -> Usage:
    """`usage` with no more from the cache than there was: what is left is what is paid in full."""
    read = min(usage.cache_read, usage.input)
    return replace(usage, cache_read=read, cache_write=min(usage.cache_write, usage.input - read))
