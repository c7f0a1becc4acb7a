"""The Dockerfiles of images: what each says, and that what it says can be built and used."""

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from engines import images
from engines.daemon import Engine
from images.registry import serving
from paddock.runners import agents
from runners.conftest import INSTALLED, installed, replied_in

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "images"
WITHOUT = {
    "acp": "its program is the user's",
    "cursor": "it is installed by a script that gives whatever is newest",
    "scripted": "it comes with Paddock",
}
AGENTS = sorted(path.parent.name for path in PLACE.glob("*/Dockerfile") if path.parent.name != "base")
PINNED = re.compile(r"@\$VERSION\b|@\$VERSION-linux-")
WANTED = json.loads((ROOT / "requirements" / "agents" / "package.json").read_text())


def lines(name: str) -> list[str]:
    return (PLACE / name / "Dockerfile").read_text().splitlines()


def version(name: str) -> str:
    (found,) = [line.removeprefix("ARG VERSION=") for line in lines(name) if line.startswith("ARG VERSION=")]
    return found


def context(name: str) -> io.BytesIO:
    """All that a build may see."""
    return alone((PLACE / name / "Dockerfile").read_bytes())


def alone(dockerfile: bytes) -> io.BytesIO:
    file, info = io.BytesIO(), tarfile.TarInfo("Dockerfile")
    info.size = len(dockerfile)
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(info, io.BytesIO(dockerfile))
    file.seek(0)
    return file


def test_every_agent_with_a_program_has_one() -> None:
    assert set(agents()) - set(WITHOUT) <= set(AGENTS)
    assert not set(WITHOUT) & set(AGENTS)


@pytest.mark.parametrize("name", ["base", *AGENTS])
def test_what_each_says(name: str) -> None:
    said = lines(name)
    assert [line for line in said if line.startswith("USER")][-1] == said[-1] == "USER 1000:1000"
    for line in said:
        assert not re.search(r"latest|https?://|\bcurl .*\|", line), line
        if line.startswith("FROM"):
            assert re.fullmatch(r"FROM \$\{(BASE|NODE)\}( AS fetched)?", line)
        if line.startswith("ARG BASE=") and name != "base":
            assert line == "ARG BASE=paddock/base"
        elif line.startswith(("ARG BASE=", "ARG NODE=")):
            assert re.search(r":[0-9][0-9.]*-slim$", line), "a version of it"


@pytest.mark.parametrize("name", AGENTS)
def test_versions_are_those_of_the_tests(name: str) -> None:
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version(name))
    packages = {**WANTED["dependencies"], **WANTED["optionalDependencies"]}
    tested = [wanted for package, wanted in packages.items() if name in package]
    assert tested
    assert all(version(name) in re.split("[@-]", wanted) for wanted in tested), tested
    (install,) = [line for line in lines(name) if "npm install" in line]
    assert PINNED.search(install)
    assert "--ignore-scripts" in install


STAND_IN = rb"""FROM python
RUN for name in apt-get useradd; do \
    printf '#!/bin/sh\necho "${0##*/} $*" >> /log\n' > /usr/bin/$name && chmod 755 /usr/bin/$name; done
"""


def test_the_base_is_built(docker_engine: Engine) -> None:
    """With programs that write down what Debian's would do; a soak has a Debian."""
    api = docker_engine.api
    api.build("stand-in", alone(STAND_IN))
    api.build("paddock/base-of-stand-ins", context("base"), BASE="stand-in")
    said = api.run("paddock/base-of-stand-ins", "sh", "-c", "pwd; id -u; cat /log").splitlines()
    assert said[:3] == ["/workspace", "1000", "apt-get update"]
    assert said[3].startswith("apt-get install --yes --no-install-recommends bash ")
    assert said[4].startswith("useradd --uid 1000 ")


@pytest.fixture
def engine(docker_engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """One with an image `node`, in which npm is."""
    installed("claude", monkeypatch)
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    images.make("node", tmp_path / "node.tar")
    images.load(docker_engine.api, "node", tmp_path / "node.tar")
    return docker_engine


@pytest.mark.timeout(600)
def test_each_is_built(engine: Engine) -> None:
    """On a base of this host's files, which takes seconds to load, with the packages that the tests have."""
    for name in AGENTS:
        with serving(INSTALLED / "node_modules") as registry:
            engine.api.build(f"paddock/{name}", context(name), NODE="node", BASE="node", NPM_CONFIG_REGISTRY=registry)
        about = engine.api.json("GET", f"/images/paddock/{name}/json")
        assert about["Config"]["User"] == "1000:1000"
        assert version(name) in engine.api.run(f"paddock/{name}", "sh", "-c", f"HOME=/tmp {name} --version")


@pytest.fixture
def debian(engine: Engine, tmp_path: Path) -> str:
    """A real one, small."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    root = tmp_path / "root.tar"
    made = subprocess.run(["mmdebstrap", "--variant=apt", "bookworm", root], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"there is no Debian to be had: {made.stderr[-300:]}")
    with root.open("rb") as file:
        engine.api.import_image("debian", file, {"ENV": "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
    return "debian"


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_all_are_built_and_run(engine: Engine, debian: str) -> None:
    """With packages of the registries that this machine is configured for."""
    api, arguments = engine.api, {"NODE": "node", "BASE": "paddock/base"}
    if registry := os.environ.get("NPM_CONFIG_REGISTRY"):
        arguments["NPM_CONFIG_REGISTRY"] = registry
    api.build("paddock/base", context("base"), BASE=debian)
    tools = "git --version && curl --version && jq --version && python3 --version && rg --version && id"
    assert "uid=1000(agent)" in api.run("paddock/base", "sh", "-c", tools)
    for name in AGENTS:
        api.build(f"paddock/{name}", context(name), **arguments)
        assert version(name) in api.run(f"paddock/{name}", "sh", "-c", f"HOME=/tmp {name} --version")
    assert await replied_in(engine, "paddock/claude") == "Done."
