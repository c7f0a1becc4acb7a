"""Engines as backends: what the suites run on, and what they do not expect of each."""

import pytest

from engines.daemon import Engine
from paddock.backends.docker import Docker
from paddock.errors import UnavailableError

CONTAINED = ("docker", "gvisor")
"""Podman and a remote engine are tried by tests of their own: the code is the same from the channel on."""

_ROOTS_OWN = "gVisor's file server is root, whom an id-mapped mount of root's files does not know"
_SLOW = "minutes in gVisor, where each call goes through two processes; the same code as elsewhere"
_ROOTS = (
    *("test_sandboxed", "test_sandboxed_by_default_name", "test_direct", "test_workspace_alone_has_no_cache"),
    *("test_more_mounts", "test_a_mount_with_rules", "test_git_directory_is_protected"),
    *("test_the_state_directory_stays_out", "test_private_leaves_nothing"),
    "test_a_create_that_fails_leaves_no_directory",
    *("test_races", "test_set_uid_programs_give_nothing", "test_no_set_uid_file_on_the_host"),
    *("test_mounts_over_the_system", "test_mounts_where_commands_can_write", "test_git_of_a_direct_workspace"),
    *("test_a_twin_beside_the_workspace", "test_owners_on_the_host[0]"),
)
_UNSEEN = "no process of gVisor's is one of the host's, so that it could be looked for there"
_COUNTED = "the engine's cgroup counts gVisor's own threads and memory: where it is full the whole sandbox ends"
_OTHERWISE = {
    "test_every_process_is_locked_in": "it does not tell of a process that it can gain no rights",
    "test_the_first_process_is_out_of_reach": "its user may look at its descriptors, and at its environment",
    "test_settings_of_the_kernel": "there is nothing of the host's to cover: all settings are its own",
    "test_every_namespace_is_its_own": "it has fewer kinds of them",
    "test_a_session_and_names_of_its_own": "it has another error for a terminal that is not there",
    "test_allowed_calls": "it has not got all of them",
    "test_other_machines": "it takes the number of a call of i386 for one of its own, which the filter then looks at",
    "test_devices": "it has two more, of its own",
    "test_no_mount_gives_rights": "it does not tell of a mount that it gives no rights",
    "test_owners_on_the_host[1000]": "its `stat` cannot look at directories of the host",
    "test_deep_and_closed": "its `ls` cannot look at directories of the image",
}
"""What gVisor's own kernel answers otherwise, and why that is no harm. A later one may answer as Linux does."""
_EXCUSED = {
    "gvisor": {
        "test_keys_of_a_terminal": "gVisor's terminals before 2023 make no signals of keys: tried without Paddock, too",
        "test_deep": _SLOW,
        "test_a_directory_of_100_000": _SLOW,
        "test_a_slow_listener_is_told": _SLOW,
        "test_one_line_of_a_gibibyte": _SLOW,
    }
    | dict.fromkeys(
        (
            *("test_a_fork_bomb", "test_daemons_and_stopped_processes", "test_what_a_command_leaves_lives_on"),
            *("test_never_root_on_the_host", "test_no_environment_of_the_host"),
            "test_the_supervisor_has_no_environment",
        ),
        _UNSEEN,
    )
    | dict.fromkeys(
        (
            *("test_processes_are_counted", "test_limits_of_each_process", "test_defaults_hold_too"),
            *("test_a_memory_hog", "test_full_places_in_memory_leave_room", "test_the_best_that_can_be_had"),
        ),
        _COUNTED,
    )
}


def contained(request: pytest.FixtureRequest, name: str) -> Docker:
    """The backend of this name; its engine is started if it is the first that wants it."""
    engine: Engine = request.getfixturevalue("docker_engine")
    request.getfixturevalue("monkeypatch").setenv("PADDOCK_IMAGE", "python")
    runtime = request.getfixturevalue("gvisor") if name == "gvisor" else None
    return Docker(runtime=runtime, socket=engine.socket)


def excused(request: pytest.FixtureRequest, name: str) -> None:
    """Skip what is not expected there, and say why."""
    test: str = request.node.originalname
    if name == "gvisor" and {test, request.node.name} & {*_ROOTS}:
        request.applymarker(pytest.mark.xfail(reason=_ROOTS_OWN, raises=UnavailableError, strict=True))
    if name == "gvisor" and (reason := _OTHERWISE.get(test) or _OTHERWISE.get(request.node.name)):
        request.applymarker(pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True))
    if reason := _EXCUSED.get(name, {}).get(test):
        pytest.skip(reason)
