"""Whatever happens in an overlay: what is found and applied to the host is exactly what the sandbox sees."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from paddock.dirs.descriptor import DescriptorDir
from paddock.review import look
from paddock.review.restoring import restore
from review.layers import Mounted, changes, mounted
from review.trees import tree

NAMES = (
    "a",
    "b",
    "c",
    "dir",
    "dir/a",
    "dir/b",
    "dir/sub",
    "dir/sub/a",
    "new",
    "new/a",
    "new/in",
    "new/in/b",
    "x\n",
    "é",
)
CONTENTS = ("", "one\n", "two\n", "one\ntwo\nthree\n", "\0binary")
MODES = (0o644, 0o755, 0o600, 0o444)
ROUNDS = 200 if os.environ.get("PADDOCK_SOAK") else 20

INSIDE = """
import os, shutil
def write(name, text, mode):
    with open(name, "w") as file:
        file.write(text)
    os.chmod(name, mode)
def remove(name):
    shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.remove(name)
def move(name, to):
    shutil.move(name, to)
for act, *args in {acts!r}:
    try:
        {{"write": write, "remove": remove, "move": move, "mkdir": os.makedirs, "link": os.symlink, "hard": os.link,
          "chmod": os.chmod, "copy": shutil.copytree}}[act](*args)
    except (OSError, shutil.Error):
        pass
"""


def fill(chance: random.Random, top: Path) -> None:
    (top / "dir" / "sub").mkdir(parents=True)
    for name in ("a", "b", "dir/a", "dir/b", "dir/sub/a", "x\n"):
        if chance.random() < 0.8:
            (top / name).write_text(chance.choice(CONTENTS))
    if chance.random() < 0.5:
        (top / "c").symlink_to("dir/a")


def acts(chance: random.Random) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for _ in range(chance.randint(1, 14)):
        one, other = chance.choice(NAMES), chance.choice(NAMES)
        found.append(
            chance.choice(
                [
                    ("write", one, chance.choice(CONTENTS), chance.choice(MODES)),
                    ("remove", one),
                    ("move", one, other),
                    ("mkdir", one),
                    ("link", other, one),
                    ("hard", one, other),
                    ("chmod", one, chance.choice((0o755, 0o700, 0o777))),
                    ("copy", one, other),
                ]
            )
        )
    return found


def turn(top: Path, seed: int) -> None:
    chance = random.Random(seed)
    with mounted(top, lambda lower: fill(chance, lower)) as box:
        for _ in range(2):  # what was applied is where the next one begins
            done = acts(chance)
            box.do(INSIDE.format(acts=done))
            found = changes(box.layer)
            seen = box.tree()
            assert found.conflicts == (), (seed, done, found.conflicts)
            applied = asyncio.run(found.apply())
            assert applied.skipped == ()
            assert tree(str(box.lower)) == seen, (seed, done)
            assert len(changes(box.layer)) == 0, (seed, done, changes(box.layer).changes)
        forget(box, acts(chance), seed)


def forget(box: Mounted, done: list[tuple[object, ...]], seed: int) -> None:
    """What is put back is what the host has, but for modes of directories."""
    box.do(INSIDE.format(acts=done))
    inside = DescriptorDir.at(box.inside)
    restore(look([box.layer]), [inside])
    inside.close()
    assert without_modes(box.tree()) == without_modes(tree(str(box.lower))), (seed, done)
    assert all(change.kind == "directory" and change.operation == "mode" for change in changes(box.layer)), (seed, done)


def without_modes(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {path: entry[:1] if entry[0] == "directory" else entry for path, entry in found.items()}


@pytest.mark.timeout(900)
def test_what_is_applied_is_what_is_seen(tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        turn(tmp_path / f"{seed}", seed)
