"""What can be read and written: the sandbox's own, and nothing of the host's."""

import os
from pathlib import Path

import pytest

from paddock import Limits, Mount, NotFoundError, OutsideError, QuotaExceededError, Sandbox
from paddock.state import state_directory
from security import inside
from security.suite import NOT_THERE, REFUSED, Backend, Suite, ask, failed, not_refused

WRITABLE = {"/workspace", "/cache", "/tmp", "/home/agent", "/dev/shm"}
"""Every place where a command can put something."""


def entries_of_home() -> list[str]:
    """What is in the caller's home directory, but for what leads to the Python that runs this."""
    home, python = Path.home(), os.path.realpath(os.path.dirname(os.__file__))
    return [str(path) for path in home.iterdir() if not python.startswith(str(path))] if home.is_dir() else []


class FilesystemSecurity(Suite):
    """Reading and writing, by commands."""

    async def test_files_of_the_host_are_not_there(self, sb: Sandbox, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("secret")
        hidden = [
            str(secret),
            f"/proc/self/root{secret}",
            f"/proc/self/cwd/../..{secret}",
            f"/proc/1/root{secret}",
            f"/workspace/../..{secret}",
            str(Path(__file__)),
            str(state_directory()),
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/sudoers",
            "/etc/machine-id",
            "/etc/ssh",
            "/etc/crontab",
            "/var/log",
            "/var/lib",
            "/var/run",
            "/boot",
            "/mnt",
            "/srv",
            "/sys/class",
            "/run/systemd",
            "/run/docker.sock",
            *entries_of_home(),
        ]
        assert not_refused(await ask(sb, inside.read, hidden), NOT_THERE) == {}
        await sb.write("/workspace/mine", "x")
        own = [
            "/workspace/mine",
            "/etc/passwd",
            "/usr/bin/env",
            "/",
            "/usr/bin",
            "/tmp",
            "/proc/self/root/workspace/mine",
        ]
        assert failed(await ask(sb, inside.read, own)) == {}

    async def test_users_are_its_own(self, sb: Sandbox) -> None:
        names = {line.split(":")[0] for line in (await sb.exec("cat /etc/passwd")).stdout.splitlines()}
        assert names <= {"root", "nobody", "agent"}
        assert (await sb.exec("cat /etc/group | grep -c docker")).stdout == "0\n"
        assert (await sb.exec("whoami")).stdout == "agent\n"

    async def test_only_known_places_are_writable(self, sb: Sandbox) -> None:
        mounts = await ask(sb, inside.mounts)
        writable = {mount["where"] for mount in mounts if "ro" not in mount["options"].split(",")}
        devices = {
            mount["where"] for mount in mounts if mount["where"].startswith("/dev/") and mount["kind"] != "tmpfs"
        }
        assert writable - devices == WRITABLE | {"/proc"}
        top = {f"/{name}" for name in await ask(sb, inside.list_directory, "/")}
        places = {*top, *(mount["where"] for mount in mounts), "/", "/home", "/run/paddock", "/usr/local", "/dev/pts"}
        files = {mount["where"] for mount in mounts} & {"/run/paddock/init", *devices - {"/dev/pts"}}
        found = await ask(sb, inside.create_in, sorted(places - files))
        assert {place for place, word in found.items() if word == "ok"} == WRITABLE
        others = {place: word for place, word in found.items() if place not in WRITABLE}
        assert not_refused(others, NOT_THERE) == {}

    async def test_programs_cannot_be_changed(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.open_to_write, ["/usr/bin/env", "/etc/passwd", "/run/paddock/init", "/bin/sh"])
        assert not_refused(found, REFUSED | {"ETXTBSY"}) == {}
        await sb.write("/workspace/tool", "#!/bin/sh\necho mine\n", mode=0o755)
        assert (await sb.exec("./tool")).stdout == "mine\n"

    async def test_no_mount_gives_rights(self, sb: Sandbox) -> None:
        """A set-uid program is an ordinary one, and a device that somebody smuggled in is none."""
        for mount in await ask(sb, inside.mounts):
            options = mount["options"].split(",")
            assert "nosuid" in options, mount
            assert "nodev" in options or mount["where"].startswith("/dev/"), mount

    async def test_every_writable_place_is_bounded(self, backend: Backend) -> None:
        size, more = 8 << 20, 32 << 20
        async with Sandbox.create(backend, limits=Limits(tmp=size, disk=size)) as sb:
            sizes = {mount["where"]: int(mount["size"]) for mount in await ask(sb, inside.mounts)}
            assert {sizes[place] for place in WRITABLE} == {size}
            for written, word in (await ask(sb, inside.fill, sorted(WRITABLE), more)).values():
                assert (0 < int(str(written)) <= size, word) == (True, "ENOSPC")
            for place in sorted(WRITABLE - {"/dev/shm"}):
                with pytest.raises(QuotaExceededError):
                    await sb.write(f"{place}/large", bytes(more))
                await sb.write(f"{place}/small", "fits")
                assert await sb.list(place) == ["small"]

    async def test_by_default_memory_is_bounded(self, sb: Sandbox) -> None:
        sizes = {
            mount["where"]: int(mount["size"]) for mount in await ask(sb, inside.mounts) if mount["kind"] == "tmpfs"
        }
        assert {sizes[place] for place in sizes if place in WRITABLE} == {1 << 30}

    async def test_a_twin_beside_the_workspace(self, backend: Backend, tmp_path: Path) -> None:
        """`/ws-evil` begins with the same letters as `/ws`, and is another directory."""
        for name in ("ws", "ws-evil"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "f").write_text(name)
        async with Sandbox.create(
            backend, workspace=tmp_path / "ws", mounts=[Mount(tmp_path / "ws-evil", "/ws-twin")]
        ) as sb:
            found = await ask(sb, inside.create_in, ["/ws-twin", "/workspace-evil", str(tmp_path / "ws-evil")])
            assert not_refused(found, NOT_THERE) == {}
            for path in ("/workspace-evil/f", "/workspace/../ws-evil/f", "../ws-evil/f", str(tmp_path / "ws-evil/f")):
                with pytest.raises((OutsideError, NotFoundError)):
                    await sb.read(path)
            assert (await sb.read("f"), await sb.read("/ws-twin/f")) == ("ws", "ws-evil")
            assert failed(await ask(sb, inside.create_in, ["/workspace"])) == {}
        assert sorted(os.listdir(tmp_path / "ws-evil")) == ["f"]
