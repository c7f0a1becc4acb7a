"""A repository on GitHub, by its API: blobs, a tree, a commit, and then the branch is moved, if it can be forwards only."""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from paddock.config import GITHUB_API, setting
from paddock.errors import ConflictError, GitError, TooLargeError, visible
from paddock.git.api import Answer, Api, instant
from paddock.git.context import GitContext
from paddock.git.names import GitHubRepo
from paddock.git.objects import MOST_ENTRIES, MOST_FILE
from paddock.git.stopping import Stop
from paddock.git.targets.local import moved
from paddock.git.targets.protocol import DIRECTORY, Commit, Entry, Order, Put, Tip, Tree, Who, blob_id, no_beginning
from paddock.git.tokens import need_token
from paddock.types.git import Branch

T = TypeVar("T")

_SHA = re.compile("[0-9a-f]{40}")
_PAGE = 100
_MOST_PAGES = 100
_MOST_DIRECTORIES = 2000
_EMPTY = 409


class GitHubTarget:
    """`owner/name`."""

    def __init__(self, repo: GitHubRepo, context: GitContext, stop: Stop) -> None:
        base = str(setting("github_api").value)
        self._host = "github.com" if base == GITHUB_API else urlsplit(base).netloc
        self._page = f"https://{self._host}" if base == GITHUB_API else f"{urlsplit(base).scheme}://{self._host}"
        self._name = f"{repo.owner}/{repo.name}"
        self._repo = f"/repos/{repo.owner}/{repo.name}"
        token = need_token(self._host.partition(":")[0], stop)
        self._api = Api(base, token, context.timeout, stop)

    def _get(self, path: str, what: str) -> Any:
        answer = self._api.ask("GET", f"{self._repo}{path}")
        if answer.status != 200:
            raise self._api.failed("read", answer, what)
        return answer.body

    def _post(self, path: str, body: Any, what: str) -> Any:
        answer = self._api.ask("POST", f"{self._repo}{path}", body)
        if answer.status == _EMPTY:
            raise GitError(
                f"{self._name} has no commits, and GitHub's API cannot make the first.",
                hint=f"Make one there, such as a README, or push to https://github.com/{self._name}.git.",
                operation="push",
            )
        if answer.status != 201:
            raise self._api.failed("push", answer, what)
        return answer.body

    def branches(self) -> list[Branch]:
        """All of them, sorted by name."""
        default, found = self._default(), []
        for page in range(1, _MOST_PAGES + 1):
            listed = self._get(f"/branches?per_page={_PAGE}&page={page}", "for the branches")
            found += [
                _shaped(lambda one: Branch(one["name"], _sha(one["commit"]["sha"])), one) for one in _list(listed)
            ]
            if len(listed) < _PAGE:
                break
        return sorted(
            (Branch(branch.name, branch.commit, branch.name == default) for branch in found),
            key=lambda branch: branch.name,
        )

    def _default(self) -> str:
        return _shaped(lambda body: _text(body["default_branch"]), self._get("", f"about {self._name}"))

    def tip(self, branch: str) -> Tip:
        """Where a branch is now. That there is none is believed only of a repository that can be seen."""
        head = self._head(branch)
        if head is not None:
            return Tip(head, head)
        default = self._default()
        base = self._head(default) if default != branch else None
        if base is None and self._get("/branches?per_page=1", "for the branches") != []:
            raise no_beginning(branch)
        return Tip(None, base)

    def _head(self, branch: str) -> str | None:
        answer = self._api.ask("GET", f"{self._repo}/git/ref/heads/{quote(branch)}")
        if answer.status == 404 and self._default():
            return None
        if answer.status == _EMPTY and self._get("/branches?per_page=1", "for the branches") == []:
            return None
        if answer.status != 200:
            raise self._api.failed("read", answer, f"for the branch '{visible(branch)}'")
        if _shaped(lambda body: body["ref"], answer.body) != f"refs/heads/{branch}":
            raise _odd()
        return _shaped(lambda body: _sha(body["object"]["sha"]), answer.body)

    def tree(self, commit: str | None) -> Tree:
        """The files of a commit."""
        return GitHubTree(self, None if commit is None else self.root(commit))

    def root(self, commit: str) -> str:
        """The tree of a commit."""
        return _shaped(lambda body: _sha(body["tree"]["sha"]), self._commit(commit))

    def _commit(self, sha: str) -> Any:
        return self._get(f"/git/commits/{_sha(sha)}", "for a commit")

    def commit(self, sha: str) -> Commit:
        """A commit that `tip` gave."""
        return _shaped(_as_commit, self._commit(sha))

    def entries(self, tree: str, *, recursive: bool = False) -> list[tuple[str, Entry]] | None:
        """What is in a tree; None where GitHub cannot say it at once."""
        body = self._get(f"/git/trees/{_sha(tree)}{'?recursive=1' if recursive else ''}", "for a directory")
        if _shaped(lambda body: bool(body["truncated"]), body):
            return None
        return [_shaped(_as_entry, one) for one in _list(body["tree"])]

    def blob(self, sha: str) -> bytes:
        """The content of a file, which is what its id says."""
        body = self._get(f"/git/blobs/{_sha(sha)}", "for a file")
        size = _shaped(lambda body: int(body["size"] or 0), body)
        if size > MOST_FILE:
            raise TooLargeError(f"A file there has {size} bytes.", hint=f"The gate handles up to {MOST_FILE} bytes.")
        data = _shaped(_decoded, body)
        if blob_id(data) != sha:
            raise _odd()
        return data

    def check_writable(self, branch: str) -> None:
        """Only GitHub knows."""

    def push(self, order: Order) -> str:
        """Make the commit, then the branch leads to it, if it is still where it was."""
        expected = None if order.new_branch else order.base
        head = self._head(order.branch)
        if head != expected:
            raise moved(order.branch, head)
        sha = self._made(order)
        if order.new_branch:
            answer = self._api.ask("POST", f"{self._repo}/git/refs", {"ref": f"refs/heads/{order.branch}", "sha": sha})
        else:
            path = f"{self._repo}/git/refs/heads/{quote(order.branch)}"
            answer = self._api.ask("PATCH", path, {"sha": sha, "force": False})
        if answer.status not in (200, 201):
            raise self._not_moved(order, answer)
        if _shaped(lambda body: _sha(body["object"]["sha"]), answer.body) != sha:
            raise _odd()
        return sha

    def _not_moved(self, order: Order, answer: Answer) -> GitError | ConflictError:
        """Whether the branch is elsewhere now is asked, not guessed from how the answer looks."""
        if answer.status in (409, 422):
            head = self._head(order.branch)
            if head != (None if order.new_branch else order.base):
                return moved(order.branch, head)
        return self._api.failed("push", answer, f"to move the branch '{visible(order.branch)}'")

    def _made(self, order: Order) -> str:
        entries = [self._put(put) for put in order.files if not _makes_way(put, order.files)]
        asked: dict[str, Any] = {"tree": entries}
        if order.base is not None:
            asked["base_tree"] = self.root(order.base)
        tree = _shaped(lambda body: _sha(body["sha"]), self._post("/git/trees", asked, "to make a tree"))
        who = {"name": order.who.name, "email": order.who.email, "date": instant(order.who.time)}
        parents = [] if order.base is None else [order.base]
        made = self._post(
            "/git/commits",
            {"message": order.message, "tree": tree, "parents": parents, "author": who, "committer": who},
            "to make a commit",
        )
        if _shaped(lambda body: (_sha(body["tree"]["sha"]), _parents(body)), made) != (tree, tuple(parents)):
            raise _odd()
        return _shaped(lambda body: _sha(body["sha"]), made)

    def _put(self, put: Put) -> dict[str, Any]:
        mode = "100755" if put.executable else "100644"
        if put.data is None:
            return {"path": put.path, "mode": mode, "type": "blob", "sha": None}
        body = {"content": b64encode(put.data).decode("ascii"), "encoding": "base64"}
        sha = _shaped(lambda body: _sha(body["sha"]), self._post("/git/blobs", body, "to take a file"))
        if sha != blob_id(put.data):
            raise _odd()
        return {"path": put.path, "mode": mode, "type": "blob", "sha": sha}

    def url(self, sha: str) -> str:
        """The commit's page."""
        return f"{self._page}/{self._name}/commit/{sha}"


