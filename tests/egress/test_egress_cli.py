"""`paddock run --allow --private --secret`, and `paddock logs --denied`."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from paddock.cli.app import program

FETCH = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"
VALUE = "tok-9d1be4a7730c55f2"


class _Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"got: " + str(self.headers).encode())
        self.server.heard.append(str(self.headers))  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as one:
        one.heard = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def paddock(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "paddock", *words], capture_output=True, text=True, timeout=100)


def test_run(server: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_TOKEN", VALUE)
    place = f"127.0.0.1:{server.server_port}"
    run = ["run", "-q", "-e", "NO_PROXY=", "-e", "no_proxy=", "--allow", place, "--secret", f"EGRESS_TOKEN={place}"]
    fetch = ["python3", "-c", FETCH, f"http://{place}/"]
    done = paddock(*run, "--private", "127.0.0.0/8", "--", *fetch)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("got: ")
    assert VALUE in server.heard[0]  # type: ignore[attr-defined]
    assert VALUE not in done.stdout + done.stderr
    denied = paddock(*run, "--", *fetch)
    assert denied.returncode != 0
    assert "Error 403" in denied.stderr
    logs = paddock("logs", "--denied")
    assert f"http → {place}" in logs.stdout
    assert "NOT_AUTHORIZED" in logs.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--allow", "https://a.b/c"], "HTTPS is encrypted"),
        (["--private", "10.0.0.0/8"], "--private needs --allow"),
        (["--allow", "a.b", "--private", "ten"], "Such as --private 10.0.0.0/8"),
        (["--allow", "a.b", "--secret", "TOKEN"], "names no host"),
        (["--allow", "a.b", "--secret", "EGRESS_UNSET=a.b"], "Set the variable EGRESS_UNSET here."),
        (["--allow", "a.b", "--secret", "PATH=https://c.d"], "Give --allow for that host, too"),
        (["--allow", "a.b", "--detach"], "--allow and --detach"),
        (["--allow", "a.b", "--backend", "memory"], "has no network"),
    ],
)
def test_what_makes_no_sense(words: list[str], says: str) -> None:
    done = CliRunner().invoke(program(), ["run", *words, "--", "true"])
    assert done.exit_code == 125
    assert says in done.output.replace("\n", " ")


def test_the_help() -> None:
    for command in ("run", "shell"):
        told = CliRunner().invoke(program(), [command, "--help"], env={"COLUMNS": "200"}).output
        for option in ("--allow", "--private", "--secret"):
            assert option in told
