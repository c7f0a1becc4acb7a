"""The git program, for what goes over a network. It works in a git directory of ours, and reads no configuration but ours."""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from paddock.git import places
from paddock.git.context import GitContext
from paddock.git.names import UrlRepo, is_loopback
from paddock.git.running import PATH, Done, program, run
from paddock.git.stopping import Stop
from paddock.git.tokens import USER, find_token, scrubbed

_INSTALL = "Install git, for example `apt-get install git`."
_GITHUB = "github.com"
_PROXIES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
_STALE = ("shallow.lock", "packed-refs.lock", "config.lock", "HEAD.lock", "index.lock")

CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = true
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tfsmonitor = false
\tlogAllRefUpdates = false
\tprotectHFS = true
\tprotectNTFS = true
[transfer]
\tfsckObjects = true
\tbundleURI = false
\tcredentialsInUrl = die
[fetch]
\trecurseSubmodules = false
[submodule]
\trecurse = false
[http]
\tfollowRedirects = false
\tsslVerify = true
\tlowSpeedLimit = 100
\tlowSpeedTime = 60
[gc]
\tauto = 0
\tautoDetach = false
[maintenance]
\tauto = false
[credential]
\thelper =
[protocol]
\tallow = never
"""


class GitProgram:
    """git for one repository elsewhere. What it is asked runs under a lock that it holds itself, as long as it lives."""

    def __init__(self, repo: UrlRepo, context: GitContext, stop: Stop) -> None:
        self._git = program("git", _INSTALL)
        self._repo = repo
        self._context = context
        self._stop = stop
        self._name = places.hashed(repo.url)
        self.directory = self._made()

    def _made(self) -> Path:
        places.sweep_repos()
        with places.alone(self._name, self._context.timeout, self._stop):
            own = places.directory("repos", self._name)
            for name in ("objects/info", "objects/pack", "refs/heads"):
                (own / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            places.write_private(own / "config", CONFIG.encode())
            places.write_private(own / "HEAD", b"ref: refs/paddock/nowhere\n")
            _tidy(own)
        return own

    def ask(self, *args: str, settings: tuple[str, ...] = ()) -> tuple[Done, str]:
        """Run it; how it ended, and what it said of errors, without the token."""
        with places.alone(self._name, self._context.timeout, self._stop) as lock, self._credentials() as (fd, token):
            inherited = [lock] if fd is None else [lock, fd]
            given = [part for one in (*settings, *self._helper(fd)) for part in ("-c", one)]
            argv = [self._git, "--no-pager", "--no-replace-objects", *given, *args]
            done = run(
                argv,
                self._environment(),
                cwd=str(self.directory),
                seconds=self._context.timeout,
                stop=self._stop,
                inherited=inherited,
            )
            return done, scrubbed(done.err.decode("utf-8", "replace"), token)

    @contextmanager
    def _credentials(self) -> Iterator[tuple[int | None, str | None]]:
        """A pipe with a token in it, for hosts that may have one. It can be read once, by whoever inherits it."""
        token = find_token(self._repo.host, self._stop) if self._may_have_token() else None
        if token is None:
            yield None, None
            return
        reading, writing = os.pipe()
        try:
            with open(writing, "wb") as pipe:
                pipe.write(f"username={USER}\npassword={token}\n".encode())
            yield reading, token
        finally:
            os.close(reading)

    def _may_have_token(self) -> bool:
        hosts = (_GITHUB, *(host.lower() for host in self._context.token_hosts))
        return self._repo.scheme in ("https", "http") and self._repo.host in hosts

    def _helper(self, fd: int | None) -> list[str]:
        """What git is told about the pipe, for this host alone; the pipe's number is all that can be seen of it."""
        if fd is None:
            return []
        parts = urlsplit(self._repo.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        return [f'credential.{origin}.helper=!f() {{ test "$1" != get || cat /dev/fd/{fd}; }}; f']

    def _environment(self) -> dict[str, str]:
        home = str(places.directory("home"))
        environment = {
            "PATH": PATH,
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "LC_ALL": "C",
            "GIT_DIR": str(self.directory),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": self._repo.scheme,
            "GIT_OPTIONAL_LOCKS": "0",
        }
        if self._repo.scheme == "ssh":
            return environment | self._ssh()
        if not is_loopback(self._repo.host):
            environment |= {name: os.environ[name] for name in _PROXIES if name in os.environ}
        if os.path.isabs(authorities := os.environ.get("SSL_CERT_FILE", "")):
            environment["GIT_SSL_CAINFO"] = authorities
        return environment

    def _ssh(self) -> dict[str, str]:
        """ssh that asks nobody and trusts no host that it does not know."""
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ClearAllForwardings=yes"]
        options += ["PermitLocalCommand=no", "ControlMaster=no", "ControlPath=none"]
        if self._context.ssh_known_hosts:
            options += [f"UserKnownHostsFile={self._context.ssh_known_hosts}", "GlobalKnownHostsFile=/dev/null"]
        if self._context.ssh_key:
            options += [f"IdentityFile={self._context.ssh_key}", "IdentitiesOnly=yes"]
        argv = [program("ssh", "Install an ssh client, for example `apt-get install openssh-client`.")]
        argv += [part for option in options for part in ("-o", option)]
        agent = {name: os.environ[name] for name in ("SSH_AUTH_SOCK",) if name in os.environ}
        return {"GIT_SSH_COMMAND": shlex.join(argv), "GIT_SSH_VARIANT": "ssh", **agent}


def _tidy(own: Path) -> None:
    """Remove what a git left that was killed: none runs, or it would hold the lock."""
    for name in _STALE:
        (own / name).unlink(missing_ok=True)
    for pattern in ("refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_*", "objects/??/tmp_*", "objects/tmp_objdir*"):
        for path in own.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
