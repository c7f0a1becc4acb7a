"""What `docker` needs: an engine that answers, and an image."""

import asyncio

from paddock.backends.docker.engine import reached
from paddock.cli.checks.backends import is_default, whole
from paddock.cli.checks.check import Check
from paddock.config import setting
from paddock.errors import UnavailableError


def engine(name: str) -> Check:
    """Whether one answers."""
    try:
        return Check(name, "ok", asyncio.run(_met()))
    except UnavailableError as error:
        return Check(name, "fail" if is_default("docker") else "warn", error.message, error.hint)


def sandbox(name: str) -> Check:
    """A whole sandbox, if that does not take a download."""
    image = setting("image").value
    try:
        if asyncio.run(_has(image)):
            return whole("docker", name)
    except UnavailableError:  # which is told beside it
        return Check(
            name, "fail" if is_default("docker") else "warn", "there is nothing to run it: see container engine"
        )
    fix = f"It is pulled with the first sandbox; or: docker pull {image}. PADDOCK_IMAGE names another."
    return Check(name, "warn", f"the image {image} is not here", fix)


async def _met() -> str:
    async with reached(None) as met:
        kind = "Podman" if met.podman else "Docker"
        return f"{kind} on {met.machine} answers{', rootless' if met.rootless else ''}"


async def _has(image: str) -> bool:
    async with reached(None) as met:
        import aiodocker

        try:
            await met.client.images.inspect(image)
        except aiodocker.DockerError:
            return False
    return True
