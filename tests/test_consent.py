"""Consent: a host's own call, a policy, a person's approval that is good for one content, once; and never a model's."""

import asyncio
import os
import pty
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

from paddock import consent
from paddock.asking import forget_typed
from paddock.audit import EventBus
from paddock.consent import ApprovalPolicy, Consent, begun_by, offer
from paddock.errors import ConfigError, NotAuthorizedError
from paddock.types.consent import ApprovalRequest
from test_cli_review import talk_to


def policy(chosen: Any = None) -> Consent:
    assert consent.check_policy(chosen)
    return Consent(chosen, EventBus("sb", None))


async def asked(chosen: Any = None, action: str = "push", approval: Any = None, digest: str = "d1") -> bool:
    try:
        await policy(chosen).ask(action, "repo main", digest, "one file", approval)
    except NotAuthorizedError:
        return False
    return True


async def test_a_call_of_the_host_is_its_own_consent() -> None:
    assert await asked()
    assert await asked("approve-all")
    assert not await asked("deny-all")


async def test_a_function_is_asked_with_what_it_is_about() -> None:
    seen: list[ApprovalRequest] = []

    async def later(request: ApprovalRequest) -> bool:
        seen.append(request)
        return request.digest == "d1"

    assert await asked(later)
    assert not await asked(later, digest="d2")
    assert (seen[0].action, seen[0].subject, seen[0].initiator) == ("push", "repo main", "host")
    assert seen[0].nonce != seen[1].nonce
    assert not await asked(lambda _: "yes"), "only True is a yes"
    assert await asked(lambda _: True)


@pytest.mark.parametrize("chosen", [None, "approve-all", lambda _: True])
@pytest.mark.parametrize("action", sorted(consent.NEVER_BY_A_MODEL))
async def test_a_model_never_begins_what_leaves_the_sandbox(chosen: Any, action: str) -> None:
    with begun_by("model"):
        assert not await asked(chosen, action)
        assert not await asked(chosen, action, offer(action, "repo main", "d1"))
        with begun_by("person"):
            assert not await asked(chosen, action), "a call inside a model's call is still the model's"
    assert await asked(chosen, action)


async def test_a_model_asks_for_the_rest() -> None:
    with begun_by("model"):
        assert not await asked(None, "stage")
        assert await asked("approve-all", "stage")
        assert not await asked("deny-all", "stage")


async def test_an_approval_is_good_once_and_for_one_content() -> None:
    approval = offer("push", "repo main", "d1")
    assert not await asked("deny-all", approval=offer("push", "repo main", "other"))
    assert not await asked("deny-all", approval=offer("push", "other main", "d1"))
    assert not await asked("deny-all", approval=offer("apply", "repo main", "d1"))
    assert not await asked("deny-all", approval=offer("push", "repo main", "d1", seconds=-1))
    assert await asked("deny-all", approval=approval)
    assert not await asked("deny-all", approval=approval)
    assert not await asked("approve-all", approval=approval.nonce), "one that was used is an error, whatever the policy"


@pytest.mark.parametrize("nonce", ["", "..", "../x", "nobody", "a/b", "\0"])
async def test_what_was_never_offered(nonce: str) -> None:
    assert not await asked("approve-all", approval=nonce)


async def test_of_many_who_use_one_at_once_one_does() -> None:
    approval = offer("push", "repo main", "d1")
    request = ApprovalRequest("push", "repo main", "d1", "n", "s")
    won: list[int] = []
    gate = threading.Barrier(8)

    def use(number: int) -> None:
        gate.wait()
        try:
            consent.take(approval, request)
        except NotAuthorizedError:
            return
        won.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


async def test_every_answer_is_an_event() -> None:
    bus = EventBus("sb", None)
    async with bus.listen() as events:
        await Consent(None, bus).ask("push", "repo", "d", "s")
        with pytest.raises(NotAuthorizedError), begun_by("model"):
            await Consent("approve-all", bus).ask("push", "repo", "d", "s")
        first, second = await anext(events), await anext(events)
    assert (first.kind, first.operation, first.outcome, first.initiator) == ("approval", "push", "ok", "host")
    assert (second.outcome, second.initiator) == ("NOT_AUTHORIZED", "model")
    assert second.denied


async def test_an_error_of_a_function_is_no_consent() -> None:
    def broken(_: ApprovalRequest) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asked(broken)


