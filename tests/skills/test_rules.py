"""What a skill has to be like: each rule, and beside it what just keeps it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock import ConfigError, Skill, load_skill, load_skills, skills_prompt
from skills.making import DESCRIPTION, skill


def test_all_of_it(tmp_path: Path) -> None:
    folder = skill(
        tmp_path,
        "pdf-forms",
        "name: pdf-forms",
        "description: >-",
        "  Fills forms.",
        "  Use it for PDFs.",
        "license: Apache-2.0",
        "compatibility: Needs poppler",
        "metadata:",
        "  author: somebody",
        "  version: 1.0",
        "allowed-tools: Bash(git commit:*) Read, Edit",
    )
    found = load_skill(folder)
    assert found == Skill(
        name="pdf-forms",
        description="Fills forms. Use it for PDFs.",
        path=str(folder),
        license="Apache-2.0",
        compatibility="Needs poppler",
        metadata={"author": "somebody", "version": "1.0"},
        allowed_tools=("Bash(git commit:*)", "Read", "Edit"),
    )
    assert found.summary == "pdf-forms: Fills forms. Use it for PDFs."
    assert Skill.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("a", "", "line 2: name: it is empty"),
        ("a" * 64, "a" * 65, "line 2: name: it has 65 characters"),
        ("pdf-forms", "PDF-forms", "line 2: name: 'PDF-forms' has capital letters"),
        ("pdf2", "pdf_2", "line 2: name: 'pdf_2' has other characters than letters, digits and hyphens"),
        ("a-b", "'a b'", "'a b' has other characters"),
        ("a-b", "a/b", "'a/b' has other characters"),
        ("a-b", "-a", "line 2: name: '-a' has a hyphen at an end, or two in a row"),
        ("a-b", "a-", "'a-' has a hyphen at an end"),
        ("a-b", "a--b", "'a--b' has a hyphen at an end, or two in a row"),
        ("a-b", "other", "line 2: name: 'other' is not the name of its folder, 'skill'"),
        ("42", "[a]", "line 2: name: a list is not text"),
        ("übersetzen", "Übersetzen", "has capital letters"),
    ],
)
def test_name(tmp_path: Path, good: str, bad: str, said: str) -> None:
    assert load_skill(skill(tmp_path, good)).name == good
    wrong = skill(tmp_path, "skill", f"name: {bad}", DESCRIPTION)
    with pytest.raises(ConfigError) as told:
        load_skill(wrong)
    assert str(told.value).startswith(f"{wrong}/SKILL.md, line 2: ")
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("description: " + "x" * 1024, "description: " + "x" * 1025, "line 3: description: it has 1025 characters"),
        ("description: x", "description: ' '", "line 3: description: it is empty"),
        ("description: 'Use it when: x'", "description: Use it when: x", "line 3: mapping values are not allowed"),
        ("description: x", "descripton: x", "descripton: there is no such key here. Did you mean 'description'?"),
        ("description: x", "license: MIT", "line 2: description is missing"),
        (
            f"{DESCRIPTION}\ncompatibility: " + "x" * 500,
            f"{DESCRIPTION}\ncompatibility: " + "x" * 501,
            "501 characters",
        ),
        (f"{DESCRIPTION}\ncompatibility: x", f"{DESCRIPTION}\ncompatibility: ''", "line 4: compatibility: it is empty"),
        (f"{DESCRIPTION}\nlicense: MIT", f"{DESCRIPTION}\nlicense: [MIT]", "line 4: license: a list is not text"),
        (f"{DESCRIPTION}\nmetadata: {{a: 1}}", f"{DESCRIPTION}\nmetadata: 1", "line 4: metadata: '1' is not a mapping"),
        (
            f"{DESCRIPTION}\nmetadata:\n  a: b",
            f"{DESCRIPTION}\nmetadata:\n  a:\n    b: c",
            "line 5: metadata.a: it is not text",
        ),
        (f"{DESCRIPTION}\nmetadata:", f"{DESCRIPTION}\nmetadata: []", "line 4: metadata: a list is not a mapping"),
        (f"{DESCRIPTION}\nallowed-tools: []", f"{DESCRIPTION}\nallowed-tools: {{a: b}}", "allowed-tools: a mapping is"),
        (
            f"{DESCRIPTION}\nallowed-tools: [a]",
            f"{DESCRIPTION}\nallowed-tools: [[a]]",
            "allowed-tools[0]: a list is not",
        ),
        (
            f"{DESCRIPTION}\nallowed-tools: Bash(rm:*)",
            f"{DESCRIPTION}\nallowed-tools: Bash(rm *",
            "line 4: allowed-tools: there is a parenthesis without the other one",
        ),
        (f"{DESCRIPTION}\nlicense: MIT", f"{DESCRIPTION}\nversion: 1", "line 4: version: there is no such key here"),
        (
            f"{DESCRIPTION}\nlicense: a",
            f"{DESCRIPTION}\nlicense: a\nlicense: b",
            "line 5: license: it is there already",
        ),
    ],
)
def test_frontmatter(tmp_path: Path, good: str, bad: str, said: str) -> None:
    assert load_skill(skill(tmp_path, "one", "name: one", good)).name == "one"
    with pytest.raises(ConfigError) as told:
        load_skill(skill(tmp_path, "one", "name: one", bad))
    assert str(tmp_path / "one/SKILL.md") in str(told.value)
    assert said in str(told.value)
    assert told.value.hint


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read Edit", ("Read", "Edit")),
        ("Read,Edit,  Bash", ("Read", "Edit", "Bash")),
        ("Bash(a b, c) Bash(echo $(x y))", ("Bash(a b, c)", "Bash(echo $(x y))")),
        ("[Read, 'Bash(a, b)']", ("Read", "Bash(a, b)")),
        ("", ()),
    ],
)
def test_tools(tmp_path: Path, written: str, tools: tuple[str, ...]) -> None:
    """Half of a rule would be another rule: what is in parentheses stays together."""
    lines = ("name: one", DESCRIPTION, f"allowed-tools: {written}")
    assert load_skill(skill(tmp_path, "one", *lines)).allowed_tools == tools


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# A skill", "line 1: there is no frontmatter"),
        (b"\n---\nname: one\n---\n", "line 1: there is no frontmatter"),
        (b"---\nname: one\n", "line 3: the frontmatter does not end"),
        (b"---\n- one\n---\n", "line 2: a list is not a mapping"),
        (b"---\n---\n", "name is missing"),
        (b"---\nname: \xff\n---\n", "is not UTF-8"),
        (b"---\nname: one\n---\n" + b"x" * (1 << 20), "is larger than such a file can be"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: bytes, said: str) -> None:
    folder = skill(tmp_path, "one")
    assert load_skill(folder)
    (folder / "SKILL.md").write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load_skill(folder)


def test_files_of_other_systems(tmp_path: Path) -> None:
    folder = skill(tmp_path, "one")
    (folder / "SKILL.md").write_bytes(
        b"\xef\xbb\xbf---\r\nname: one\r\ndescription: x\r\n--- \r\ntext --- text\r\n---\r\n"
    )
    assert load_skill(folder).description == "x"


def test_which_file(tmp_path: Path) -> None:
    folder = skill(tmp_path, "one", "name: one", "description: lower", file="skill.md")
    assert load_skill(folder).description == "lower"
    skill(tmp_path, "one", "name: one", "description: upper")
    assert load_skill(folder).description == "upper"
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match=r"none' has no SKILL.md"):
        load_skill(tmp_path / "none")
    with pytest.raises(ConfigError, match="missing' is not a directory"):
        load_skill(tmp_path / "missing")


def test_links(tmp_path: Path) -> None:
    """A folder may be somewhere else; its file is in it."""
    folder = skill(tmp_path / "store", "one-2.0", "name: one", DESCRIPTION)
    (tmp_path / "one").symlink_to(folder)
    assert load_skill(tmp_path / "one").path == str(folder)
    (folder / "text.md").write_bytes((folder / "SKILL.md").read_bytes())
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to("text.md")
    assert load_skill(tmp_path / "one").name == "one"
    (folder / "text.md").rename(tmp_path / "text.md")
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to(tmp_path / "text.md")
    with pytest.raises(ConfigError, match="a link that leads out of its folder"):
        load_skill(tmp_path / "one")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    os.mkfifo(tmp_path / "one/SKILL.md")
    with pytest.raises(ConfigError, match="is not a file"):
        load_skill(tmp_path / "one")


def test_a_folder_of_them(tmp_path: Path) -> None:
    assert load_skills(tmp_path / "skills") == []
    for name in ("b", "a", "c"):
        skill(tmp_path / "skills", name)
    (tmp_path / "skills/README.md").write_text("x")
    (tmp_path / "skills/.git").mkdir()
    assert [one.name for one in load_skills(tmp_path / "skills")] == ["a", "b", "c"]
    (tmp_path / "skills/b/SKILL.md").unlink()
    with pytest.raises(ConfigError, match=r"skills/b' has no SKILL\.md"):
        load_skills(tmp_path / "skills")
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        load_skills(tmp_path / "skills/README.md")


def test_where_one_is_meant_and_this_is_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(skill(tmp_path, "here"))
    assert load_skill(".").name == "here"


def test_what_a_prompt_is_told(tmp_path: Path) -> None:
    one = load_skill(skill(tmp_path, "one", "name: one", "description: a < b & c </skill>"))
    assert skills_prompt([one], "/home/agent/skills") == (
        "<available_skills>\n<skill>\n<name>one</name>\n"
        "<description>a &lt; b &amp; c &lt;/skill&gt;</description>\n"
        "<location>/home/agent/skills/one/SKILL.md</location>\n</skill>\n</available_skills>"
    )
    assert skills_prompt([], "/home/agent/skills") == ""


def paddock(*words: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "paddock", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_on_the_command_line(tmp_path: Path) -> None:
    host = tmp_path / "host"
    skill(host, "good", "name: good", "description: |", "  Two", "  lines \u202e")
    bad = skill(host, "bad", "name: Bad", DESCRIPTION)
    code, out, _ = paddock("skills", "check", str(host))
    assert code == 1
    told = out.splitlines()
    assert told[0].startswith(f"{bad}: {bad}/SKILL.md, line 2: name: 'Bad' has capital letters. Use lower-case")
    assert told[1] == f"{host}/good: ok"
    assert paddock("skills", "check", str(host / "good"))[:2] == (0, f"{host}/good: ok\n")
    code, out, _ = paddock("skills", "check", "--json", str(bad))
    assert (code, json.loads(out)["skills"][0]["path"]) == (1, str(bad))
    (bad / "SKILL.md").unlink()
    bad.rmdir()
    assert paddock("skills", "list", str(host))[1] == "NAME  DESCRIPTION\ngood  Two lines \\u202e\n"
    code, out, _ = paddock("skills", "list", str(host), "--json")
    assert [one["name"] for one in json.loads(out)["skills"]] == ["good"]
    code, out, error = paddock("skills", "list", str(host / "none"))
    assert (code, out) == (0, "")
    assert error.startswith("There are no skills in ")
