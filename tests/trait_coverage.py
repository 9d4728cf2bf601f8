"""Which values of the traits of plans (csrc/planning/), and which pairs of them, cases have; and a search for more."""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from cases import Case
from drawing import changed, fresh

FILE = Path(__file__).parent / "data" / "covering_set.txt"
WANTED = 20  # cases of each pair
WORKERS = 2
CHECKED_SEED = 19  # of the search that tests/test_covering_set.py repeats
CHECKED_CASES = 6000


def read(path: Path = FILE) -> list[Case]:
    """The cases of a file; lines that begin with # are remarks."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Case.parse(line) for line in lines if line and not line.startswith("#")]


class Coverage:
    """Counts of pairs of values, of plans of one engine and operator each. A value's pair with itself counts it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts = np.zeros((0, 0), np.int32)
        self._numbers: dict[str, int] = {}

    def numbers(self, traits: dict[str, str]) -> tuple[int, ...]:
        """Of the values of a plan."""
        family = f"{traits['engine']}.{traits['operator']}"
        numbers = []
        for name, value in traits.items():
            if name in ("engine", "operator"):
                continue
            key = f"{family}.{name}={value}"
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self.names)
                self.names.append(key)
            numbers.append(number)
        if len(self.names) > len(self.counts):
            grown = np.zeros((2 * len(self.names),) * 2, np.int32)
            grown[: len(self.counts), : len(self.counts)] = self.counts
            self.counts = grown
        return tuple(numbers)

    def add(self, numbers: tuple[int, ...], count: int = 1) -> None:
        """Counts a plan, or takes it back."""
        self.counts[np.ix_(numbers, numbers)] += count

    def least(self, numbers: tuple[int, ...]) -> int:
        """Of the counts of a plan's pairs."""
        return int(self.counts[np.ix_(numbers, numbers)].min())

    def pairs(self) -> list[tuple[str, str, int]]:
        """Those that were met, with their counts; a value alone is a pair with itself."""
        upper = np.triu(self.counts)
        return [(self.names[a], self.names[b], int(upper[a, b])) for a, b in np.argwhere(upper)]

    def totals(self) -> tuple[int, int, int]:
        """Values, pairs of two values, and how many of these were met less often than wanted."""
        upper = np.triu(self.counts, 1)
        return len(self.names), int((upper > 0).sum()), int(((upper > 0) & (upper < WANTED)).sum())


def plans(cases: list[Case]) -> list[dict[str, str]]:
    """The traits of each case's plan."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(Case.traits, cases, chunksize=16))


class Search:
    """Cases that were drawn, each with the numbers of its values; what is rare among them guides what is drawn next."""

    def __init__(self, seed: int) -> None:
        self.coverage = Coverage()
        self.kept: list[tuple[Case, tuple[int, ...]]] = []
        self.drawn = 0
        self._rng = random.Random(seed)
        self._seen: set[str] = set()
        self._values: list[frozenset[int]] = []  # of each kept case
        self._of_value: dict[int, list[int]] = defaultdict(list)  # some of the kept cases that have it
        self._rare: list[tuple[int, int]] = []

    def add(self, cases: list[Case]) -> None:
        """Plans and counts them; keeps those with a pair that had not been met often enough."""
        new = {str(case): case for case in cases}
        new = {line: case for line, case in new.items() if line not in self._seen}
        self._seen.update(new)
        self.drawn += len(new)
        for case, traits in zip(new.values(), plans(list(new.values())), strict=True):
            numbers = self.coverage.numbers(traits)
            if self.coverage.least(numbers) < 2 * WANTED:
                for number in numbers:
                    some = self._of_value[number]
                    if len(some) < 400:
                        some.append(len(self.kept))
                    else:
                        some[self._rng.randrange(400)] = len(self.kept)
                self.kept.append((case, numbers))
                self._values.append(frozenset(numbers))
            self.coverage.add(numbers)

    def find_rare(self) -> None:
        """Pairs that were met too seldom, and as many pairs of one family that never were."""
        names = self.coverage.names
        counts = np.triu(self.coverage.counts[: len(names), : len(names)])
        self._rare = [(int(a), int(b)) for a, b in np.argwhere((counts > 0) & (counts < WANTED))]
        families = np.array([hash(name.rsplit(".", 1)[0]) for name in names])
        traits = np.array([hash(name.split("=")[0]) for name in names])
        alike = (families[:, None] == families) & (traits[:, None] != traits)
        never = np.argwhere(np.triu(alike & (counts == 0)))
        count = min(len(never), max(200, len(self._rare)))
        self._rare += [(int(a), int(b)) for a, b in self._rng.sample(never.tolist(), count)]

    def draw(self) -> Case:
        """A fresh case, or one between two that have the values of a rare pair."""
        rng = self._rng
        if not self._rare or rng.random() < 0.25:
            return fresh(rng)
        first, second = rng.choice(self._rare)
        parents = self._of_value[first]
        both = [index for index in parents if second in self._values[index]]
        one = self.kept[rng.choice(both if both and rng.random() < 0.7 else parents)][0]
        other = self.kept[rng.choice(self._of_value[second])][0] if rng.random() < 0.6 else None
        return changed(rng, one, other)


def checked_search() -> Search:
    """The search that is repeated by the test of the stored set."""
    search = Search(CHECKED_SEED)
    while search.drawn < CHECKED_CASES:
        search.find_rare()
        search.add([search.draw() for _ in range(500)])
    return search
