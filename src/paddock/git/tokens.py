"""The token for GitHub: asked for when it is needed, given to one host, kept nowhere."""

import os
import re

from paddock.errors import GitAuthError, SandboxError
from paddock.git import places
from paddock.git.running import PATH, program, run
from paddock.git.stopping import Stop

USER = "x-access-token"
_TOKEN = re.compile(r"[!-~]{1,1024}")
_SECONDS = 10.0
_OF_GH = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "GH_CONFIG_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")


def find_token(host: str, stop: Stop) -> str | None:
    """`GITHUB_TOKEN`, else what `gh auth token` says; None if there is neither."""
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    if not token:
        token = _of_gh(host, stop)
    return token if _TOKEN.fullmatch(token) else None


def need_token(host: str, stop: Stop) -> str:
    """The same; without one a `GitAuthError` that says how to get it."""
    token = find_token(host, stop)
    if token is None:
        raise GitAuthError("There is no token for GitHub.", operation="token")
    return token


def _of_gh(host: str, stop: Stop) -> str:
    try:
        argv = [program("gh", ""), "auth", "token", "--hostname", host]
        environment = {"PATH": PATH, **{name: os.environ[name] for name in _OF_GH if name in os.environ}}
        done = run(argv, environment, cwd=str(places.directory("home")), seconds=_SECONDS, stop=stop)
    except (SandboxError, OSError):
        return ""
    return done.out.decode("ascii", "replace").strip() if done.code == 0 else ""


def scrubbed(text: str, token: str | None) -> str:
    """A text without the token, wherever it came from."""
    return text.replace(token, "***") if token else text
