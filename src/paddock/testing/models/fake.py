"""`FakeModel`: a model on this host that does what it is told, and remembers what it was asked."""

import inspect
import secrets
from importlib.util import find_spec
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from paddock.errors import ClosedError, ConfigError, UnavailableError
from paddock.extras import how_to_get
from paddock.gateway.connectors import Connector
from paddock.gateway.translate import Ask, BadRequest, Wire, load_json
from paddock.testing.models import choosing, playing, wires
from paddock.testing.models.asked import Asked, asked
from paddock.testing.models.sides import answer_to, side_of
from paddock.testing.models.turns import Fail, Part, Say, Script, Shell, Turns, Use, parts_of

if TYPE_CHECKING:
    from paddock.http.server import Exchange
    from paddock.testing.models.server import LoopbackServer

DEFAULT = (Say("Hello."),)
_MOST = 256 << 20
_COUNT = 100


class FakeModel:
    """A model server on the loopback, for the four wires.

        async with FakeModel([Shell("echo hi > x.txt"), Say("done")]) as model:
            connector = model.connector("anthropic")

    `script` is a list of turns, one for each request; or a function that is given what was asked and returns a turn. The
    latter suits many conversations at once. A plain `with` does the same for programs that block.
    """

    def __init__(self, script: Script = DEFAULT) -> None:
        self._script = script if callable(script) else Turns(script)
        self._server: LoopbackServer | None = None
        self._ids = (f"fake_{secrets.token_hex(4)}_{number}" for number in count(1))
        self.key = f"sk-fake-{secrets.token_hex(16)}"
        """What connectors to it show; it takes any."""
        self.requests: list[Asked] = []
        """What it was asked, in order."""
        self.sides: list[Asked] = []
        """What agents asked beside that, which takes no turn."""
        self.complaints: list[str] = []
        """What it could not do as it was told, or did not understand; also said to who asked."""

    @property
    def url(self) -> str:
        """Where it is: `…/v1/messages`, `…/v1/chat/completions`, `…/v1/responses` and `…/v1beta/models/…` are there."""
        if self._server is None:
            raise ClosedError("The fake model does not listen.", hint="Use it as a context manager.")
        return self._server.url

    def connector(self, wire: Wire = "anthropic", *, name: str = "fake", **more: Any) -> Connector:
        """A connector to it, which speaks `wire`. What else is given is as in `Connector`."""
        return Connector(name, self.url, lambda: self.key, **{"wire": wire, **more})

    async def __aenter__(self) -> Self:
        if self._server is not None:
            raise ConfigError("The fake model listens already.", hint="Make another one.")
        if find_spec("h11") is None:
            raise UnavailableError(
                "A fake model needs the package h11, which is not installed.", hint=how_to_get("gateway")
            )
        from paddock.testing.models.server import listen

        self._server = await listen(self._handle)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    def __enter__(self) -> Self:
        from paddock.sync.portal import portal

        return portal().run(self.__aenter__, "async with FakeModel(...)")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from paddock.sync.portal import portal

        portal().run(lambda: self.__aexit__(kind, error, trace), "async with FakeModel(...)")

    async def _handle(self, exchange: "Exchange") -> None:
        path = exchange.target
        raw = await exchange.body(_MOST)
        wire = wires.wire_of(path)
        if name := wires.counted(path):
            await exchange.answer_json(200, {name: _COUNT})
        elif wire is not None and exchange.method == "POST":
            await self._asked(exchange, wire, raw)
        elif exchange.method == "POST":
            self.complaints.append(f"Nothing is known of POST {path}.")
            await exchange.answer_json(404, {"error": {"message": f"Nothing is at {path}."}})
        else:
            await exchange.answer_json(200, _models())

    async def _asked(self, exchange: "Exchange", wire: Wire, raw: bytes) -> None:
        id = next(self._ids)
        try:
            body = load_json(raw)
            ask = wires.read(wire, exchange.target, body)
        except BadRequest as error:
            self.complaints.append(f"A request could not be read: {error}")
            unread = playing.Answering(exchange, wire, Ask("", ()), id)
            await playing.fail(unread, Fail(400, str(error)))
            return
        request = asked(wire, exchange.target, dict(exchange.headers), body, ask, side_of(ask))
        (self.sides if request.side else self.requests).append(request)
        parts = (Say(answer_to(ask)),) if request.side else await self._turn(request)
        answering = playing.Answering(exchange, wire, ask, id)
        await playing.answer(answering, exchange.target, playing.steps_of(*self._resolved(parts, ask), answering))

    async def _turn(self, request: Asked) -> tuple[Part, ...]:
        """What the script says; one that is wrong is told to who asked, as there is nobody else to tell."""
        try:
            said = self._script(request)
            return parts_of(await said if inspect.isawaitable(said) else said)
        except Exception as error:  # noqa: BLE001 - whatever it is
            told = f"The script failed: {type(error).__name__}: {error}"
            self.complaints.append(told)
            return (Fail(500, told),)

    def _resolved(self, parts: tuple[Part, ...], ask: Ask) -> tuple[list[Part], playing.Called]:
        """The parts, with the tools that are meant; what cannot be called is said."""
        resolved: list[Part] = list(parts)
        calls: playing.Called = {}
        for at, part in enumerate(parts):
            if isinstance(part, Shell | Use):
                try:
                    calls[at] = choosing.call(ask, part)
                except choosing.NoTool as problem:
                    self.complaints.append(str(problem))
                    resolved[at] = Say(str(problem))
        return resolved, calls


def _models() -> dict[str, Any]:
    """What is asked with GET is which models there are."""
    model = {"id": "fake-model", "object": "model", "type": "model", "created": 0, "owned_by": "paddock"}
    return {"object": "list", "data": [model], "has_more": False, "models": []}
