"""For people who test: the contract that every backend keeps, and what it takes to run it on one of your own.

    import pytest
    from paddock.testing import SandboxContract

    class TestMyBackend(SandboxContract):
        @pytest.fixture
        def backend(self):
            return MyBackend()

Needs the extra `paddock[testing]`; the tests are `async def` and run under pytest-asyncio in its automatic mode.
"""

from paddock.testing.contract import SandboxContract
from paddock.testing.doubles import COMMANDS
from paddock.testing.plant import plant_link

__all__ = ["COMMANDS", "SandboxContract", "plant_link"]
