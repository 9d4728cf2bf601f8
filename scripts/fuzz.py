#!/usr/bin/env python3
"""Runs random calls of convt3d's operators and compares every element with float64; for a time, with a seed.

    python scripts/fuzz.py --seconds 600                     # on the GPU where there is one
    python scripts/fuzz.py --device cpu --problems 200 --only op=input_grad,type=bf16
    python scripts/fuzz.py --problem 'op=forward type=fp16 ...' --values 7     # what a failure printed

The calls are those of tests/data/covering_set.txt, changed ones and fresh ones: all operators, five types, operands
that are sliced, permuted, misaligned or expanded. Memory around operands and results is poisoned, every call is made
twice and has to give the same bits. Needs an installed convt3d with its extra `test`, and this checkout's tests/.
Exit code: 0 when all were right, 1 when one was wrong, 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from cases import Case
from checking import WrongResultError, check
from drawing import changed, fresh
from trait_coverage import Coverage, read

from convt3d._explain.plan import Device, assumed_device, cuda_device, named_device, plans_of

_TRIES = 2000  # for a call that `--only` and `--engine` let through
_FREE = ("op", "type", "layout", "bias", "relu", "first", "second", "mask")
_MIX = {"stored": 30, "changed": 30, "fresh": 40}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="time to go on for; default: 60, unless --problems is given")
    parser.add_argument("--problems", type=int, help="calls to make at most")
    parser.add_argument("--seed", type=int, help="of the draws; default: one that is printed")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    parser.add_argument("--only", default="", help="fields and values, such as op=forward,type=bf16")
    parser.add_argument("--engine", help="only plans of halo_wgmma, mma, depthwise or simt, as on this device")
    parser.add_argument(
        "--plans-of", metavar="NAME", help='run the plans of this GPU on the one at hand: "NVIDIA GeForce RTX 4090"'
    )
    parser.add_argument("--problem", help="make this one call")
    parser.add_argument("--values", type=int, default=0, help="seed of the operands' values, for --problem")
    parser.add_argument("--log", type=Path, help="write every call here before it is made: a crash is the last one")
    options = parser.parse_args()
    if options.device is None:
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    options.only = dict(token.partition("=")[::2] for token in options.only.split(",") if token)
    known = list(Case.__dataclass_fields__)
    if not set(options.only) <= set(known):
        parser.error(f"--only knows the fields {', '.join(known)}, got {', '.join(options.only)}")
    if options.plans_of is not None:
        try:
            named_device(options.plans_of)
        except ValueError as error:
            parser.error(f"--plans-of: {error}")
    if options.problem is not None:
        try:
            options.problem = Case.parse(options.problem)
        except ValueError as error:
            parser.error(f"--problem: {error}")
    return options


def _planned(device: str) -> Device:
    """What plans are made for: on the CPU, which has no kernels, an assumed GPU's are counted."""
    return assumed_device() if device == "cpu" else cuda_device(torch.device("cuda", torch.cuda.current_device()))


class Fuzz:
    """Draws calls, makes them and counts what was met."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
        self.rng = random.Random(self.seed)
        self.coverage = Coverage()
        self.plans: set[tuple[int, ...]] = set()
        self.counts: Counter[str] = Counter()
        self.failures = 0
        self.device = _planned(options.device)
        self.stored = [case for case in read() if self._wanted(case)]
        self.rng.shuffle(self.stored)
        self.next = 0
        self.log = options.log.open("w") if options.log is not None else None

    def _wanted(self, case: Case) -> bool:
        if any(str(getattr(case, name)) != value for name, value in self.options.only.items()):
            return False
        return self.options.engine is None or case.traits(self.device)["engine"] == self.options.engine

    def _with_wanted(self, case: Case) -> Case:
        """The case with those fields of `--only` that every other field goes with."""
        free = {name: text for name, text in self.options.only.items() if name in _FREE}
        return case.with_(**{name: type(getattr(case, name))(text) for name, text in free.items()})

    def draw(self) -> Case:
        """A call that the arguments allow."""
        for _ in range(_TRIES):
            way = self.rng.choices(list(_MIX), list(_MIX.values()))[0]
            if way == "fresh" or not self.stored:
                case = fresh(self.rng)
            else:
                case = self.stored[self.next % len(self.stored)]
                self.next += 1
                if way == "changed":
                    case = changed(self.rng, case, self.rng.choice((None, self.rng.choice(self.stored))))
            case = self._with_wanted(case)
            if not case.invalid() and self._wanted(case):
                self.counts[way] += 1
                return case
        raise SystemExit(f"none of {_TRIES} draws was what --only and --engine want")

    def make(self, case: Case, values: int) -> None:
        """One call; prints how to repeat it where its result is wrong."""
        plans_of = f"--plans-of '{self.options.plans_of}' " if self.options.plans_of is not None else ""
        again = f"scripts/fuzz.py --device {self.options.device} {plans_of}--values {values} --problem '{case}'"
        if self.log is not None:
            self.log.write(f"{again}\n")
            self.log.flush()
        numbers = self.coverage.numbers(case.traits(self.device))
        self.coverage.add(numbers)
        self.plans.add(numbers)
        try:
            check(case, self.options.device, values)
        except WrongResultError as error:
            self.failures += 1
            print(f"WRONG {error}\n  {again}", flush=True)
        except Exception:
            print(f"FAILED\n  {again}", flush=True)
            raise

    def run(self) -> None:
        """Until the time is over or the calls were made."""
        options = self.options
        seconds = options.seconds if options.seconds is not None or options.problems is not None else 60
        print(f"convt3d on {options.device}, plans for {self.device.name}, --seed {self.seed}", flush=True)
        end = None if seconds is None else time.monotonic() + seconds
        made = 0
        while (options.problems is None or made < options.problems) and (end is None or time.monotonic() < end):
            self.make(self.draw(), self.rng.randrange(1 << 31))
            made += 1
        kinds = ", ".join(f"{self.counts[way]} {way}" for way in _MIX)
        values, pairs, _ = self.coverage.totals()
        print(
            f"{made} problems ({kinds}), {len(self.plans)} kinds of plans, {pairs} pairs of {values} "
            f"values of their traits, {self.failures} wrong"
        )


def main() -> int:
    """Makes the calls that the arguments ask for."""
    options = _arguments()
    with contextlib.nullcontext() if options.plans_of is None else plans_of(options.plans_of):
        fuzz = Fuzz(options)
        if options.problem is not None:
            fuzz.make(options.problem, options.values)
            print(f"{'wrong' if fuzz.failures else 'right'}: {options.problem.traits(fuzz.device)}")
        else:
            fuzz.run()
    return int(fuzz.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
