"""A registry of npm packages that are in a directory of this host. It serves them as they are, to whoever is on this host."""

import gzip
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_TARBALLS = "/tarballs/"


class _Handler(BaseHTTPRequestHandler):
    modules: Path

    def do_GET(self) -> None:
        """A description of a package, or the package."""
        path = unquote(self.path)
        name = path.removeprefix(_TARBALLS).lstrip("/")
        folder = self._folder(name)
        if folder is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        if path.startswith(_TARBALLS):
            with (
                gzip.GzipFile(fileobj=self.wfile, mode="wb", compresslevel=0) as file,
                tarfile.open(fileobj=file, mode="w|") as archive,
            ):
                archive.add(folder, "package")
        else:
            self.wfile.write(json.dumps(self._about(name, folder)).encode())

    def _folder(self, name: str) -> Path | None:
        """Where it is: under its own name, or under another that begins with it."""
        for folder in (self.modules / name, *self.modules.glob(f"{name}-*")):
            about = folder / "package.json"
            if about.is_file() and json.loads(about.read_text())["name"] == name:
                return folder
        return None

    def _about(self, name: str, folder: Path) -> dict[str, Any]:
        package = json.loads((folder / "package.json").read_text())
        there = f"http://{self.headers['Host']}{_TARBALLS}{name}"
        return {"name": name, "versions": {package["version"]: {**package, "dist": {"tarball": there}}}}

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(modules: Path) -> Iterator[str]:
    """Its address."""
    handler = type("Handler", (_Handler,), {"modules": modules})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