async def test_a_rule_decides_before_anybody_is_asked() -> None:
    asked_about: list[str] = []

    def yes(request: ApprovalRequest) -> bool:
        asked_about.append(request.action)
        return True

    rules = ApprovalPolicy(yes, {"write": "allowed", "delete": "blocked", "stage": "ask"})
    with begun_by("model"):
        assert await asked(rules, "write")
        assert not await asked(rules, "delete")
        assert not await asked(rules, "delete", offer("delete", "repo main", "d1"))
        assert await asked(rules, "stage")
        assert await asked(rules, "other")
    assert asked_about == ["stage", "other"]
    with begun_by("model"):
        assert not await asked(ApprovalPolicy(yes, {"push": "allowed"}), "push")


async def test_a_yes_for_the_session_is_for_the_same_again() -> None:
    times = 0

    def once(_: ApprovalRequest) -> Literal["session"]:
        nonlocal times
        times += 1
        return "session"

    same = policy(once)
    for _ in range(3):
        await same.ask("stage", "repo main", "d1", "s")
    assert times == 1
    await same.ask("stage", "repo main", "d2", "s")
    with begun_by("model"):
        await same.ask("stage", "repo main", "d1", "s")
    assert times == 3
    for _ in range(2):
        await same.ask("push", "repo main", "d1", "s")
    assert times == 5, "what leaves is asked about every time"


@pytest.mark.parametrize("wrong", ["Model", "llm", "", None])
async def test_nobody_that_is_known(wrong: Any) -> None:
    """A wrong word for a model would be a way out of its call."""
    with pytest.raises(ConfigError, match="begins"), begun_by(wrong):
        await asked()


async def test_a_models_call_is_one_in_its_tasks_and_threads() -> None:
    async def beside() -> bool:
        return await asked("approve-all")

    with begun_by("model"), begun_by("host"):
        here = asyncio.create_task(beside())
        there = asyncio.to_thread(lambda: asyncio.run(beside()))
        assert [await here, await there] == [False, False]
    assert await beside()


@pytest.mark.parametrize("wrong", [{"write": "yes"}, {1: "ask"}])
def test_what_is_no_rule(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="no rule"):
        ApprovalPolicy(None, wrong)


@pytest.mark.parametrize("wrong", ["yes", 1, True, ["approve-all"]])
def test_what_is_no_policy(wrong: object) -> None:
    with pytest.raises(ConfigError, match="approve="):
        consent.check_policy(wrong)


async def test_without_a_terminal_nobody_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(*_: Any, **__: Any) -> Any:
        raise OSError(6, "No such device")

    monkeypatch.setattr(os, "open", no_terminal)
    assert not await asked("interactive")


@pytest.mark.parametrize(("typed", "agreed"), [("y", True), ("yes", True), ("n", False), ("", False), ("maybe", False)])
def test_somebody_at_the_terminal_is_asked(typed: str, agreed: bool, tmp_path: Path) -> None:
    program = "from paddock.sync import Sandbox\n"
    program += "import pathlib\n"
    program += f"d = pathlib.Path({str(tmp_path / 'project')!r})\nd.mkdir()\n"
    program += "with Sandbox.create(workspace=d, review=True, approve='interactive') as sb:\n"
    program += "    sb.write('f', '1')\n"
    program += "    try:\n        sb.changes().apply()\n    except Exception as error:\n        print(error.code)\n"
    program += "print('there' if (d / 'f').exists() else 'not there')\n"
    code, shown = talk_to([sys.executable, "-c", program], ("[y/N] ", typed))
    assert code == 0
    assert "1 created" in shown
    assert ("NOT_AUTHORIZED" in shown, "not there" in shown) == (not agreed, not agreed)


def test_what_was_typed_before_a_question_is_no_answer() -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(keyboard, "wb", buffering=0) as typed, os.fdopen(terminal, encoding="utf-8") as stream:
        typed.write(b"yes\n")
        forget_typed(terminal)
        typed.write(b"no\n")
        assert stream.readline() == "no\n"
    with open(os.devnull, encoding="utf-8") as nothing:
        forget_typed(nothing.fileno())


async def test_old_ones_are_swept(tmp_path: Any) -> None:
    directory = consent._directory()
    expired, fresh, long = offer("push", "r", "d", -100.0), offer("push", "r", "d"), offer("push", "r", "d", 1e6)
    assert [one for one in (expired, fresh, long) if not (directory / f"{one.nonce}.json").exists()] == [expired]
    offer("push", "r", "d", -100.0)
    consent.sweep()
    assert {path.stem for path in directory.iterdir()} == {fresh.nonce, long.nonce}
