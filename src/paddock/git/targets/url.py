"""A repository elsewhere, by https or ssh: the git program brings its objects into a directory of ours, and back."""

import re
from typing import Any

from paddock.errors import ConflictError, GitAuthError, GitError, visible
from paddock.git.context import GitContext
from paddock.git.names import UrlRepo, branch_name
from paddock.git.objects import ObjectTree, as_git_error, checked_id, library, read_commit, write_commit
from paddock.git.places import hashed, without_places
from paddock.git.program import GitProgram
from paddock.git.running import Done
from paddock.git.stopping import Stop
from paddock.git.targets.local import moved
from paddock.git.targets.protocol import Commit, Order, Tip, Tree, no_beginning
from paddock.types.git import Branch

_HEADS = "refs/heads/"
_LINE = re.compile(r"([0-9a-f]{40})\t(\S+)")
_SYMREF = re.compile(r"ref: refs/heads/(\S+)\tHEAD")
_AUTH = ("Authentication failed", "could not read Username", "could not read Password", "Permission denied (")
_MOVED = (
    "stale info",
    "fetch first",
    "non-fast-forward",
    "already exists",
    "failed to update ref",
    "incorrect old value",
)


class UrlTarget:
    """What the git program knows of a URL."""

    def __init__(self, repo: UrlRepo, context: GitContext, stop: Stop) -> None:
        self._repo = repo
        self._program = GitProgram(repo, context, stop)
        with as_git_error("open"):
            self._repository: Any = library().Repository(str(self._program.directory))

    def branches(self) -> list[Branch]:
        """All of them, sorted by name."""
        heads, default = self._listed("refs/heads/*")
        return [Branch(name, heads[name], name == default) for name in sorted(heads)]

    def tip(self, branch: str) -> Tip:
        """Where a branch is now, with its files here. Only a list that came whole says that there is none."""
        heads, default = self._listed(f"{_HEADS}{branch}")
        if branch in heads:
            head = self._fetched(branch, heads[branch])
            return Tip(head, head)
        known, _ = self._listed("refs/heads/*")
        if default in known:
            return Tip(None, self._fetched(default, known[default]))
        if known:
            raise no_beginning(branch)
        return Tip(None, None)

    def _listed(self, pattern: str) -> tuple[dict[str, str], str | None]:
        """Branches and where they are, and the name of the default one."""
        done, said = self._program.ask("ls-remote", "--symref", "--end-of-options", self._repo.url, "HEAD", pattern)
        if done.code != 0:
            raise self._failed("read", said)
        heads, default = {}, None
        for line in done.out.decode("utf-8", "replace").split("\n"):
            if found := _SYMREF.fullmatch(line):
                default = branch_name(found[1])
            elif (found := _LINE.fullmatch(line)) and found[2].startswith(_HEADS):
                heads[found[2].removeprefix(_HEADS)] = found[1]
        return heads, default

    def _fetched(self, branch: str, sha: str) -> str:
        """The commit that a branch is at, whole; what is here already is not asked for again."""
        own = f"refs/paddock/{hashed(branch)}"
        if self._own(own) == sha:
            return sha
        wanted = f"+{_HEADS}{branch}:{own}"
        done, said = self._fetch(wanted)
        found = self._own(own)
        if done.code != 0 or found is None:
            raise self._failed("fetch", said)
        return found

    def _fetch(self, wanted: str) -> tuple[Done, str]:
        """One commit with its files, and no history."""
        args = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--depth=1")
        return self._program.ask("fetch", *args, "--end-of-options", self._repo.url, wanted)

    def _own(self, name: str) -> str | None:
        with as_git_error("read"):
            try:
                return str(self._repository.lookup_reference(name).target)
            except KeyError:
                return None

    def tree(self, commit: str | None) -> Tree:
        """The files of a commit."""
        return ObjectTree(self._repository, commit)

    def commit(self, sha: str) -> Commit:
        """A commit that `tip` gave."""
        return read_commit(self._repository, sha)

    def check_writable(self, branch: str) -> None:
        """Only the server knows."""

    def push(self, order: Order) -> str:
        """Make the commit here and have git put it on the branch, if that is still where it was."""
        self._have(order)
        sha = write_commit(self._repository, order)
        expected = "" if order.new_branch else order.base
        done, said = self._program.ask(
            "push",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
            f"--force-with-lease={_HEADS}{order.branch}:{expected}",
            "--end-of-options",
            self._repo.url,
            f"{sha}:{_HEADS}{order.branch}",
        )
        if done.code != 0:
            raise self._not_pushed(order, done, said)
        return sha

    def _have(self, order: Order) -> None:
        """See to it that the commit to build on is here; our directory may have been cleared since staging."""
        if order.base is None or checked_id(order.base) in self._repository:
            return
        self.tip(order.branch)
        if order.base not in self._repository:
            self._fetch(f"+{order.base}:refs/paddock/{hashed(order.base)}")

    def _not_pushed(self, order: Order, done: Done, said: str) -> GitError | ConflictError:
        for line in done.out.decode("utf-8", "replace").split("\n"):
            if line.startswith("!\t") and any(words in line for words in _MOVED):
                heads, _ = self._listed(f"{_HEADS}{order.branch}")
                return moved(order.branch, heads.get(order.branch))
            if line.startswith("!\t"):
                why = visible(line.rsplit("\t", 1)[-1])[:300]
                return GitError(
                    f"The server did not take the commit: {why}. {_shown(said)}".strip(),
                    hint="Check what it allows on that branch, or stage for another.",
                    operation="push",
                )
        return self._failed("push", said)

    def _failed(self, operation: str, said: str) -> GitError:
        if any(words in said for words in _AUTH):
            return GitAuthError(
                f"{visible(self._repo.host)} wants other credentials.", operation=operation, hint=self._how_to_log_in()
            )
        hint = "Check the URL, the network and your rights."
        if "Host key verification failed" in said:
            hint = "ssh does not know the host's key: connect to it once by hand, and check the key."
        elif "redirect" in said or "requested URL returned error: 30" in said:
            hint = "The server leads elsewhere, which is not followed: give the URL that it leads to."
        return GitError(
            f"git could not {operation} from {visible(self._repo.url)}. {_shown(said)}".strip(),
            hint=hint,
            operation=operation,
        )

    def _how_to_log_in(self) -> str:
        if self._repo.scheme == "ssh":
            return "Load a key that it knows into ssh-agent, or give ssh_key= in the GitContext."
        return "For github.com, and hosts in token_hosts= of the GitContext, set GITHUB_TOKEN, or run `gh auth login`."

    def url(self, sha: str) -> str:
        """The commit's page, where it is known how these are called; else the repository."""
        if self._repo.host == "github.com":
            path = re.split(r"github\.com[:/]", self._repo.url, maxsplit=1)[-1].removesuffix(".git")
            return f"https://github.com/{path}/commit/{sha}"
        return self._repo.url


def _shown(said: str) -> str:
    """The end of what git said, on one line."""
    lines = [visible(line.strip()) for line in without_places(said).split("\n") if line.strip()]
    return " ".join(lines[-4:])[:600]
