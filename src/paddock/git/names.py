"""Names that come from outside: repositories, branches, paths, messages. What is not surely harmless is an error."""

import os
import re
import unicodedata
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from paddock.errors import GitError, visible

MOST_MESSAGE = 64 << 10
_MOST_URL = 2048
_MOST_BRANCH = 200
_MOST_PATH = 4096
_MOST_NAME = 255
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}")
_PROJECT = re.compile(r"(?!-)(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*")
_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)$")
_USER = re.compile(r"(?!-)[A-Za-z0-9._-]{1,64}")
_SCP = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:]+):(?P<path>[^:@]+)")
_BEFORE_AT = re.compile(r"^.*@", re.DOTALL)
_PLAIN = re.compile(r"[!-~]+")
_BAD_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_REPO_HINT = "Give 'owner/name' for GitHub, an https:// or ssh:// URL, or a local path such as './project'."
_SECURE = ("https", "ssh")
_ON_LOOPBACK = ("http", "git")


@dataclass(frozen=True, slots=True)
class LocalRepo:
    """A directory of this host."""

    path: str


@dataclass(frozen=True, slots=True)
class UrlRepo:
    """A repository that the git program talks to."""

    scheme: str
    host: str
    url: str


@dataclass(frozen=True, slots=True)
class GitHubRepo:
    """A repository on GitHub."""

    owner: str
    name: str


Repo = LocalRepo | UrlRepo | GitHubRepo


def _refused(what: str, value: str, why: str, hint: str) -> GitError:
    text = shown(value) if what in ("URL", "repository") else visible(value)[:200]  # there may be a password in it
    return GitError(f"The {what} '{text}' {why}.", hint=hint, operation="names")


def repository(repo: "str | os.PathLike[str]", *, allow_file: bool = False) -> Repo:
    """What somebody means by this text. A path begins with `/`, `.` or `~`, or is a `Path`."""
    if isinstance(repo, os.PathLike):
        return LocalRepo(os.path.realpath(repo))
    if not isinstance(repo, str) or not repo:
        raise _refused("repository", str(repo), "is not a name", _REPO_HINT)
    if repo[0] == "-" or "\0" in repo:
        raise _refused("repository", repo, "begins with '-' or holds a NUL character", _REPO_HINT)
    if repo[0] == "/" or repo in (".", "..", "~") or repo.startswith(("./", "../", "~/")):
        return LocalRepo(os.path.realpath(os.path.expanduser(repo)))
    if "://" in repo:
        return _url(repo, allow_file)
    owner, _, name = repo.partition("/")
    if _OWNER.fullmatch(owner) and _PROJECT.fullmatch(name) and not name.endswith(".git"):
        return GitHubRepo(owner, name)
    return _scp(repo)


def shown(repo: "str | os.PathLike[str]") -> str:
    """What may be logged of something that was given as a repository, before anybody looked at it: no password."""
    return visible(_BEFORE_AT.sub("…@", os.fspath(repo) if isinstance(repo, os.PathLike) else str(repo)))[:200]


def text_of(repo: Repo) -> str:
    """How a repository is written: the same text for the same one."""
    if isinstance(repo, LocalRepo):
        return repo.path
    return repo.url if isinstance(repo, UrlRepo) else f"{repo.owner}/{repo.name}"


def _url(text: str, allow_file: bool) -> UrlRepo | LocalRepo:
    if len(text) > _MOST_URL or not _PLAIN.fullmatch(text):
        raise _refused("URL", text, "is too long or holds a space or a strange character", _REPO_HINT)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refused("URL", "(malformed)", "cannot be read", _REPO_HINT) from None
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise _refused("URL", text, "holds credentials", "Leave them out; set GITHUB_TOKEN for GitHub.")
    if parts.query or parts.fragment:
        raise _refused("URL", text, "has a query or a fragment", _REPO_HINT)
    if parts.scheme == "file":
        return _file_url(text, parts.netloc, allow_file)
    _check_scheme(text, parts.scheme, host)
    user = _checked_user(text, parts.username)
    path = _checked_url_path(text, parts.path)
    at = f"{user}@" if user else ""
    shown = f"[{host}]" if ":" in host else host
    return UrlRepo(parts.scheme, host, f"{parts.scheme}://{at}{shown}{f':{port}' if port else ''}{path}")


def _check_scheme(text: str, scheme: str, host: str) -> None:
    if not is_host(host):
        raise _refused("URL", text, "has no host that can be used", _REPO_HINT)
    if scheme in _SECURE or (scheme in _ON_LOOPBACK and is_loopback(host)):
        return
    raise _refused("URL", text, "is of a kind that is not used", "https and ssh are; http on this host itself.")


