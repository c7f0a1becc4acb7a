"""Real git servers on loopback: smart HTTP with or without a password, git's own daemon, ssh."""

import base64
import getpass
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from git.repos import GIT, environment

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _can_log_in() -> bool:
    """Whether ssh lets this user in at all: one with a name and a shell."""
    try:
        shell = pwd.getpwuid(os.geteuid()).pw_shell
    except KeyError:
        return False
    return os.path.basename(shell) not in ("nologin", "false")


NO_SSH = SSHD is None or not shutil.which("ssh") or not _can_log_in()
needs_sshd = pytest.mark.skipif(NO_SSH, reason="there is no ssh server, or this user cannot log in")


@dataclass
class HttpServer:
    """`git http-backend` over everything below a directory."""

    root: Path
    port: int = 0
    password: str | None = None
    redirect: str | None = None
    pause: threading.Event = field(default_factory=threading.Event)
    """While it is set, requests are held."""
    pause_authorized: bool = False
    """Only those that carry a password are held."""
    held: threading.Event = field(default_factory=threading.Event)
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and authorization of every request."""
    certificate: Path | None = None
    """With it, https."""

    def url(self, name: str) -> str:
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self.port}/{name}"


@contextmanager
def http_server(root: Path, **options: object) -> Iterator[HttpServer]:
    state = HttpServer(root, **options)  # type: ignore[arg-type]

    class Handler(_Handler):
        server_state = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if state.certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(state.certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        state.pause.clear()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server_state: HttpServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None: ...

    def _serve(self) -> None:
        state, given = self.server_state, self.headers.get("Authorization")
        state.seen.append((self.command, self.path, given))
        while state.pause.is_set() and (given is not None or not state.pause_authorized):
            state.held.set()
            time.sleep(0.02)
        if state.redirect is not None:
            self._say(302, {"Location": f"{state.redirect}{self.path}"})
        elif state.password is not None and not _is_password(given, state.password):
            self._say(401, {"WWW-Authenticate": 'Basic realm="git"'})
        else:
            self._backend()

    def _say(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _backend(self) -> None:
        parts, body = urlsplit(self.path), self._body()
        variables = {
            **environment(self.server_state.root),
            "GIT_PROJECT_ROOT": str(self.server_state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "somebody",
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run([str(GIT), "http-backend"], env=variables, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        with suppress(BrokenPipeError, ConnectionResetError):
            self.end_headers()
            self.wfile.write(content)


def _is_password(given: str | None, password: str) -> bool:
    if not given or not given.startswith("Basic "):
        return False
    return base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")[2] == password


@contextmanager
def daemon(root: Path) -> Iterator[str]:
    """git's own server; its address."""
    port = free_port()
    argv = [str(GIT), "daemon", "--export-all", "--enable=receive-pack", "--reuseaddr", "--listen=127.0.0.1"]
    argv += [f"--port={port}", f"--base-path={root}", str(root)]
    with running(argv, environment(root), port):
        yield f"git://127.0.0.1:{port}"


@dataclass(frozen=True)
class SshServer:
    port: int
    key: Path
    known_hosts: Path
    root: Path

    def url(self, name: str) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{self.root}/{name}"


@contextmanager
def ssh_server(root: Path, place: Path) -> Iterator[SshServer]:
    """An ssh server of our own, which lets one key in."""
    place.mkdir(mode=0o700)
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    shutil.copy(place / "key.pub", place / "authorized")
    port = free_port()
    host = (place / "host.pub").read_text(encoding="ascii").split()
    (place / "known").write_text(f"[127.0.0.1]:{port} {host[0]} {host[1]}\n", encoding="ascii")
    lines = [f"HostKey {place}/host", f"AuthorizedKeysFile {place}/authorized", "ListenAddress 127.0.0.1"]
    lines += [f"Port {port}", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes"]
    lines += ["PidFile none", "KbdInteractiveAuthentication no"]
    (place / "config").write_text("\n".join(lines) + "\n", encoding="ascii")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with running([str(SSHD), "-D", "-e", "-f", str(place / "config")], dict(os.environ), port):
        yield SshServer(port, place / "key", place / "known", root)


@contextmanager
def running(argv: list[str], variables: dict[str, str], port: int) -> Iterator[None]:
    """A server, from when it answers on."""
    with subprocess.Popen(argv, env=variables, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        try:
            deadline = time.monotonic() + 20
            while True:
                assert child.poll() is None, "the server ended"
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            yield
        finally:
            child.terminate()
            child.wait()


def certificate(place: Path) -> Path:
    """A certificate for this host that nobody else trusts, with its key."""
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    argv += [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(place / "tls.key"),
        "-out",
        str(place / "tls.crt"),
    ]
    subprocess.run(argv, check=True, capture_output=True)
    both = place / "tls.pem"
    both.write_bytes((place / "tls.key").read_bytes() + (place / "tls.crt").read_bytes())
    return both


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