class GitHubTree:
    """The files of a commit, asked for one directory at a time."""

    def __init__(self, target: GitHubTarget, root: str | None) -> None:
        self._target = target
        self._root = root
        self._known: dict[str, dict[str, Entry]] = {}

    def _directory(self, tree: str) -> dict[str, Entry]:
        if tree not in self._known:
            found = self._target.entries(tree)
            if found is None:
                raise TooLargeError("A directory there has too many files.", hint="Use the repository's https URL.")
            self._known[tree] = dict(found)
        return self._known[tree]

    def entry(self, path: str) -> Entry | None:
        """What is at a path, if there is something."""
        tree, found = self._root, None
        for name in path.split("/"):
            if tree is None:
                return None
            found = self._directory(tree).get(name)
            tree = found.blob if found is not None and found.mode == DIRECTORY else None
        return found

    def below(self, path: str) -> list[tuple[str, Entry]]:
        """Everything below a directory but directories."""
        tree = self._root
        if path:
            entry = self.entry(path)
            tree = entry.blob if entry is not None and entry.mode == DIRECTORY else None
        if tree is None:
            return []
        prefix = f"{path}/" if path else ""
        found = self._target.entries(tree, recursive=True)
        if found is None:
            found = self._walked(tree)
        if len(found) > MOST_ENTRIES:
            raise TooLargeError("The directory has too many files.", hint="Name smaller directories.")
        return [(f"{prefix}{name}", entry) for name, entry in found if entry.mode != DIRECTORY]

    def _walked(self, root: str) -> list[tuple[str, Entry]]:
        """The same directory by directory, for those that GitHub does not list at once."""
        waiting, found, seen = [(root, "")], list[tuple[str, Entry]](), 0
        while waiting:
            tree, above = waiting.pop()
            seen += 1
            for name, entry in self._directory(tree).items():
                if entry.mode == DIRECTORY:
                    waiting.append((entry.blob, f"{above}{name}/"))
                else:
                    found.append((f"{above}{name}", entry))
            if seen > _MOST_DIRECTORIES or len(found) > MOST_ENTRIES:
                raise TooLargeError("That is too many directories.", hint="Name smaller ones, or use its https URL.")
        return found

    def read(self, blob: str) -> bytes:
        """The content of a file."""
        return self._target.blob(blob)


