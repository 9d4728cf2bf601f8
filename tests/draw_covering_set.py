"""Draws tests/data/covering_set.txt anew: cases that have every value of every trait of a plan, and every pair.

    python tests/draw_covering_set.py --seconds 600

Cases are drawn, planned by the convt3d at hand and counted until each pair of values that was met at all was met 20
times, or the time is over. Then as few of the smallest of them as keep those counts are written, behind what the set
had before where that is still needed. Needs no GPU.
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


def reduced(kept: list[tuple[Case, tuple[int, ...]]], coverage: Coverage) -> list[Case]:
    """Few and small cases that have each pair as often as wanted, or as often as all have it."""
    size = len(coverage.names)
    missing = np.minimum(coverage.counts[:size, :size], WANTED).ravel()
    pairs = [np.unique(np.add.outer(np.array(numbers) * size, numbers)).astype(np.int32) for _, numbers in kept]
    price = [1 + case.products / 4e6 + case.elements / 2e5 for case, _ in kept]

    def gain(index: int) -> float:
        return float(np.count_nonzero(missing[pairs[index]] > 0)) / price[index]

    # What a case gains can only become less: the first of the queue whose gain still holds is the best.
    queue = [(-gain(index), index) for index in range(len(kept))]
    heapq.heapify(queue)
    taken = []
    while queue:
        _, index = heapq.heappop(queue)
        now = gain(index)
        if now == 0:
            continue
        if queue and now < -queue[0][0]:
            heapq.heappush(queue, (-now, index))
            continue
        missing[pairs[index]] -= 1
        taken.append(index)
    result = []
    for index in reversed(taken):
        if (missing[pairs[index]] < 0).all():  # later ones made it needless
            missing[pairs[index]] += 1
        else:
            result.append(kept[index][0])
    return sorted(result, key=lambda case: (case.op, case.type, case.products, str(case)))


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
    cases = reduced(search.kept, search.coverage)
    coverage = Coverage()
    for traits in plans(cases):
        coverage.add(coverage.numbers(traits))
    values, pairs, rare = coverage.totals()
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(
        f"# Drawn by tests/draw_covering_set.py from {search.drawn} cases: {len(cases)} cases with {values} values of\n"
        f"# traits and {pairs} pairs of them, {rare} of which were met fewer than {WANTED} times.\n"
        + "".join(f"{case}\n" for case in cases)
    )
    print(f"{len(cases)} cases with {pairs} pairs, {rare} of them rare, are in {options.output}")
    if options.table is not None:
        options.table.write_text("".join(f"{count}\t{a}\t{b}\n" for a, b, count in sorted(coverage.pairs())))


if __name__ == "__main__":
    main()
