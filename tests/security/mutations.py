"""Sandboxes of `namespaces` with one part of the boundary taken away; and which test has to notice that.

A part that is hidden behind others is proved beside them: with only those taken away the test still holds, with this one
too it does not.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.backends.namespaces import launch, system
from paddock.backends.namespaces import start as starting
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.layers import Layers
from paddock.backends.namespaces.order import _BRIDGE, SUPERVISOR, Order
from paddock.backends.namespaces.start import Command
from paddock.dirs.descriptor import DescriptorDir
from paddock.driver import HOME, SOCKETS
from wire.building import SUPERVISOR as SOURCES
from wire.building import build

ROOT = os.geteuid() == 0
Removal = Callable[[pytest.MonkeyPatch], None]

REFUSES = "it does not start"
"""Bubblewrap, or Paddock itself, finds that something is missing: that is noticing, too."""


class NothingRemovedError(Exception):
    """The part is not there, or is called something else by now: then this proves nothing."""


@dataclass(frozen=True)
class Mutation:
    """One part, how to take it away, and who notices."""

    name: str
    remove: Removal
    noticed_by: str
    beside: tuple[str, ...] = ()
    """What hides it, and has to go as well."""
    only_if: bool = True
    """Whether there is such a part in this run."""


def _words(change: Callable[[list[bytes]], list[bytes]]) -> Removal:
    """What bubblewrap is told, on its way there."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        pack = starting._packed

        def changed(words: list[bytes]) -> bytes:
            result = change(list(words))
            if result == words:
                raise NothingRemovedError
            return pack(result)

        patch.setattr(starting, "_packed", changed)

    return remove


def without(option: str, arguments: int = 0) -> Removal:
    """An option of bubblewrap's, with so many arguments."""

    def change(words: list[bytes]) -> list[bytes]:
        while (word := option.encode()) in words:
            at = words.index(word)
            del words[at : at + 1 + arguments]
        return words

    return _words(change)


def without_at(option: str, target: str, arguments: int) -> Removal:
    """One that ends in this target."""

    def change(words: list[bytes]) -> list[bytes]:
        for at, word in enumerate(words):
            if word.removesuffix(b"-fd") == option.encode() and words[at + arguments] == target.encode():
                del words[at : at + 1 + arguments]
                break
        return words

    return _words(change)


def writable(target: str) -> Removal:
    """A part of the system that is not read-only any more."""

    def change(words: list[bytes]) -> list[bytes]:
        for at, word in enumerate(words):
            if word.removesuffix(b"-fd") == b"--ro-bind" and words[at + 2] == target.encode():
                words[at] = word.replace(b"--ro-bind", b"--bind")
        return words

    return _words(change)


def unsized(target: str) -> Removal:
    """A file system in memory that has no size."""

    def change(words: list[bytes]) -> list[bytes]:
        for at, word in enumerate(words):
            if word == b"--size" and words[at + 3] == target.encode():
                del words[at : at + 2]
                break
        return words

    return _words(change)


def unfiltered(number: int) -> Removal:
    """One of the filters for all processes."""

    def change(words: list[bytes]) -> list[bytes]:
        places = [at for at, word in enumerate(words) if word == b"--add-seccomp-fd"]
        del words[places[number] : places[number] + 2]
        return words

    return _words(change)


def unsupervised(option: str) -> Removal:
    """An option of the supervisor's, with its argument."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        original: Callable[..., Any] = getattr(launch, "start_early")  # noqa: B009 - it may be a changed one already

        def changed(command: Command, *others: Any) -> Any:
            if option not in command.options:
                raise NothingRemovedError
            at = command.options.index(option)
            del command.options[at : at + 2]
            return original(command, *others)

        patch.setattr(launch, "start_early", changed)

    return remove


def uncompiled(file: str, statement: str) -> Removal:
    """A statement of the supervisor's own."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        place = Path(os.environ["XDG_CACHE_HOME"]) / f"without-{file}-{abs(hash(statement))}"
        shutil.copytree(SOURCES, place, ignore=shutil.ignore_patterns("tests", "*.py", "*.json"), dirs_exist_ok=True)
        source = (place / file).read_text()
        if source.count(statement) != 1:
            raise NothingRemovedError
        (place / file).write_text(source.replace(statement, ";"))
        program, words = place / "paddock-init", [*build.compilers(build.STATIC)[0], *build.FLAGS, *build.STATIC]
        names = [path.name for path in place.glob("*.c")]
        subprocess.run([*words, '-DPADDOCK_RELEASE="0"', "-w", "-o", program, *names], cwd=place, check=True)
        patch.setenv("PADDOCK_SUPERVISOR", str(program))

    return remove


def _all_descriptors(patch: pytest.MonkeyPatch) -> None:
    """Whatever can be inherited is."""

    def changed(words: list[str], pass_fds: list[int], **options: Any) -> "subprocess.Popen[bytes]":
        for fd in pass_fds:
            os.set_inheritable(fd, True)
        return subprocess.Popen(words, close_fds=False, **options)

    patch.setattr(starting, "subprocess", SimpleNamespace(Popen=changed, DEVNULL=subprocess.DEVNULL))


def _with_this_environment(patch: pytest.MonkeyPatch) -> None:
    original = starting._program

    def changed(command: Command) -> tuple[str, dict[str, str]]:
        program, needed = original(command)
        return program, {**os.environ, **needed}

    patch.setattr(starting, "_program", changed)


