"""For whom a connection to a sandbox acts: several requests, of several chats, may share one."""

from collections.abc import Mapping
from dataclasses import replace

from paddock.consent import Consent, Policy
from paddock.errors import NotAuthorizedError
from paddock.sandbox.sandbox import Sandbox


def act_for(sandbox: Sandbox, labels: Mapping[str, str], approve: Policy) -> None:
    """From now on this object has these labels too, and asks this policy. Others of the same sandbox stay as they are."""
    core = sandbox._core
    plan = replace(core.launched.plan, labels={**core.launched.plan.labels, **labels})
    core.launched = replace(core.launched, plan=plan, approve=approve)
    core.consent = Consent(approve, core.launched.bus, core.launched.id)


def is_blocked(sandbox: Sandbox, action: str) -> bool:
    """Whether a rule of its `approve=` says that nobody does this."""
    return sandbox._core.consent.blocks(action)


def refuse_blocked(sandbox: Sandbox, action: str) -> None:
    """The same as a `NotAuthorizedError`."""
    if is_blocked(sandbox, action):
        raise NotAuthorizedError(f"To {action} is blocked in this sandbox.", hint="Find another way.")
