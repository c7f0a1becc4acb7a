"""Pictures, files, and content that has no counterpart."""

import re

from paddock.gateway.translate.model import Content, Document, Image, Text
from paddock.gateway.translate.reading import At, dump_text

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.+-]+)*),", re.ASCII)
_LONGEST_UNKNOWN = 4000


def data_uri(part: Image | Document) -> str:
    """Where the content is: an address, or one that holds it."""
    return part.url or f"data:{part.media_type};base64,{part.data}"


def image_at(uri: At) -> Image:
    """The picture at an address, which may hold it."""
    media_type, data = _held(uri)
    return Image(media_type or "image/png", data) if data else Image(url=uri.text())


def document_at(uri: At, name: str) -> Document:
    """The file at an address, which may hold it."""
    media_type, data = _held(uri)
    return Document(media_type or "application/pdf", data, name=name) if data else Document(url=uri.text(), name=name)


def _held(uri: At) -> tuple[str, str]:
    text = uri.text()
    if not text.startswith("data:"):
        return "", ""
    match = _DATA_URI.match(text)
    if match is None or not match[2].endswith(";base64"):
        raise uri.bad("has to be base64 if it is a data: address")
    return match[1] or "", text[match.end() :]


def unknown(block: At) -> Text:
    """Content of a kind that no other format has, as text for the model to make sense of."""
    if block["type"].any_text() == "tool_reference":
        return Text(f"Tool {block['tool_name'].any_text()} is available from now on.")
    text = dump_text(block.object())
    return Text(text if len(text) <= _LONGEST_UNKNOWN else text[:_LONGEST_UNKNOWN] + "…")


def content_text(parts: tuple[Content, ...]) -> str:
    """The text among `parts`, a line each."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
