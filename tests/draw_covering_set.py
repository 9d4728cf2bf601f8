"""Draws tests/data/covering_set.txt anew: cases that have every value of every trait of a plan, and every pair.

    python tests/draw_covering_set.py --seconds 600

Cases are drawn, planned by the convt3d at hand and counted until each pair of values that was met at all was met 20
times, or the time is over; those that the file has are counted first. Then as few and as small ones as keep those
counts are written, in parts: the first alone has every pair once. Needs no GPU.
"""

from __future__ import annotations

import argparse
import heapq
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from trait_coverage import FILE, WANTED, Coverage, Search, checked_search, plans, read

if TYPE_CHECKING:
    from cases import Case

# The file's parts: as many cases of each pair as its first part has, its first two, and all of it.
PARTS = (1, 5, WANTED)


class Reduction:
    """Few and small cases that have each pair as often as is asked for, or as often as all of them have it."""

    def __init__(self, kept: list[tuple[Case, tuple[int, ...]]], coverage: Coverage) -> None:
        size = len(coverage.names)
        self.cases: list[Case] = []
        self._kept = kept
        self._counts = coverage.counts[:size, :size].ravel()
        self._have = np.zeros_like(self._counts)
        self._pairs = [np.unique(np.add.outer(np.array(numbers) * size, numbers)) for _, numbers in kept]
        self._price = [1 + case.products / 4e6 + case.elements / 2e5 for case, _ in kept]
        self._taken: set[int] = set()

    def extend(self, times: int) -> None:
        """By the cases that it takes to have each pair so many times."""
        missing = np.minimum(self._counts, times) - self._have

        def gain(index: int) -> float:
            return float(np.count_nonzero(missing[self._pairs[index]] > 0)) / self._price[index]

        # What a case gains can only become less: the first of the queue whose gain still holds is the best.
        queue = [(-gain(index), index) for index in range(len(self._kept)) if index not in self._taken]
        heapq.heapify(queue)
        more = []
        while queue:
            _, index = heapq.heappop(queue)
            now = gain(index)
            if now == 0:
                continue
            if queue and now < -queue[0][0]:
                heapq.heappush(queue, (-now, index))
                continue
            missing[self._pairs[index]] -= 1
            more.append(index)
        for index in reversed(more):
            if (missing[self._pairs[index]] < 0).all():  # later ones made it needless
                missing[self._pairs[index]] += 1
            else:
                self._have[self._pairs[index]] += 1
                self._taken.add(index)
                self.cases.append(self._kept[index][0])


def main() -> None:
    """Searches, prints what was found, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=FILE)
    parser.add_argument("--table", type=Path, help="write every pair that was met, with its count in the set, here")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    search = Search(options.seed)
    search.add(read(options.output))
    search.add([case for case, _ in checked_search().kept])
    shown = 0.0
    while time.monotonic() < end:
        search.find_rare()
        search.add([search.draw() for _ in range(1000)])
        if time.monotonic() > shown + 20:
            shown = time.monotonic()
            values, pairs, rare = search.coverage.totals()
            print(f"{search.drawn} cases, {values} values, {pairs} pairs, {rare} rare", flush=True)
    reduction = Reduction(search.kept, search.coverage)
    lines = []
    for times in PARTS:
        begin = len(reduction.cases)
        reduction.extend(times)
        lines.append(f"# With these {len(reduction.cases)}, each pair {times} times or as often as it was met.")
        lines += map(str, sorted(reduction.cases[begin:], key=lambda case: (case.op, case.products, str(case))))
    cases = reduction.cases
    coverage = Coverage()
    for traits in plans(cases):
        coverage.add(coverage.numbers(traits))
    values, pairs, rare = coverage.totals()
    options.output.parent.mkdir(exist_ok=True)
    head = (
        f"# Drawn by tests/draw_covering_set.py from {search.drawn} cases: {len(cases)} cases with {values} values of"
    )
    head += f"\n# traits and {pairs} pairs of them, {rare} of which were met fewer than {WANTED} times.\n"
    options.output.write_text(head + "".join(f"{line}\n" for line in lines))
    print(f"{len(cases)} cases with {pairs} pairs, {rare} of them rare, are in {options.output}")
    if options.table is not None:
        options.table.write_text("".join(f"{count}\t{a}\t{b}\n" for a, b, count in sorted(coverage.pairs())))


if __name__ == "__main__":
    main()
