"""A model that is not one, for tests of agents: it speaks as providers do, and does what a script says."""

from paddock.testing.models.asked import Asked, Result
from paddock.testing.models.fake import FakeModel
from paddock.testing.models.turns import Cut, Fail, Part, Say, Script, Shell, Think, Tokens, Turn, Use, Wait

__all__ = [
    "Asked",
    "Cut",
    "Fail",
    "FakeModel",
    "Part",
    "Result",
    "Say",
    "Script",
    "Shell",
    "Think",
    "Tokens",
    "Turn",
    "Use",
    "Wait",
]
