"""What can be read and written: the sandbox's own, and nothing of the host's."""

import os
from pathlib import Path

import pytest

from paddock import Limits, Mount, NotFoundError, OutsideError, QuotaExceededError, Sandbox
from paddock.state import state_directory
from security import inside
from security.resources import beside
from security.suite import NOT_THERE, REFUSED, Backend, Suite, ask, failed, not_refused

WRITABLE = {"/workspace", "/cache", "/tmp", "/home/agent", "/dev/shm"}
SOCKETS = "/run/paddock"
"""Also writable, for sockets: it holds next to nothing, and what is mounted in it stays."""
"""Every place where a command can put something."""


def entries_of_home() -> list[str]:
    """What is in the caller's home directory, but for what leads to the Python that runs this."""
    home, python = Path.home(), os.path.realpath(os.path.dirname(os.__file__))
    return [str(path) for path in home.iterdir() if not python.startswith(str(path))] if home.is_dir() else []


class FilesystemSecurity(Suite):
    """Reading and writing, by commands."""

    async def test_files_of_the_host_are_not_there(self, sb: Sandbox, tmp_path: Path, contained: bool) -> None:
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
            "/run/systemd",
            "/run/docker.sock",
            "/var/run/docker.sock",
            *entries_of_home(),
        ]
        systems = [
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
        ]
        hidden += [] if contained else systems  # which are an image's own there
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

    async def test_users_are_its_own(self, sb: Sandbox, contained: bool) -> None:
        names = {line.split(":")[0] for line in (await sb.exec("cat /etc/passwd")).stdout.splitlines()}
        assert names <= {"root", "nobody", "agent"}
        assert (await sb.exec("cat /etc/group | grep -c docker")).stdout == "0\n"
        if not contained:  # an image knows nothing of our users
            assert (await sb.exec("whoami")).stdout == "agent\n"

    async def test_only_known_places_are_writable(self, sb: Sandbox, contained: bool) -> None:
        mounts = await ask(sb, inside.mounts)
        writable = {mount["where"] for mount in mounts if "ro" not in mount["options"].split(",")}
        devices = {
            mount["where"] for mount in mounts if mount["where"].startswith("/dev/") and mount["kind"] != "tmpfs"
        }
        assert contained or writable - devices == WRITABLE | {SOCKETS, "/proc"}
        top = {f"/{name}" for name in await ask(sb, inside.list_directory, "/")}
        places = {*top, *(mount["where"] for mount in mounts), "/", "/home", "/run/paddock", "/usr/local", "/dev/pts"}
        ours = {place for place in places if place.startswith("/run/paddock/")}
        files = {mount["where"] for mount in mounts} & {*ours, *devices - {"/dev/pts"}}
        found = await ask(sb, inside.create_in, sorted(places - files))
        assert {place for place, word in found.items() if word == "ok"} == WRITABLE | {SOCKETS}
        others = {place: word for place, word in found.items() if place not in WRITABLE | {SOCKETS}}
        assert not_refused(others, NOT_THERE | ({"ENOTDIR"} if contained else set())) == {}

    async def test_programs_cannot_be_changed(self, sb: Sandbox) -> None:
        ours = [f"{SOCKETS}/init", f"{SOCKETS}/paddock-bridge"]
        found = await ask(sb, inside.open_to_write, ["/usr/bin/env", "/etc/passwd", *ours, "/bin/sh"])
        assert not_refused(found, REFUSED | {"ETXTBSY"}) == {}
        for path in ours:  # nor can another be put in its place
            for command in (f"rm -f {path}", f"mv {path} {SOCKETS}/other", f"ln -sf /bin/sh {path}"):
                assert (await sb.exec(command)).exit_code != 0
        assert (await sb.exec(f"touch {SOCKETS}/other && mv {SOCKETS}/other {SOCKETS}/mine")).exit_code == 0
        await sb.write("/workspace/tool", "#!/bin/sh\necho mine\n", mode=0o755)
        assert (await sb.exec("./tool")).stdout == "mine\n"

    async def test_no_mount_gives_rights(self, sb: Sandbox, contained: bool) -> None:
        """A set-uid program is an ordinary one, and a device that somebody smuggled in is none.

        An engine mounts without these options. There no process can gain rights, which others try; and its cgroup knows
        the devices, which only root could put there.
        """
        for mount in await ask(sb, inside.mounts):
            if contained and (mount["kind"] != "tmpfs" or mount["where"].startswith(("/dev", "/proc", "/sys"))):
                continue
            options = mount["options"].split(",")
            assert "nosuid" in options, mount
            assert "nodev" in options or mount["where"].startswith("/dev/"), mount

    async def test_every_writable_place_is_bounded(self, backend: Backend) -> None:
        size, more = 8 << 20, 32 << 20
        async with Sandbox.create(backend, limits=Limits(tmp=size, disk=size)) as sb, beside(backend):
            sizes = {mount["where"]: int(mount["size"]) for mount in await ask(sb, inside.mounts)}
            assert {sizes[place] for place in WRITABLE} == {size}
            for written, word in (await ask(sb, inside.fill, sorted(WRITABLE), more)).values():
                assert (0 < int(str(written)) <= size, word) == (True, "ENOSPC")
            assert sizes[SOCKETS] < 1 << 20
            ((written, word),) = (await ask(sb, inside.fill, [SOCKETS], more)).values()
            assert (int(str(written)) <= sizes[SOCKETS], word) == (True, "ENOSPC")
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
