"""Timing things side by side: turns that alternate, medians, and the ratio between them."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

Step = Callable[[], float]
"""One turn: seconds per call, with the turn's own preparation left out."""


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison: both medians, and the ratio of a round: its median over all rounds, and its quartiles."""

    case: str
    against: str
    ours: float
    baseline: float
    ratio: float
    quartiles: tuple[float, float, float]
    hold: float | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the ratio is held; None where there is nothing to hold."""
        return None if self.hold is None else self.ratio <= self.hold


@dataclass(frozen=True, slots=True)
class Check:
    """Something that holds or does not, without a number."""

    case: str
    words: str
    ok: bool


Row = Result | Check
Rows = Generator[Row, None, None]


def alternate(steps: Mapping[str, Step], rounds: int, *, warm: bool = True) -> dict[str, list[float]]:
    """Let every step take its turn in each round, forwards and backwards by turns; with `warm`, once before it counts."""
    for step in steps.values() if warm else ():
        step()
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        for name in list(steps) if number % 2 == 0 else reversed(list(steps)):
            taken[name].append(steps[name]())
    return taken


def compare(
    case: str, ours: Sequence[float], baseline: Sequence[float], *, against: str = "os", hold: float | None = None
) -> Result:
    """The result of two lists of turns that were taken in the same rounds."""
    ratios = [mine / theirs for mine, theirs in zip(ours, baseline, strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    mine, theirs = median(ours), median(baseline)
    return Result(case, against, mine, theirs, middle, (low, middle, high), hold)
