"""What came of running code. All of it was said by the code, or by whatever it has become: nothing here is to be trusted."""

from base64 import b64decode
from binascii import Error
from dataclasses import dataclass, field

from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class RichOutput(Record):
    """A value that shows itself, in one or several media types."""

    data: dict[str, str]
    """By media type, as text; of images and other binary things the base64."""

    @property
    def text(self) -> str:
        """As plain text."""
        return self.data.get("text/plain", "")

    @property
    def html(self) -> str | None:
        """As HTML. It comes from the sandbox: show it nowhere that it could act."""
        return self.data.get("text/html")

    @property
    def markdown(self) -> str | None:
        """As Markdown."""
        return self.data.get("text/markdown")

    @property
    def svg(self) -> str | None:
        """As SVG, which may hold scripts too."""
        return self.data.get("image/svg+xml")

    @property
    def json(self) -> str | None:
        """As the text of JSON."""
        return self.data.get("application/json")

    @property
    def png(self) -> bytes | None:
        """The bytes of an image."""
        return _decoded(self.data.get("image/png"))

    @property
    def jpeg(self) -> bytes | None:
        """The same in another format."""
        return _decoded(self.data.get("image/jpeg"))


@dataclass(frozen=True, slots=True)
class PythonError(Record):
    """What the code raised."""

    name: str
    """The exception's type; `InterpreterEnded` if there is no interpreter any more."""
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True, slots=True)
class PythonResult(Record):
    """One run. An exception is a result."""

    text: str | None = None
    """The value of the last expression, as `repr` shows it; None if there was none, or it was None."""
    stdout: str = ""
    stderr: str = ""
    error: PythonError | None = None
    outputs: tuple[RichOutput, ...] = field(default=())
    """What was displayed, figures too, and last the value of the last expression."""
    truncated: bool = False
    """Whether there was more than is kept."""
    duration: float = 0.0

    @property
    def success(self) -> bool:
        """Whether nothing was raised."""
        return self.error is None


def _decoded(text: str | None) -> bytes | None:
    try:
        return None if text is None else b64decode(text)
    except (Error, ValueError):
        return None
