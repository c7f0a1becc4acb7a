"""`docker`: containers of Docker, Podman and gVisor, with the same supervisor as their first process."""

from paddock.backends.docker.spec import Docker

__all__ = ["Docker"]
