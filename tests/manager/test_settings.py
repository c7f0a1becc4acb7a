"""What a manager is told: which source wins, and errors that name it."""

from pathlib import Path
from typing import Any

import pytest

from manager.fakes import FakeClock, World
from paddock import ConfigError, Manager, UnavailableError

VARIABLES = {
    "PADDOCK_MANAGER_MAX": ("max_total", "7", 7),
    "PADDOCK_MANAGER_MAX_PER_USER": ("max_per_user", "2", 2),
    "PADDOCK_MANAGER_POLICY": ("policy", "persistent", "persistent"),
    "PADDOCK_IDLE_TIMEOUT": ("idle_timeout", "5m", 300),
    "PADDOCK_MANAGER_STOP_AFTER": ("stop_after", "none", None),
    "PADDOCK_MANAGER_LIFETIME": ("lifetime", "1d", 86400),
    "PADDOCK_MANAGER_ONESHOT_LIFETIME": ("oneshot_lifetime", "1h", 3600),
    "PADDOCK_MANAGER_RETENTION": ("retention", "30d", 30 * 86400),
    "PADDOCK_MANAGER_CLEAN_AT": ("clean_at", "none", None),
    "PADDOCK_MANAGER_SWEEP_EVERY": ("sweep_every", "5", 5),
    "PADDOCK_MANAGER_QUOTA": ("quota", "1g", 1 << 30),
}
DEFAULTS = {
    "max_total": 100,
    "max_per_user": None,
    "policy": "oneshot",
    "idle_timeout": 1800,
    "stop_after": 7200,
    "lifetime": 7 * 86400,
    "oneshot_lifetime": 8 * 3600,
    "retention": 7 * 86400,
    "clean_at": "03:00",
    "sweep_every": 30,
    "quota": None,
    "grace": 300,
}


def held(m: Manager) -> dict[str, Any]:
    return {name: getattr(m._settings, name) for name in DEFAULTS}


def test_defaults() -> None:
    assert held(Manager()) == DEFAULTS


def test_variables_beat_files_and_arguments_beat_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config/paddock/paddock.toml"
    file.parent.mkdir(parents=True)
    file.write_text('manager_max = 3\nidle_timeout = "1m"\nmanager_quota = "1m"\n')
    assert held(Manager()) == DEFAULTS | {"max_total": 3, "idle_timeout": 60, "quota": 1 << 20}
    for variable, (_, text, _) in VARIABLES.items():
        monkeypatch.setenv(variable, text)
    assert held(Manager()) == DEFAULTS | {name: value for name, _, value in VARIABLES.values()}
    given = Manager(max_total=9, idle_timeout=None, clean_at="23:59", policy="session", quota=5, max_per_user=8)
    assert (held(given)["max_total"], held(given)["idle_timeout"], held(given)["clean_at"]) == (9, None, "23:59")
    assert (held(given)["policy"], held(given)["quota"], held(given)["max_per_user"]) == ("session", 5, 8)


async def test_a_state_that_is_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"Set state= to"):
        await Manager("/etc/passwd").open()
    monkeypatch.setenv("PADDOCK_STATE", "/etc/passwd")
    with pytest.raises(UnavailableError, match=r"Set PADDOCK_STATE to") as raised:
        await Manager().open()
    assert "Not a directory" in raised.value.message


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_that_makes_no_sense_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("nonsense", "-1", "0"):
        monkeypatch.setenv(variable, text)
        with pytest.raises(ConfigError, match=f"{variable}='"):
            Manager()
    monkeypatch.setenv(variable, VARIABLES[variable][1])
    Manager()


@pytest.mark.parametrize(
    "given",
    [
        {"max_total": 0},
        {"max_total": True},
        {"max_per_user": -1},
        {"max_total": 1.5},
        {"idle_timeout": 0},
        {"retention": float("nan")},
        {"clean_at": "3:00"},
        {"clean_at": "24:00"},
        {"grace": 0},
        {"quota": 0},
        {"policy": "forever"},
        {"state": ""},
        {"name": "x"},
        {"detached": True},
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(given)) if given != {"state": ""} else "path"):
        Manager(**given)


async def test_a_project_cannot_set_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paddock.toml").write_text("manager_max = 1000000\n")
    with pytest.raises(ConfigError, match="a project's file cannot set 'manager_max'"):
        Manager()


async def test_where_it_is_kept(world: World, clock: FakeClock, tmp_path: Path) -> None:
    async with Manager(tmp_path / "mine", backend="fake", clock=clock) as m, m.get_or_create("alice", "chat") as lease:
        (info,) = await m.workspaces()
        assert info.path.startswith(str(tmp_path / "mine/manager/workspaces/alice-chat.ws-"))
        assert (tmp_path / "mine/manager").stat().st_mode & 0o777 == 0o700
        await lease.sandbox.write("f", "x")
        assert Path(info.path, "f").stat().st_mode & 0o777 == 0o644
        assert sorted(path.name for path in Path(info.path).parent.iterdir()) == [
            ".lock",
            ".workspace.json",
            "cache",
            "workspace",
        ]
        assert await lease.sandbox.list("/workspace") == ["f"]
    assert repr(m).endswith("(closed)>")
