"""`Tools`: those that a model is offered together, in the words of any provider."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, overload

from paddock.bridge.context import ToolContext
from paddock.errors import ConfigError
from paddock.tools.providers import PROVIDERS, Asked, Provider, ProviderName
from paddock.tools.result import ToolResult, failed
from paddock.tools.tool import ModelTool
from paddock.tools.wrapping import Wrap

MOST_AT_ONCE = 32


class Tools:
    """Some tools, by name. It never changes: what narrows or wraps it gives another."""

    def __init__(self, tools: Iterable[ModelTool]) -> None:
        self._tools: dict[str, ModelTool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ConfigError(f"Two tools are called {tool.name!r}.", hint="Give each a name of its own.")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[ModelTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __getitem__(self, name: str) -> ModelTool:
        self._check([name])
        return self._tools[name]

    def __repr__(self) -> str:
        return f"<Tools {', '.join(self._tools)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(self._tools)

    # Others of them

    def only(self, *names: str) -> "Tools":
        """Just these."""
        self._check(names)
        return Tools(tool for tool in self if tool.name in names)

    def without(self, *names: str) -> "Tools":
        """All but these."""
        self._check(names)
        return Tools(tool for tool in self if tool.name not in names)

    def renamed(self, names: Mapping[str, str]) -> "Tools":
        """Under other names, from the old to the new."""
        self._check(names)
        return Tools(replace(tool, name=names.get(tool.name, tool.name)) for tool in self)

    def wrapped(self, wrap: Wrap) -> "Tools":
        """Each of them with something around it."""
        return Tools(map(wrap, self))

    def __add__(self, other: "Tools") -> "Tools":
        return Tools([*self, *other])

    # Calling them

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None
    ) -> ToolResult:
        """Call one by its name. Whatever goes wrong is a result, also if there is no such tool."""
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return failed(f"There is no tool {str(name)[:100]!r}.", f"There is: {', '.join(self._tools)}.")
        return await tool.call({} if arguments is None else arguments, context)

    def schemas(self, provider: ProviderName) -> list[dict[str, Any]]:
        """What a request offers to the model: `tools=` of `anthropic`, `chat` and `responses` (OpenAI), or `gemini`."""
        if provider not in PROVIDERS:
            raise ConfigError(f"{provider!r} is no provider.", hint=f"Give {', '.join(map(repr, PROVIDERS))}.")
        return PROVIDERS[provider].offered(list(self))

    @overload
    async def handle(self, calls: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]: ...

    @overload
    async def handle(self, calls: Any) -> dict[str, Any]: ...

    async def handle(self, calls: Any) -> Any:
        """Do what a model asked for: its tool call, as it came, gives the result as it is sent back.

        A list, such as all content of an answer, is done at once, in as many results as there are tool calls in it.
        """
        import asyncio

        if not isinstance(calls, (list, tuple)):
            found = _asked(calls)
            if found is None:
                raise ConfigError(
                    f"This {type(calls).__name__} is no tool call.",
                    hint="Give one as OpenAI, Anthropic or Gemini make it, or a list with some.",
                )
            return await self._answered(*found)
        slots = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(provider: Provider, asked: Asked) -> dict[str, Any]:
            async with slots:
                return await self._answered(provider, asked)

        found_all = [found for found in map(_asked, calls) if found is not None]
        return await asyncio.gather(*(one(*found) for found in found_all))

    async def _answered(self, provider: Provider, asked: Asked) -> dict[str, Any]:
        if isinstance(asked.arguments, str):
            result = failed(f"The arguments of {asked.name} are no JSON object.", "Call it again with a JSON object.")
        else:
            result = await self.call(asked.name, asked.arguments)
        return provider.answer(asked, result)

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._tools:
                raise ConfigError(f"There is no tool {name!r}.", hint=f"There is: {', '.join(self._tools)}.")


def _asked(call: Any) -> tuple[Provider, Asked] | None:
    for provider in PROVIDERS.values():
        if (asked := provider.asked(call)) is not None:
            return provider, asked
    return None
