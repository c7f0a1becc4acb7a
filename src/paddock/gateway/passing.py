"""Requests on their way out: as they came where both sides speak the same, and else in other words.

Each has the `wire` and `tail` of the address, the `model`, the `way` of the answer, whether it is in the `same_words`,
whether the answer is `streamed`, whether it is only `counting` tokens, `most_output`, what it may be answered by itself,
`input()`, about how many tokens it has, `bound()`, which lets the answer have no more than so many, and `bytes()`, the body.
"""

from typing import Any, cast

from paddock.gateway import routing, translate
from paddock.gateway.allowances import MOST_OUTPUT, prompt_tokens
from paddock.gateway.body import Body
from paddock.gateway.connectors import Connector
from paddock.gateway.errors import BadRequest
from paddock.gateway.fronts import Front
from paddock.gateway.translate import Target, Translated
from paddock.gateway.ways import InOtherWords, Unchanged, Way, WholeInOtherWords, WithoutUsage

_MAX_WHOLE = 64 << 20


def planned(connector: Connector, front: Front, body: Body) -> "Outgoing | Counted":
    """What is to be asked of the connector's provider."""
    wires = connector.kind.wires
    asked = front.model if front.wire == "gemini" else body.text("model")
    model = routing.choose(connector, asked, thinks=routing.thinks(body, front))
    if front.wire in wires:
        return AsItCame(connector, front, body, model)
    if front.counting:
        return Counted(prompt_tokens(body.value))
    if "gemini" in (front.wire, wires[0]):
        raise BadRequest(
            f"The connector '{connector.name}' does not speak what is asked here, and Gemini is not translated."
        )
    return Reworded(connector, cast("Translated", front.wire), body, model)


class Counted:
    """Nothing to ask: how many tokens a request has is guessed here, for a provider that cannot be asked."""

    def __init__(self, tokens: int) -> None:
        self.value: dict[str, Any] = {"input_tokens": tokens}


class AsItCame:
    """The body, with single fields changed."""

    same_words = True

    def __init__(self, connector: Connector, front: Front, body: Body, model: str | None) -> None:
        self.wire = front.wire
        self.model = model
        self.counting = front.counting
        self._connector = connector
        self._body = body
        routing.check_countable(body, front.wire)
        self._answers = routing.answers(body, front.wire)
        if not front.counting:
            routing.add_options(body, connector)
        self.streamed = body.get("stream") is True if front.streamed is None else front.streamed
        if front.wire == "gemini":
            self.tail = f"{model}:{front.method}{front.query}"
        else:
            self.tail = ("/count_tokens" if front.counting else "") + front.query
            if model is not None:
                body.put("model", model)
        if front.wire == "anthropic" and connector.kind.name != "anthropic":
            self._without_system_turns()
        self.way = self._way()

    @property
    def most_output(self) -> int:
        if self.counting:
            return 0
        return (routing.most_output(self._body, self.wire) or MOST_OUTPUT) * self._answers

    def input(self) -> int:
        return 0 if self.counting else prompt_tokens(self._body.value)

    def bound(self, most: int) -> None:
        if not self.counting:
            each = max(most // self._answers, 1)
            routing.bound_output(self._body, self.wire, each, new_name=self._connector.kind.name == "openai")

    def bytes(self) -> bytes:
        return self._body.bytes()

    def _way(self) -> Way:
        if self.wire != "chat" or self._body.get("stream") is not True:
            return Unchanged(self.wire)
        options = self._body.table("stream_options")
        if options.get("include_usage") is True:
            return Unchanged(self.wire)
        self._body.put("stream_options", {**options, "include_usage": True})
        return WithoutUsage()

    def _without_system_turns(self) -> None:
        """For those who speak as Anthropic does, but not all of it."""
        try:
            changed = translate.plain_system(self._body.value)
        except translate.BadRequest:
            return  # which the provider will say better
        for name in ("messages", "system"):
            if name in changed:
                self._body.put(name, changed[name])


class Reworded:
    """The request in the words of another wire."""

    same_words = counting = False
    tail = ""

    def __init__(self, connector: Connector, ours: Translated, body: Body, model: str | None) -> None:
        try:
            self._ask = translate.read_request(ours, body.value)
        except translate.BadRequest as error:
            raise BadRequest(str(error)) from None
        self.wire = cast("Translated", connector.kind.wires[0])
        self.model = model
        self._connector = connector
        self.streamed = self._ask.stream
        self._value = body.value
        self._most: int | None = None
        self.way: Way = (
            InOtherWords(self.wire, ours, self._ask)
            if self._ask.stream
            else WholeInOtherWords(self.wire, ours, self._ask, _MAX_WHOLE)
        )

    @property
    def most_output(self) -> int:
        return min(self._ask.max_output or MOST_OUTPUT, routing.MOST)

    def input(self) -> int:
        return prompt_tokens(self._value)

    def bound(self, most: int) -> None:
        self._most = most

    def bytes(self) -> bytes:
        target = Target(
            self.model or self._ask.model,
            max_output=self._most,
            reasoning=self._connector.reasoning,
            openai=self._connector.kind.name == "openai",
            options=self._connector.options,
        )
        try:
            return translate.dump_json(translate.write_request(self.wire, self._ask, target).body)
        except translate.BadRequest as error:
            raise BadRequest(str(error)) from None


Outgoing = AsItCame | Reworded
