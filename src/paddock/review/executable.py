"""What runs by itself on the host later: files that a program obeys without being asked. One table, with reasons.

Flagged is what makes a program run, or decides which one: hooks, tasks, build and test configuration, what a shell or an
editor loads. Not flagged are sources, which run when somebody runs them, and text for agents (`AGENTS.md`, `CLAUDE.md`):
nothing runs by their being there, they are read in full in the diff, and a flag that is always on warns nobody.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from paddock.types.review import EXECUTABLE, Change

_IGNORED = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff"))
"""Characters that some file systems leave out when they look for a name."""
GAINED = "it can be executed now"


@dataclass(frozen=True, slots=True)
class Rule:
    """A name, or some names in a row, anywhere in a tree; with a / at the end, whatever is below."""

    pattern: str
    why: str
    keys: tuple[str, ...] = ()
    """Of a JSON file: only if one of these is different."""


_SHELL = "a shell runs it when it starts"
_GIT = "git runs what it names"
_EDITOR = "an editor runs what it names"
_AGENT = "a coding agent runs what it names"
_BUILD = "a build runs it"
_TEST = "a test run loads it"
_LINT = "linters and editors load it"
_PYTHON = "Python runs it when it starts"
_COMPILED = "Python runs it in place of the source"
_CI = "a CI service runs it"
_CONTAINER = "containers are made and run as it says"
_INSTALL = "installing packages runs what it names"
_TASK = "it is a list of commands to be run by name"

RULES = (
    Rule(".git", "it says which repository git uses here"),
    Rule(".git/hooks/", "git runs it as a hook"),
    Rule(".git/config", _GIT),
    Rule(".git/config.worktree", _GIT),
    Rule(".git/commondir", "it says which repository git uses here"),
    Rule(".git/gitdir", "it says which repository git uses here"),
    Rule(".git/info/attributes", _GIT),
    Rule(".git/modules/*/hooks/", "git runs it as a hook"),
    Rule(".git/modules/*/config", _GIT),
    Rule(".git/modules/*/*/hooks/", "git runs it as a hook"),
    Rule(".git/modules/*/*/config", _GIT),
    Rule(".git/modules/*/*/*/hooks/", "git runs it as a hook"),
    Rule(".git/modules/*/*/*/config", _GIT),
    Rule(".git/rebase-merge/", "git runs what it names when a rebase goes on"),
    Rule(".git/worktrees/*/config*", _GIT),
    Rule(".gitattributes", "git chooses filters and merge programs by it"),
    Rule(".gitmodules", "git fetches and updates what it names"),
    Rule(".gitconfig", _GIT),
    Rule(".githooks/", "git runs it as a hook"),
    Rule(".husky/", "git runs it as a hook"),
    Rule("lefthook.y*ml", "git runs what it names as hooks"),
    Rule(".lefthook.y*ml", "git runs what it names as hooks"),
    Rule(".pre-commit-config.yaml", "git runs what it names as hooks"),
    Rule(".pre-commit-hooks.yaml", "git runs what it names as hooks"),
    Rule(".lintstagedrc*", "git runs what it names as hooks"),
    Rule(".vscode/", _EDITOR),
    Rule("*.code-workspace", _EDITOR),
    Rule(".idea/", _EDITOR),
    Rule(".run/*.run.xml", _EDITOR),
    Rule(".fleet/", _EDITOR),
    Rule(".zed/", _EDITOR),
    Rule(".vimrc", _EDITOR),
    Rule(".exrc", _EDITOR),
    Rule(".nvimrc", _EDITOR),
    Rule(".nvim.lua", _EDITOR),
    Rule(".dir-locals.el", _EDITOR),
    Rule(".mcp.json", "agents and editors start the servers it names"),
    Rule("mcp.json", "agents and editors start the servers it names"),
    Rule(".claude/settings*.json", _AGENT),
    Rule(".claude/hooks/", _AGENT),
    Rule(".claude/commands/", _AGENT),
    Rule(".claude/skills/", _AGENT),
    Rule(".claude/agents/", _AGENT),
    Rule(".claude/plugins/", _AGENT),
    Rule(".claude.json", _AGENT),
    Rule(".cursor/", _AGENT),
    Rule(".codex/", _AGENT),
    Rule(".gemini/", _AGENT),
    Rule(".opencode/", _AGENT),
    Rule("opencode.json*", _AGENT),
    Rule(".aider.conf.yml", _AGENT),
    Rule(".continue/", _AGENT),
    Rule(".windsurf/", _AGENT),
    Rule(
        "package.json",
        "its scripts or hooks changed",
        (
            "scripts",
            "bin",
            "gitHooks",
            "husky",
            "lint-staged",
            "simple-git-hooks",
            "pre-commit",
            "pnpm",
            "trustedDependencies",
        ),
    ),
    Rule(".npmrc", _INSTALL),
    Rule(".yarnrc", _INSTALL),
    Rule(".yarnrc.yml", _INSTALL),
    Rule(".yarn/releases/", _INSTALL),
    Rule(".yarn/plugins/", _INSTALL),
    Rule(".pnpmfile.cjs", _INSTALL),
    Rule("bunfig.toml", _INSTALL),
    Rule("pip.conf", _INSTALL),
    Rule(".pypirc", _INSTALL),
    Rule("pyproject.toml", "build, test and task programs obey it"),
    Rule("setup.py", _BUILD),
    Rule("setup.cfg", "build and test programs obey it"),
    Rule("hatch_build.py", _BUILD),
    Rule("conftest.py", _TEST),
    Rule("pytest.ini", _TEST),
    Rule(".pylintrc", _LINT),
    Rule("pylintrc", _LINT),
    Rule(".flake8", _LINT),
    Rule("mypy.ini", _LINT),
    Rule(".mypy.ini", _LINT),
    Rule(".rubocop.yml", _LINT),
    Rule("tox.ini", _TEST),
    Rule("noxfile.py", _TEST),
    Rule("sitecustomize.py", _PYTHON),
    Rule("usercustomize.py", _PYTHON),
    Rule("*.pth", _PYTHON),
    Rule("pyvenv.cfg", _PYTHON),
    Rule("__pycache__/", _COMPILED),
    Rule("*.pyc", _COMPILED),
    Rule(".pdbrc", _PYTHON),
    Rule("makefile", _TASK),
    Rule("gnumakefile", _TASK),
    Rule("makefile.*", _TASK),
    Rule("*.mk", _TASK),
    Rule("justfile", _TASK),
    Rule(".justfile", _TASK),
    Rule("taskfile.y*ml", _TASK),
    Rule("rakefile", _TASK),
    Rule("gruntfile.*", _TASK),
    Rule("gulpfile.*", _TASK),
    Rule("procfile", _TASK),
    Rule("mise.toml", "a shell runs what it names on entering the directory"),
    Rule(".mise.toml", "a shell runs what it names on entering the directory"),
    Rule(".tool-versions", "it chooses which programs are run here"),
    Rule("cmakelists.txt", _BUILD),
    Rule("configure", _BUILD),
    Rule("meson.build", _BUILD),
    Rule("*.gradle", _BUILD),
    Rule("*.gradle.kts", _BUILD),
    Rule("gradle/wrapper/", _BUILD),
    Rule("pom.xml", _BUILD),
    Rule(".mvn/", _BUILD),
    Rule("build.rs", _BUILD),
    Rule("cargo.toml", _BUILD),
    Rule(".cargo/config*", _BUILD),
    Rule("rust-toolchain*", "it chooses which compiler is run"),
    Rule("gemfile", _INSTALL),
    Rule("composer.json", _INSTALL),
    Rule("sconstruct", _BUILD),
    Rule("build.sbt", _BUILD),
    Rule(".bazelrc", _BUILD),
    Rule("build.bazel", _BUILD),
    Rule("*.nix", _BUILD),
    Rule("vite.config.*", _BUILD),
    Rule("webpack.config.*", _BUILD),
    Rule("rollup.config.*", _BUILD),
    Rule("next.config.*", _BUILD),
    Rule("jest.config.*", _TEST),
    Rule("vitest.config.*", _TEST),
    Rule("playwright.config.*", _TEST),
    Rule("nuxt.config.*", _BUILD),
    Rule("astro.config.*", _BUILD),
    Rule("svelte.config.*", _BUILD),
    Rule("postcss.config.*", _BUILD),
    Rule("tailwind.config.*", _BUILD),
    Rule("babel.config.*", _BUILD),
    Rule(".babelrc*", _BUILD),
    Rule(".mocharc*", _TEST),
    Rule(".eslintrc*", _LINT),
    Rule("eslint.config.*", _LINT),
    Rule(".prettierrc*", _LINT),
    Rule("prettier.config.*", _LINT),
    Rule(".stylelintrc*", _LINT),
    Rule("stylelint.config.*", _LINT),
    Rule(".envrc", "direnv runs it on entering the directory"),
    Rule(".env", "programs take their environment from it, and that can name what they run"),
    Rule(".env.*", "programs take their environment from it, and that can name what they run"),
    Rule(".bashrc", _SHELL),
    Rule(".bash_*", _SHELL),
    Rule(".profile", _SHELL),
    Rule(".zshrc", _SHELL),
    Rule(".zshenv", _SHELL),
    Rule(".zprofile", _SHELL),
    Rule(".zlogin", _SHELL),
    Rule(".kshrc", _SHELL),
    Rule(".inputrc", _SHELL),
    Rule(".config/fish/", _SHELL),
    Rule(".ssh/", "ssh obeys it"),
    Rule(".config/autostart/", "a desktop runs it when somebody logs in"),
    Rule("*.desktop", "a desktop runs what it names"),
    Rule(".config/systemd/", "systemd runs what it names"),
    Rule("*.service", "systemd runs what it names"),
    Rule("*.timer", "systemd runs what it names"),
    Rule("*.socket", "systemd runs what it names"),
    Rule("crontab", "cron runs what it names"),
    Rule(".gdbinit", "a debugger runs it"),
    Rule(".lldbinit", "a debugger runs it"),
    Rule(".github/workflows/", _CI),
    Rule(".github/actions/", _CI),
    Rule(".gitlab-ci.yml", _CI),
    Rule(".gitlab/ci/", _CI),
    Rule(".circleci/", _CI),
    Rule(".buildkite/", _CI),
    Rule("azure-pipelines.yml", _CI),
    Rule("bitbucket-pipelines.yml", _CI),
    Rule(".travis.yml", _CI),
    Rule("jenkinsfile", _CI),
    Rule("dockerfile", _CONTAINER),
    Rule("dockerfile.*", _CONTAINER),
    Rule("*.dockerfile", _CONTAINER),
    Rule("containerfile", _CONTAINER),
    Rule("compose*.y*ml", _CONTAINER),
    Rule("docker-compose*.y*ml", _CONTAINER),
    Rule(".devcontainer/", _CONTAINER),
    Rule(".devcontainer.json", _CONTAINER),
    Rule("vagrantfile", _CONTAINER),
)

_HARMLESS = (".env.example", ".env.sample", ".env.template")
"""Patterns above would take these in; nothing loads them."""


def rule_for(relative: str, *, link: bool = False) -> Rule | None:
    """The first rule that a path in a host directory falls under. A link may also stand for a directory of a rule's."""
    names = [_folded(name) for name in relative.split("/")]
    if names[-1] in _HARMLESS:
        return None
    if _any().search("/".join(names)) is not None:
        return next((rule for rule in RULES if _matches(rule.pattern, names)), None)
    if not link or _any_above().search("/".join(names)) is None:
        return None
    return next((rule for rule in RULES if any(_matches(above, names) for above in _above(rule.pattern))), None)


