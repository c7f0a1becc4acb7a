"""A registry with one image, on this machine's own loopback: what pulling needs of one."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Image:
    """One layer with some files, a configuration, and a manifest that names both."""

    def __init__(self, files: dict[str, bytes]) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(content), 0o755
                archive.addfile(info, io.BytesIO(content))
        tar = buffer.getvalue()
        layer = gzip.compress(tar, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/bin", "PULLED=yes"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(tar)]},
            }
        ).encode()
        told = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(config), "digest": _digest(config)},
            "layers": [{"mediaType": _LAYER, "size": len(layer), "digest": _digest(layer)}],
        }
        self.manifest = json.dumps(told).encode()
        self.blobs = {_digest(config): config, _digest(layer): layer}


@contextmanager
def serving(image: Image) -> Iterator[str]:
    """Serve it for the length of a block; its host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, last = "application/json", self.path.rsplit("/", 1)[-1]
            if "/manifests/" in self.path:
                kind, body = _MANIFEST, image.manifest
            elif "/blobs/" in self.path:
                kind, body = "application/octet-stream", image.blobs[last]
            else:
                body = b"{}"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
