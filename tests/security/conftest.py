"""The parts of the suite are no test modules, and their assertions should tell as much as if they were."""

import pytest

_PARTS = ("filesystem", "files", "kernel", "network", "policy", "processes", "resources", "suite")
pytest.register_assert_rewrite(*(f"security.{part}" for part in _PARTS))
