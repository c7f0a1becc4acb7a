"""Images: whether they are there, getting those that are not, and what they say about themselves."""

import re
from dataclasses import dataclass
from typing import Any

from paddock.backends.docker.engine import Engine, refusals
from paddock.errors import ConfigError, NotFoundError, UnavailableError, visible
from paddock.progress import report

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = re.compile(rf"{_PART}(:\d+)?(/{_PART})*(:\w[\w.-]*)?(@sha256:[0-9a-f]{{64}})?|sha256:[0-9a-f]{{12,64}}")


@dataclass(frozen=True, slots=True)
class Image:
    """What of an image matters to a sandbox."""

    name: str
    environment: dict[str, str]
    volumes: tuple[str, ...]
    """Directories that an engine would make a volume for, with nobody to remove it."""


async def found(engine: Engine, name: str) -> Image:
    """The image, pulled if it is missing."""
    import aiodocker

    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not the name of an image.", hint="Such as 'python:3.12-slim'.")
    with refusals(f"show the image {name!r}"):
        try:
            data = await engine.client.images.inspect(name)
        except aiodocker.DockerError as error:
            if error.status != 404:
                raise
            await _pull(engine, name)
            data = await engine.client.images.inspect(name)
    return _described(name, data)


def _described(name: str, data: dict[str, Any]) -> Image:
    config = data.get("Config") or {}
    pairs = (text.partition("=") for text in config.get("Env") or ())
    return Image(name, {key: value for key, _, value in pairs}, tuple(config.get("Volumes") or ()))


async def _pull(engine: Engine, name: str) -> None:
    import aiodocker

    report(f"pulling the image {name}")
    try:
        async for step in engine.client.images.pull(name, stream=True):
            report(_words(name, step), detail=True)
    except aiodocker.DockerError as error:
        kind = NotFoundError if error.status == 404 else UnavailableError
        raise kind(
            f"The image {name!r} is not here and could not be pulled: {visible(error.message)}.",
            hint="Correct its name, log in to its registry, or make it: docker build, docker import.",
        ) from None
    report(f"pulled the image {name}")


def _words(name: str, step: dict[str, Any]) -> str:
    layer, doing, amount = (visible(str(step.get(key) or "")) for key in ("id", "status", "progress"))
    return " ".join(word for word in (f"{name}:", layer, doing, amount) if word)
