"""Sandbox paths as text: POSIX, absolute, without `.` and `..`. Nothing here looks at a file system."""

from posixpath import normpath

from paddock.errors import InvalidPathError, visible

MAX_PATH = 4096
MAX_NAME = 255


def normalise(path: str, base: str = "/") -> str:
    """The absolute form of `path`, which starts at `base` when it is relative.

    `..` is taken out as text, before anything looks at links or policy; above `/` there is only `/`.
    """
    if not isinstance(path, str):
        raise InvalidPathError(f"A path is a str, and this is a {type(path).__name__}.")
    if not path:
        raise InvalidPathError("The path is empty.", path=path)
    full = path if path[0] == "/" else f"{base}/{path}"
    if "/." in full or "//" in full or full[-1] == "/":
        full = normpath(full)
        if full.startswith("//"):
            full = full[1:]
    _check(full, path)
    return full


def encode(path: str) -> bytes:
    """The bytes the kernel knows a path by; names that are not UTF-8 come and go as surrogates."""
    return path.encode("utf-8", "surrogateescape")


def decode(raw: bytes) -> str:
    """The inverse of `encode`."""
    return raw.decode("utf-8", "surrogateescape")


def within(path: str, root: str) -> bool:
    """Whether normalised `path` is `root` or below it, compared name by name."""
    return path == root or root == "/" or path.startswith(root + "/")


def below(path: str, root: str) -> str:
    """What is left of `path` below `root`: '' for the root itself."""
    if path == root:
        return ""
    return path[1:] if root == "/" else path[len(root) + 1 :]


def join(root: str, relative: str) -> str:
    """The inverse of `below`."""
    if not relative:
        return root
    return f"/{relative}" if root == "/" else f"{root}/{relative}"


def parent(path: str) -> str:
    """The directory that holds normalised `path`."""
    return path[: path.rfind("/")] or "/"


def name(path: str) -> str:
    """The last name of normalised `path`."""
    return path[path.rfind("/") + 1 :]


def split(relative: str) -> tuple[str, str]:
    """A relative path as its directory ('' for the root) and its last name."""
    directory, _, last = relative.rpartition("/")
    return directory, last


def _check(full: str, given: str) -> None:
    if "\0" in full:
        raise InvalidPathError(f"The path '{visible(given)}' holds a NUL character.", path=given)
    if len(full) <= MAX_NAME and full.isascii():
        return
    try:
        raw = encode(full)
    except UnicodeEncodeError:
        raise InvalidPathError(f"The path '{visible(given)}' cannot be encoded.", path=given) from None
    if len(raw) > MAX_PATH:
        raise InvalidPathError(f"The path is {len(raw)} bytes long.", path=given)
    longest = max(map(len, raw.split(b"/")))
    if longest > MAX_NAME:
        raise InvalidPathError(f"A name in the path is {longest} bytes long.", path=given)