def _file_url(text: str, netloc: str, allow_file: bool) -> LocalRepo:
    """The same as the path: git itself would run the hooks of that repository."""
    if not allow_file:
        raise _refused("URL", text, "is of the kind file", "Give the path, or allow_file=True in the GitContext.")
    path = text.removeprefix("file://")
    if netloc or not path.startswith("/"):
        raise _refused("URL", text, "names another host", "Write file:///path.")
    return LocalRepo(os.path.realpath(path))


def _scp(text: str) -> UrlRepo:
    """The short form of ssh: `git@host:path`."""
    found = _SCP.fullmatch(text)
    if found is None or not _PLAIN.fullmatch(text) or not is_host(found["host"]):
        raise _refused("repository", text, "is none that is understood", _REPO_HINT)
    user = _checked_user(text, found["user"])
    _checked_url_path(text, "/" + found["path"].removeprefix("/"))
    host = found["host"].lower()
    return UrlRepo("ssh", host, f"{user + '@' if user else ''}{host}:{found['path']}")


def _checked_user(text: str, user: str | None) -> str:
    if user is not None and not _USER.fullmatch(user):
        raise _refused("repository", text, "has a user that cannot be used", _REPO_HINT)
    return user or ""


def _checked_url_path(text: str, path: str) -> str:
    if not path.startswith("/") or path == "/" or path.startswith("/-") or "/../" in f"{path}/":
        raise _refused("repository", text, "has no path that can be used", _REPO_HINT)
    return path


def is_host(host: str) -> bool:
    """Whether this is a host's name or address, in its plain notation."""
    try:
        return bool(ip_address(host))
    except ValueError:
        return len(host) <= _MOST_NAME and bool(_HOST.fullmatch(host)) and not _NUMBER.search(host)


def is_loopback(host: str) -> bool:
    """Whether it is this host itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def branch_name(branch: str) -> str:
    """A branch that git takes and that no program takes for something else."""
    wrong = (
        not isinstance(branch, str)
        or not branch
        or branch[0] in "-/."
        or branch[-1] in "/."
        or branch in ("@", "HEAD")
        or branch.startswith("refs/")
        or not _encodable(branch, _MOST_BRANCH)
        or not branch.isprintable()
        or bool(_BAD_IN_REF.search(branch))
        or any(part.startswith(".") or part.endswith(".lock") for part in branch.split("/"))
    )
    if wrong:
        raise _refused(
            "branch", str(branch), "is no name for a branch", "Give a short name such as 'main' or 'fix/typo'."
        )
    return branch


def message_text(message: str) -> str:
    """A commit's message: text, without what acts on a terminal."""
    if not isinstance(message, str) or not message.strip():
        raise GitError("The message is empty.", hint="Say in a line what the commit is for.", operation="stage")
    text = message.replace("\r\n", "\n").strip()
    if not _encodable(text, MOST_MESSAGE) or not text.replace("\n", "").replace("\t", "").isprintable():
        raise GitError(
            "The message is too long or holds control characters.",
            hint=f"Plain text of at most {MOST_MESSAGE >> 10} KiB.",
            operation="stage",
        )
    return text


def identity(value: str, what: str) -> str:
    """A name or an address for a commit."""
    if not value.strip() or not value.isprintable() or set(value) & set("<>") or not _encodable(value, _MOST_NAME):
        raise _refused(f"{what} of the commit", value, "cannot be used", "Plain text without '<' and '>'.")
    return value.strip()


def _encodable(text: str, most: int) -> bool:
    try:
        return len(text.encode()) <= most
    except UnicodeEncodeError:
        return False


def unsafe_path(path: str) -> str | None:
    """Why this path is neither written into a workspace nor into a repository; None if it may be."""
    if not path or not _encodable(path, _MOST_PATH):
        return "its name is not UTF-8, or too long"
    for name in path.split("/"):
        if why := _unsafe_name(name):
            return why
    return None


def _unsafe_name(name: str) -> str | None:
    if name in ("", ".", "..") or len(name.encode()) > _MOST_NAME:
        return "its name cannot be a file's"
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name):
        return "its name holds control characters"
    if any(is_dot_git(part) for part in re.split(r"[\\:]", name)):
        return "git itself would use it"
    return None


def is_dot_git(name: str) -> bool:
    """Whether some file system takes this name for `.git`: other cases, short names, what is ignored at the end or within."""
    seen = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return seen.rstrip(". ").casefold() in (".git", "git~1")