def _as_root(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(launch, "choose", lambda written: Identity(0, 0, ours=True))


def _files_as_root(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(launch, "dirs", lambda identity, mounts: lambda target, fd: DescriptorDir(fd))


def _no_look_at_what_is_protected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(launch, "check_protected", lambda *_: None)


def _no_layer(patch: pytest.MonkeyPatch) -> None:
    """The host's directory itself is mounted, where a layer over it should be."""

    def changed(order: Order, fd: int, directory: str, target: str) -> None:
        order.show(fd, target, writable=True)

    patch.setattr(Order, "layer", changed)


def _no_look_at_layers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Layers, "check", lambda *_: None)


PLACES = "test_only_known_places_are_writable"
OWN_NAMESPACES = "test_every_namespace_is_its_own"
SESSION = "test_a_session_and_names_of_its_own"
FILTERS = ("the filter that allows", "the filter that refuses", "the filter of commands")
INTERPRETER = system.interpreter()

MUTATIONS = {
    mutation.name: mutation
    for mutation in (
        Mutation("--unshare-user", without("--unshare-user"), REFUSES),
        Mutation("--disable-userns", without("--disable-userns"), "test_no_new_namespaces", FILTERS),
        Mutation("--unshare-pid", without("--unshare-pid"), REFUSES),
        Mutation("--unshare-net", without("--unshare-net"), "test_nothing_but_loopback"),
        Mutation("--unshare-ipc", without("--unshare-ipc"), "test_shared_memory_of_the_host"),
        Mutation("--unshare-uts", without("--unshare-uts"), OWN_NAMESPACES, ("--hostname",)),
        Mutation("--unshare-cgroup", without("--unshare-cgroup"), OWN_NAMESPACES),
        Mutation("--new-session", without("--new-session"), SESSION),
        Mutation(
            "--cap-drop",
            without("--cap-drop", 1),
            "test_no_capability_can_come_back",
            ("another user than root",),  # from others bubblewrap takes them all by itself
            only_if=ROOT,
        ),
        Mutation(
            "--clearenv",
            without("--clearenv"),
            "test_the_supervisor_has_no_environment",
            ("an empty environment",),
            only_if=ROOT,  # nobody else can look into the supervisor
        ),
        Mutation("an empty environment", _with_this_environment, "test_no_environment_of_the_host"),
        Mutation("--as-pid-1", without("--as-pid-1"), "test_few_processes"),
        Mutation("--hostname", without("--hostname", 1), SESSION),
        Mutation("--uid", without("--uid", 1), "test_nobody_else_can_be_become"),
        Mutation("--gid", without("--gid", 1), "test_nobody_else_can_be_become"),
        Mutation("a read-only root", without_at("--remount-ro", "/", 1), PLACES),
        Mutation("a read-only /dev", without_at("--remount-ro", "/dev", 1), PLACES),
        Mutation("a read-only /proc/sys", without_at("--ro-bind", "/proc/sys", 2), "test_settings_of_the_kernel"),
        Mutation("a read-only /usr", writable("/usr"), PLACES),
        Mutation("a read-only /etc", writable("/etc"), PLACES),
        Mutation("a read-only supervisor", writable(SUPERVISOR), PLACES),
        Mutation("a read-only Python", writable(INTERPRETER or ""), PLACES, only_if=INTERPRETER is not None),
        Mutation("a read-only bridge", writable(_BRIDGE), PLACES),
        Mutation("a size of /run/paddock", unsized(SOCKETS), "test_every_writable_place_is_bounded"),
        Mutation(
            "a supervisor that nobody reads",
            uncompiled("main.c", "prctl(PR_SET_DUMPABLE, 0);"),
            "test_the_first_process_is_out_of_reach",
        ),
        Mutation("no core files", uncompiled("spawn.c", "setrlimit(RLIMIT_CORE, &no_core);"), "test_defaults_hold_too"),
        Mutation("a size of /tmp", unsized("/tmp"), "test_by_default_memory_is_bounded"),
        Mutation("a size of the home", unsized(HOME), "test_by_default_memory_is_bounded"),
        Mutation("a size of /dev/shm", unsized("/dev/shm"), "test_by_default_memory_is_bounded"),
        Mutation("the filter that allows", unfiltered(0), "test_refused_calls"),
        Mutation("the filter that refuses", unfiltered(1), "test_refused_calls"),
        Mutation("the filter of commands", unsupervised("--filter"), "test_no_set_uid_file_on_the_host"),
        Mutation("a bound on processes", unsupervised("--own-pids"), "test_defaults_hold_too"),
        Mutation("a bound on open files", unsupervised("--open-files"), "test_defaults_hold_too"),
        Mutation("a list of descriptors", _all_descriptors, "test_no_descriptor_of_the_host"),
        Mutation("another user than root", _as_root, "test_never_root_on_the_host", only_if=ROOT),
        Mutation("file calls as that user", _files_as_root, "test_owners_on_the_host", only_if=ROOT),
        Mutation(".git over itself", without_at("--ro-bind", "/workspace/.git", 2), REFUSES),
        Mutation(
            "a look at what is protected",
            _no_look_at_what_is_protected,
            "test_git_of_a_direct_workspace",
            (".git over itself",),
        ),
        Mutation("the layer", _no_layer, REFUSES),
        Mutation("a look at the layer", _no_look_at_layers, "test_a_layer_lies_between", ("the layer",)),
        Mutation("--die-with-parent", without("--die-with-parent"), "see test_mutations", ("the owner",)),
        Mutation("the owner", unsupervised("--owner"), "see test_mutations", ("--die-with-parent",)),
    )
    if mutation.only_if
}
