"""For people who test: the contract that every backend keeps, and a model that does what it is told.

    import pytest
    from paddock.testing import SandboxContract

    class TestMyBackend(SandboxContract):
        @pytest.fixture
        def backend(self):
            return MyBackend()

The contract needs the extra `paddock[testing]`; its tests are `async def` and run under pytest-asyncio in its automatic
mode. `FakeModel` needs the extra `paddock[gateway]`. Each is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.testing.contract import SandboxContract as SandboxContract
    from paddock.testing.doubles import COMMANDS as COMMANDS
    from paddock.testing.models import Asked as Asked
    from paddock.testing.models import Cut as Cut
    from paddock.testing.models import Fail as Fail
    from paddock.testing.models import FakeModel as FakeModel
    from paddock.testing.models import Result as Result
    from paddock.testing.models import Say as Say
    from paddock.testing.models import Shell as Shell
    from paddock.testing.models import Think as Think
    from paddock.testing.models import Tokens as Tokens
    from paddock.testing.models import Turn as Turn
    from paddock.testing.models import Use as Use
    from paddock.testing.models import Wait as Wait
    from paddock.testing.plant import plant_link as plant_link

_MODELS = ("Asked", "Cut", "Fail", "FakeModel", "Result", "Say", "Shell", "Think", "Tokens", "Turn", "Use", "Wait")
_PLACES = {
    "COMMANDS": "paddock.testing.doubles",
    "SandboxContract": "paddock.testing.contract",
    "plant_link": "paddock.testing.plant",
    **dict.fromkeys(_MODELS, "paddock.testing.models"),
}

__all__ = [
    "COMMANDS",
    "Asked",
    "Cut",
    "Fail",
    "FakeModel",
    "Result",
    "SandboxContract",
    "Say",
    "Shell",
    "Think",
    "Tokens",
    "Turn",
    "Use",
    "Wait",
    "plant_link",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
