"""What tests ask of an engine, over its socket: the little of the Docker API that they need, alike with Docker and Podman."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

_SECONDS = 60.0
_TO_BUILD = 900.0
"""Seconds in which a step of a build says nothing."""


class ApiError(Exception):
    """An answer that is not a success, with its words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, seconds: float = _SECONDS) -> None:
        super().__init__("engine", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Api:
    """One engine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def call(self, method: str, path: str, body: object = None, **query: str) -> bytes:
        """The bytes of an answer. A file is sent as it is, and anything else as JSON."""
        sent = body if body is None or hasattr(body, "read") else json.dumps(body)
        kind = "application/x-tar" if hasattr(body, "read") else "application/json"
        connection = _Connection(self._path, _TO_BUILD if path == "/build" else _SECONDS)
        try:
            target = f"{path}?{urlencode(query)}" if query else path
            connection.request(method, target, body=sent, headers={"Content-Type": kind})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise ApiError(answer.status, content.decode(errors="replace"))
        return content

    def json(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """The same, read as JSON."""
        return json.loads(self.call(method, path, body, **query))

    def ping(self) -> bool:
        """Whether it is there and answers."""
        try:
            return self.call("GET", "/_ping") == b"OK"
        except (OSError, http.client.HTTPException, ApiError):
            return False

    def import_image(self, name: str, tar: IO[bytes], changes: Mapping[str, str]) -> None:
        """Make an image of one layer."""
        lines = [f"{key} {value}" for key, value in changes.items()]
        query = [("fromSrc", "-"), ("repo", name), ("tag", "latest"), *(("changes", line) for line in lines)]
        told = self.call("POST", f"/images/create?{urlencode(query)}", tar).decode()
        if '"error"' in told:
            raise ApiError(200, told)

    def build(self, name: str, context: IO[bytes], **arguments: str) -> str:
        """Make an image by a Dockerfile, with the network of this host; what was said while it was made."""
        query = {"t": name, "networkmode": "host", "rm": "1", "forcerm": "1", "buildargs": json.dumps(arguments)}
        told = [json.loads(line) for line in self.call("POST", "/build", context, **query).splitlines()]
        said = "".join(line.get("stream", "") for line in told)
        for line in told:
            if "error" in line:
                raise ApiError(200, f"{line['error']}\n{said}")
        return said

    def run(self, image: str, *words: str, **host_config: object) -> str:
        """What a command prints in a container of its own, which has no network."""
        config = {"Image": image, "Cmd": words, "HostConfig": {"NetworkMode": "none", **host_config}}
        container = self.json("POST", "/containers/create", config)["Id"]
        try:
            self.call("POST", f"/containers/{container}/start")
            code = self.json("POST", f"/containers/{container}/wait")["StatusCode"]
            told = b"".join(_frames(self.call("GET", f"/containers/{container}/logs", stdout="1", stderr="1"))).decode()
        finally:
            self.call("DELETE", f"/containers/{container}", force="1", v="1")
        assert code == 0, (code, told)
        return told

    def held(self) -> list[str]:
        """The containers and volumes that it has."""
        containers = self.json("GET", "/containers/json", all="1")
        volumes = self.json("GET", "/volumes")["Volumes"] or []
        return [*(f"container {one['Names'][0]}" for one in containers), *(f"volume {one['Name']}" for one in volumes)]


def _frames(stream: bytes) -> Iterator[bytes]:
    while stream:
        end = 8 + int.from_bytes(stream[4:8], "big")
        yield stream[8:end]
        stream = stream[end:]