def reason(change: Change) -> str | None:
    """Why a change is flagged, in words."""
    for path in (change.path, change.old_path):
        if path is not None and (rule := rule_for(path.lstrip("/"), link=change.kind == "link")) is not None:
            return rule.why
    return GAINED if has_gained(change) else None


def flags(change: Change, relative: str, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """`EXECUTABLE` for what runs later by itself, or can be run now and could not before.

    A side that is not there is empty; one that is not known is None, and taken to be different.
    """
    if change.kind == "directory":
        return ()
    rule = rule_for(relative, link=change.kind == "link")
    concerned = rule is not None and (not rule.keys or _differs(rule.keys, old, new))
    return (EXECUTABLE,) if concerned or has_gained(change) else ()


def has_gained(change: Change) -> bool:
    """Whether it is a program now and was none."""
    if change.kind != "file" or change.mode is None or change.operation == "delete":
        return False
    return bool(change.mode & 0o111) and not (change.old_mode or 0) & 0o111


def _folded(name: str) -> str:
    """A name as the most forgiving file system would compare it."""
    folded = name.translate(_IGNORED).casefold().rstrip(". ")
    return ".git" if folded == "git~1" else folded


@cache
def _any() -> re.Pattern[str]:
    """Whether any rule matches: many files are asked about, and few are named here."""
    return _one_of(rule.pattern for rule in RULES)


@cache
def _any_above() -> re.Pattern[str]:
    """The same for the directories that rules speak of."""
    return _one_of({above for rule in RULES for above in _above(rule.pattern)})


def _above(pattern: str) -> Iterator[str]:
    """The directories in which a rule looks for something."""
    *above, last = pattern.rstrip("/").split("/")
    if pattern.endswith("/"):
        above.append(last)
    for count in range(1, len(above) + 1):
        yield "/".join(above[:count])


def _one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    every = [(pattern.rstrip("/"), pattern.endswith("/")) for pattern in patterns]
    shapes = [re.escape(pattern).replace(r"\*", "[^/]*") + ("/" if below else r"\Z") for pattern, below in every]
    return re.compile(f"(?:^|/)(?:{'|'.join(shapes)})", re.DOTALL)


def _matches(pattern: str, names: list[str]) -> bool:
    wanted = pattern.rstrip("/").split("/")
    below = pattern.endswith("/")
    for start in range(len(names) - len(wanted) + 1):
        end = start + len(wanted)
        if (end < len(names)) == below and all(map(fnmatchcase, names[start:end], wanted)):
            return True
    return False


def _differs(keys: tuple[str, ...], old: bytes | None, new: bytes | None) -> bool:
    before, after = _parsed(old), _parsed(new)
    if before is None or after is None:
        return True
    return any(before.get(key) != after.get(key) for key in keys)


def _parsed(data: bytes | None) -> dict[str, Any] | None:
    """None for what is not known or no JSON object; nothing is an empty one."""
    if data is None:
        return None
    try:
        value = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
