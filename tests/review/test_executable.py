"""What runs by itself on the host later is flagged; what does not is not."""

import pytest

from paddock.review.executable import RULES, flags, reason, rule_for
from paddock.types.review import EXECUTABLE, Change


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/Config",
        "git~1/config",
        ".g\u200cit/config",
        ".git./config",
        "vendor/lib/.git/hooks/post-checkout",
        ".git",
        ".git/modules/sub/hooks/x",
        ".git/modules/libs/sub/hooks/x",
        ".git/rebase-merge/git-rebase-todo",
        ".pylintrc",
        "postcss.config.js",
        ".gitattributes",
        "sub/.gitmodules",
        ".husky/pre-push",
        ".vscode/tasks.json",
        ".idea/runConfigurations/x.xml",
        ".mcp.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/commands/a/b.md",
        ".cursor/mcp.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        "opencode.json",
        ".npmrc",
        "setup.py",
        "tests/conftest.py",
        "site/sitecustomize.py",
        "evil.pth",
        "pkg/__pycache__/mod.cpython-312.pyc",
        "mod.pyc",
        "Makefile",
        "GNUmakefile",
        "build/rules.mk",
        "justfile",
        "Taskfile.yml",
        ".envrc",
        ".env",
        ".env.local",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".pre-commit-config.yaml",
        ".bashrc",
        ".bash_profile",
        "Dockerfile",
        "docker-compose.override.yml",
        "compose.yaml",
        ".devcontainer/devcontainer.json",
        "crates/x/build.rs",
        ".cargo/config.toml",
        "tox.ini",
        "noxfile.py",
        "units/app.service",
        ".yarnrc.yml",
        "pyproject.toml",
    ],
)
def test_flagged(path: str) -> None:
    change = Change(f"/workspace/{path}", "update", "file", mode=0o644, old_mode=0o644)
    assert flags(change, path, None, None) == (EXECUTABLE,)
    assert reason(change)
    moved = Change("/workspace/harmless", "rename", "file", old_path=f"/workspace/{path}")
    assert reason(moved)


@pytest.mark.parametrize(
    ("path", "flagged"),
    [
        (".git/hooks", True),
        (".VSCode", True),
        ("sub/.husky", True),
        (".claude", True),
        (".github", True),
        (".github/workflows", True),
        (".git/modules/sub", True),
        (".git/modules/sub/hooks", True),
        ("Makefile", True),
        ("hooks", False),
        ("workflows", False),
        ("src/link", False),
        (".github/docs", False),
        ("vscode", False),
    ],
)
def test_links_in_the_place_of_directories(path: str, flagged: bool) -> None:
    """What is found through a link is found where a program looks for it, whatever that directory is called."""
    change = Change(f"/workspace/{path}", "link", "link", "directory", target="innocent")
    assert flags(change, path, None, None) == ((EXECUTABLE,) if flagged else ())
    assert (reason(change) is not None) == flagged


@pytest.mark.parametrize(
    "path",
    [
        "src/main.py",
        "README.md",
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/notes.md",
        ".git/objects/ab/cdef",
        ".git/index",
        ".gitignore",
        "git/config",
        "hooks/pre-commit",
        "config",
        "makefiles/readme.txt",
        ".env.example",
        "environment",
        "workflows/ci.yml",
        "src/services.py",
        "docs/setup.py.md",
        "package-lock.json",
        "x.git/config",
    ],
)
def test_not_flagged(path: str) -> None:
    assert rule_for(path) is None
    assert flags(Change(f"/workspace/{path}", "update", "file", mode=0o644, old_mode=0o644), path, None, None) == ()


@pytest.mark.parametrize(
    ("old", "new", "flagged"),
    [
        (b'{"version": "1"}', b'{"version": "2"}', False),
        (b'{"scripts": {"a": "b"}, "version": "1"}', b'{"version": "2", "scripts": {"a": "b"}}', False),
        (b'{"scripts": {"a": "b"}}', b'{"scripts": {"a": "c"}}', True),
        (b"{}", b'{"scripts": {"postinstall": "evil"}}', True),
        (b"", b'{"scripts": {"a": "b"}}', True),
        (b"", b'{"name": "x"}', False),
        (b'{"scripts": {}}', b"", True),
        (None, b'{"name": "x"}', True),
        (b'{"name": "x"}', None, True),
        (b"{}", b"no json", True),
        (b"{}", b"[" * 100_000, True),
        (b"{}", b'{"lint-staged": {"*": "evil"}}', True),
    ],
)
def test_package_scripts(old: bytes | None, new: bytes | None, flagged: bool) -> None:
    change = Change("/workspace/package.json", "update", "file", mode=0o644, old_mode=0o644)
    assert flags(change, "package.json", old, new) == ((EXECUTABLE,) if flagged else ())


@pytest.mark.parametrize(
    ("mode", "old_mode", "flagged"),
    [(0o755, 0o644, True), (0o755, None, True), (0o644, 0o755, False), (0o755, 0o700, False), (0o644, None, False)],
)
def test_files_that_became_programs(mode: int, old_mode: int | None, flagged: bool) -> None:
    change = Change("/workspace/x", "mode", "file", mode=mode, old_mode=old_mode)
    assert flags(change, "x", None, None) == ((EXECUTABLE,) if flagged else ())
    directory = Change("/workspace/x", "create", "directory", mode=0o755)
    assert flags(directory, "x", None, None) == ()


def test_every_rule_has_a_reason_and_can_match() -> None:
    for rule in RULES:
        assert rule.why
        assert rule.pattern == rule.pattern.casefold()
        example = rule.pattern.replace("*", "x") + ("inside" if rule.pattern.endswith("/") else "")
        assert rule_for(example) is not None, rule
