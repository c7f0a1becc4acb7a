"""Changes as text: readable, and inert whatever names and contents are."""

import pytest

from paddock.review import summary
from paddock.review.choice import chosen
from paddock.review.findings import Found
from paddock.types.review import EXECUTABLE, LEADS_OUT, Change

CHANGES = (
    Change("/workspace/Makefile", "update", "file", "file", 10, "ab", diff="", added=2, removed=1, flags=(EXECUTABLE,)),
    Change("/workspace/d", "create", "directory"),
    Change("/workspace/d/x", "create", "file", None, 2048, "cd"),
    Change("/workspace/empty", "create", "directory"),
    Change("/workspace/l", "link", "link", target="/etc", flags=(LEADS_OUT,)),
    Change("/workspace/new", "rename", "file", "file", 5, "ef", old_path="/workspace/old", mode=0o755, old_mode=0o644),
    Change(
        "/workspace/z", "delete", "file", "file", 5, "ef", conflict="It was changed on the host.", removed=1, diff=""
    ),
)


def test_a_summary() -> None:
    assert summary.plain(summary.lines(CHANGES)) == (
        "  ~ /workspace/Makefile  +2  -1\n"
        "      executable configuration changed: it is a list of commands to be run by name\n"
        "  + /workspace/d/x  2.0 KiB\n"
        "  + /workspace/empty/\n"
        "  @ /workspace/l -> /etc\n"
        "      link leads out\n"
        "  > /workspace/old -> /workspace/new  mode 644 -> 755\n"
        "  - /workspace/z  -1\n"
        "      It was changed on the host.\n"
        "2 created, 1 changed, 1 deleted, 1 renamed, 1 linked, 2 to look at twice, 1 in conflict with the host\n"
    )
    assert summary.headline(()) == "nothing changed"


def test_a_diff() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-- old\n+new\ttab\n same\n"
    change = Change("/workspace/x", "update", "file", "file", 8, "ab", diff=text, added=1, removed=1)
    lines = list(summary.diff(change))
    assert [line[0].style for line in lines[1:]] == ["heading", "heading", "faint", "removed", "added", "plain"]
    assert lines[5][0].text == "+new\ttab"
    binary = Change("/workspace/x", "update", "file", "file", 1, "ab")
    assert summary.plain(summary.diff(binary)) == "  ~ /workspace/x  1 byte\n1 byte, not shown as text\nsha256 ab\n"
    assert summary.plain(summary.diff(CHANGES[1])) == "  + /workspace/d/\n"


def test_nothing_acts_on_a_terminal() -> None:
    hostile = "\x1b[2J\r\u202e\u2066\x9b\x07\udcff"
    change = Change(
        f"/workspace/{hostile}\n+ forged",
        "update",
        "link",
        "file",
        target=hostile,
        old_path=hostile,
        diff=f"--- a\n+++ b\n@@ -1 +1 @@\n-{hostile}\n+\x85\u2028{hostile}\n",
        conflict=hostile,
        flags=(hostile,),
    )
    for lines in (summary.lines([change]), summary.diff(change)):
        for line in lines:
            for span in line:
                assert all(c.isprintable() or c == "\t" for c in span.text), span


@pytest.mark.timeout(60)
def test_deep_trees_are_told_in_the_time_of_their_names() -> None:
    paths, path = [], "/workspace"
    for _ in range(1000):
        path += "/" + "d" * 250
        paths.append(path)
    changes = [Change(path, "create", "directory") for path in paths]
    assert len(list(summary.lines(changes))) == 2
    found = tuple(Found(change, 0, change.path.removeprefix("/workspace/")) for change in changes)
    assert len(chosen(found, [paths[-1]])) == 1000
    assert len(chosen(found, [paths[500]])) == 1000
    assert len(chosen(found[:600], [paths[500]])) == 600


def test_sizes() -> None:
    assert [summary.size(n) for n in (0, 1, 1023, 1024, 1 << 20, 1 << 50)] == [
        "0 bytes",
        "1 byte",
        "1023 bytes",
        "1.0 KiB",
        "1.0 MiB",
        "1024.0 TiB",
    ]