def _odd() -> GitError:
    return GitError(
        "GitHub's answer is not what the request was about.", hint="Check the setting github_api.", operation="read"
    )


def _makes_way(put: Put, files: tuple[Put, ...]) -> bool:
    """Whether a deletion is part of another change: a file where a directory was, or the other way round."""
    if put.data is not None:
        return False
    new = [other.path for other in files if other.data is not None]
    return any(path.startswith(f"{put.path}/") or put.path.startswith(f"{path}/") for path in new)


def _shaped(take: Callable[[Any], T], body: Any) -> T:
    """Something out of an answer; one of another shape is an error, and never means "nothing"."""
    try:
        return take(body)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise _odd() from None


def _list(body: Any) -> list[Any]:
    if not isinstance(body, list):
        raise _odd()
    return body


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _sha(value: Any) -> str:
    """An id; nothing else ever becomes part of a URL."""
    if not isinstance(value, str) or not _SHA.fullmatch(value):
        raise _odd()
    return value


def _parents(body: Any) -> tuple[str, ...]:
    return tuple(_sha(parent["sha"]) for parent in body["parents"])


def _as_commit(body: Any) -> Commit:
    return Commit(_parents(body), str(body["message"]), _as_who(body["author"]), _as_who(body["committer"]))


def _as_who(body: Any) -> Who:
    when = datetime.strptime(body["date"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return Who(str(body["name"]), str(body["email"]), int(when.timestamp()))


def _as_entry(body: Any) -> tuple[str, Entry]:
    return _text(body["path"]), Entry(int(_text(body["mode"]), 8), _sha(body["sha"]))


def _decoded(body: Any) -> bytes:
    if body["encoding"] != "base64":
        raise ValueError
    try:
        return b64decode(body["content"].replace("\n", ""), validate=True)
    except Base64Error:
        raise ValueError from None
