"""A fake of GitHub's API over real repositories. What is asked and what it says is checked by GitHub's description."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from git import schema
from git.repos import git, head, raw

Answer = tuple[int, Any]


@dataclass
class FakeGitHub:
    """The state of the service."""

    root: Path
    token: str
    port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    seen: list[dict[str, str]] = field(default_factory=list)
    """The headers of every request."""
    broken: dict[str, Answer | Callable[[], Answer | None]] = field(default_factory=dict)
    """What to say instead, by operation; a function may do something and then let it go its way."""
    redirect: str | None = None
    truncated: bool = False
    wrong: list[str] = field(default_factory=list)
    """What was not as described."""

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def fake_github(root: Path, token: str) -> Iterator[FakeGitHub]:
    state = FakeGitHub(root, token)

    class Handler(_Handler):
        github = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert state.wrong == []


class _Handler(BaseHTTPRequestHandler):
    github: FakeGitHub

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None: ...

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.github.seen.append(dict(self.headers.items()))
        operation, status, answer = self._answered(body)
        self.github.asked.append((self.command, self.path))
        if operation is not None:
            try:
                schema.check(operation, status, body, answer)
            except AssertionError as error:
                self.github.wrong.append(str(error))
        data = json.dumps(answer).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.github.redirect}{self.path}")
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answered(self, body: Any) -> tuple[str | None, int, Any]:
        if self.github.redirect is not None:
            return None, 301, {"message": "Moved Permanently"}
        if self.headers.get("Authorization") != f"Bearer {self.github.token}":
            return None, 401, {"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"}
        parts = urlsplit(self.path)
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", parts.path)
        assert found, self.path
        repo, rest = self.github.root / f"{found[1]}.git", unquote(found[2] or "")
        for operation, call in _OPERATIONS:
            method, _, shape = operation.partition(" ")
            match = re.fullmatch(re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(shape)), rest)
            if method == self.command and match:
                return (operation, *self._called(operation, call, repo, match.groups(), body, parse_qs(parts.query)))
        raise AssertionError(self.path)

    def _called(
        self, operation: str, call: Callable[..., Answer], repo: Path, names: Any, body: Any, query: Any
    ) -> Answer:
        instead = self.github.broken.get(operation)
        if callable(instead):
            instead = instead()
        if instead is not None:
            return instead
        if not repo.exists():
            return _not_found()
        if shape_needs_commits(operation) and not git(repo, "for-each-ref"):
            return 409, {"message": "Git Repository is empty.", "documentation_url": "https://docs.github.com/rest"}
        return call(self.github, repo, *names, body=body, query=query)


def shape_needs_commits(operation: str) -> bool:
    return "/git/" in operation


def _not_found() -> Answer:
    return 404, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}


def _about(github: FakeGitHub, repo: Path, **_: Any) -> Answer:
    name = f"{repo.parent.name}/{repo.stem}"
    default = git(repo, "symbolic-ref", "--short", "HEAD")
    return 200, {
        "id": 1,
        "node_id": "n",
        "name": repo.stem,
        "full_name": name,
        "private": False,
        "default_branch": default,
        "url": f"{github.api}/repos/{name}",
        "html_url": f"https://github.com/{name}",
    }


def _branches(github: FakeGitHub, repo: Path, *, query: dict[str, list[str]], **_: Any) -> Answer:
    size, page = (int(query.get(name, [default])[0]) for name, default in (("per_page", "30"), ("page", "1")))
    lines = git(repo, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads").split("\n")
    found = [
        {"name": line.split(" ", 1)[1], "commit": {"sha": line[:40], "url": github.api}, "protected": False}
        for line in lines
        if line
    ]
    return 200, found[(page - 1) * size : page * size]


def _ref(github: FakeGitHub, repo: Path, name: str, **_: Any) -> Answer:
    sha = git(repo, "rev-parse", "--verify", "--quiet", f"refs/{name}", check=False)
    return (200, _as_ref(github, f"refs/{name}", sha)) if sha else _not_found()


def _as_ref(github: FakeGitHub, ref: str, sha: str) -> dict[str, Any]:
    return {"ref": ref, "node_id": "n", "url": github.api, "object": {"type": "commit", "sha": sha, "url": github.api}}


def _commit(github: FakeGitHub, repo: Path, sha: str, *, status: int = 200, **_: Any) -> Answer:
    text = raw(repo, "cat-file", "commit", sha, check=False).decode()
    if not text:
        return _not_found()
    fields, message = text.split("\n\n", 1)
    lines = fields.split("\n")
    people = {}
    for role in ("author", "committer"):
        line = next(line for line in lines if line.startswith(f"{role} "))
        found = re.fullmatch(rf"{role} (.*) <(.*)> (\d+) [+-]\d+", line)
        assert found
        people[role] = {"name": found[1], "email": found[2], "date": _date(int(found[3]))}
    tree = next(line for line in lines if line.startswith("tree ")).split()[1]
    parents = [line.split()[1] for line in lines if line.startswith("parent ")]
    about = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}
    return status, {
        "sha": sha,
        "node_id": "n",
        "url": github.api,
        "html_url": github.api,
        **people,
        "message": message,
        "tree": {"sha": tree, "url": github.api},
        "parents": [{"sha": parent, "url": github.api, "html_url": github.api} for parent in parents],
        "verification": about,
    }


def _date(seconds: int) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tree(github: FakeGitHub, repo: Path, sha: str, *, query: dict[str, list[str]] | None = None, **_: Any) -> Answer:
    recursive = bool(query and "recursive" in query)
    args = ["-r", "-t"] if recursive else []
    lines = raw(repo, "ls-tree", "-z", "-l", *args, sha).decode().split("\0")[:-1]
    entries = []
    for line in lines:
        about, path = line.split("\t", 1)
        mode, kind, oid, size = about.split()
        entry = {"path": path, "mode": mode, "type": kind, "sha": oid, "url": github.api}
        entries.append({**entry, "size": int(size)} if kind == "blob" else entry)
    cut = recursive and github.truncated
    return 200, {"sha": sha, "url": github.api, "tree": entries[:1] if cut else entries, "truncated": cut}


def _blob(github: FakeGitHub, repo: Path, sha: str, **_: Any) -> Answer:
    data = raw(repo, "cat-file", "blob", sha, check=False)
    if git(repo, "cat-file", "-t", sha, check=False) != "blob":
        return _not_found()
    text = base64.encodebytes(data).decode()
    known = {"sha": sha, "node_id": "n", "size": len(data), "url": github.api}
    return 200, {**known, "content": text, "encoding": "base64"}


def _new_blob(github: FakeGitHub, repo: Path, *, body: Any, **_: Any) -> Answer:
    data = base64.b64decode(body["content"]) if body.get("encoding") == "base64" else body["content"].encode()
    sha = git(repo, "hash-object", "-w", "--stdin", data=data)
    return 201, {"url": github.api, "sha": sha}


def _new_tree(github: FakeGitHub, repo: Path, *, body: Any, **_: Any) -> Answer:
    found: dict[str, str] = {}
    if "base_tree" in body:
        for line in raw(repo, "ls-tree", "-r", "-z", body["base_tree"]).decode().split("\0")[:-1]:
            about, path = line.split("\t", 1)
            found[path] = " ".join(about.split()[0:3:2])
    for entry in body["tree"]:
        if entry["sha"] is None:
            if found.pop(entry["path"], None) is None:
                return 422, {"message": "GitRPC::BadObjectState", "documentation_url": ""}
        else:
            name = entry["path"]
            replaced = [path for path in found if path.startswith(f"{name}/") or name.startswith(f"{path}/")]
            for path in replaced:
                del found[path]
            found[name] = f"{entry['mode']} {entry['sha']}"
    index = repo / "index.fake"
    index.unlink(missing_ok=True)
    lines = "".join(f"{about}\t{path}\0" for path, about in found.items())
    sha = _with_index(repo, index, lines)
    return 201, _tree(github, repo, sha)[1]


def _with_index(repo: Path, index: Path, lines: str) -> str:
    import subprocess

    from git.repos import GIT, environment

    variables = {**environment(repo), "GIT_INDEX_FILE": str(index)}
    subprocess.run(
        [str(GIT), "update-index", "-z", "--index-info"], cwd=repo, env=variables, input=lines.encode(), check=True
    )
    done = subprocess.run([str(GIT), "write-tree"], cwd=repo, env=variables, capture_output=True, check=True)
    return done.stdout.decode().strip()


def _new_commit(github: FakeGitHub, repo: Path, *, body: Any, **_: Any) -> Answer:
    import datetime

    people = ""
    for role in ("author", "committer"):
        who = body[role]
        when = datetime.datetime.strptime(who["date"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
        people += f"{role} {who['name']} <{who['email']}> {int(when.timestamp())} +0000\n"
    parents = "".join(f"parent {sha}\n" for sha in body["parents"])
    text = f"tree {body['tree']}\n{parents}{people}\n{body['message']}"
    sha = git(repo, "hash-object", "-t", "commit", "-w", "--stdin", data=text.encode())
    return _commit(github, repo, sha, status=201)


def _new_ref(github: FakeGitHub, repo: Path, *, body: Any, **_: Any) -> Answer:
    if head(repo, body["ref"].removeprefix("refs/heads/")):
        return 422, {"message": "Reference already exists", "documentation_url": ""}
    git(repo, "update-ref", body["ref"], body["sha"], "0" * 40)
    return 201, _as_ref(github, body["ref"], body["sha"])


def _move_ref(github: FakeGitHub, repo: Path, name: str, *, body: Any, **_: Any) -> Answer:
    old = git(repo, "rev-parse", "--verify", "--quiet", f"refs/{name}", check=False)
    if not old:
        return 422, {"message": "Reference does not exist", "documentation_url": ""}
    merged = git(repo, "merge-base", old, body["sha"], check=False)
    if merged != old and not body.get("force"):
        return 422, {"message": "Update is not a fast forward", "documentation_url": ""}
    git(repo, "update-ref", f"refs/{name}", body["sha"], old)
    return 200, _as_ref(github, f"refs/{name}", body["sha"])


_OPERATIONS: list[tuple[str, Callable[..., Answer]]] = [
    ("GET ", _about),
    ("GET /branches", _branches),
    ("GET /git/ref/{ref}", _ref),
    ("GET /git/commits/{commit_sha}", _commit),
    ("GET /git/trees/{tree_sha}", _tree),
    ("GET /git/blobs/{file_sha}", _blob),
    ("POST /git/blobs", _new_blob),
    ("POST /git/trees", _new_tree),
    ("POST /git/commits", _new_commit),
    ("POST /git/refs", _new_ref),
    ("PATCH /git/refs/{ref}", _move_ref),
]
