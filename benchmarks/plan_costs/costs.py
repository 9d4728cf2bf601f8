"""Fits the constants by which a forward plan is chosen, in csrc/engines/wgmma/plan/cost.cpp, to measured times.

With a GPU of compute capability 9.0 and the installed package:

    python benchmarks/plan_costs/costs.py sweep times.txt      # a line for each plan
    python benchmarks/plan_costs/costs.py fit times.txt        # without a GPU; --write changes cost.cpp

A sweep is of the constants that the source tree has then: plans that it no longer knows are left out and counted. After
constants have changed, sweep again: the plan may choose what was not measured.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm

from convt3d._explain.asking import only_engine
from convt3d._explain.operands import dense_operands
from convt3d._explain.plan import candidate_costs, cuda_device, layer_plan
from convt3d.benchmark import layers
from convt3d.benchmark.calls import convt3d_call, precision_switches, random_operands
from convt3d.benchmark.timing import Repetitions, Timer, warm_up

if TYPE_CHECKING:
    from convt3d._explain.plan import Device
    from convt3d._layer import Layer

HERE = Path(__file__).resolve().parent
CSRC = HERE.parent.parent / "csrc"
BUILD = HERE.parent.parent / "build" / "plan_costs"
PLANNING = CSRC / "engines" / "wgmma" / "plan"
COST = PLANNING / "cost.cpp"
PLAN_SOURCES = sorted({*PLANNING.glob("*.cpp"), *(CSRC / "core").glob("*.cpp")} - {COST})
PRECISIONS = tuple(precision for precision in layers.PRECISIONS if precision != "bf16")  # whose plans are those of fp16
CONSTANT = re.compile(r"^constexpr double (k\w+) = ([^;]+);", re.MULTILINE)
# What older measurements say, and no fit.
FIXED = ("kThreadOutputClocks",)
# Of the device that the constants are fitted to, from the table of devices.
CLOCKS_PER_MS = 1e3 * float(re.findall(r'"H200", .*?(\d+), true', (CSRC / "core" / "devices.cpp").read_text())[0])

ENGINE = "halo_wgmma"
REPETITIONS = 3  # of a plan

Key = tuple[str, str, str]  # layer, precision, layout


def case_lines() -> dict[Key, str]:
    """Every layer in every precision and layout, as ``cases.h`` reads them."""
    lines = {}
    for layer in layers.known_layers():
        sizes = [
            layer.batch,
            layer.in_channels,
            layer.out_channels,
            layer.groups,
            *layer.input_size,
            *layer.kernel_size,
            *layer.stride,
            *layer.padding,
            *layer.output_padding,
            *layer.dilation,
            int(layer.bias),
        ]
        for precision in PRECISIONS:
            for layout in layers.LAYOUTS:
                lines[layer.name, precision, layout] = " ".join([layer.name, precision, layout, *map(str, sizes)])
    return lines


def sweep(options: argparse.Namespace) -> None:
    """Measures some plans of every layer, the chosen one first, and writes a line for each."""
    device = torch.device("cuda", torch.cuda.current_device())
    timer = Timer(Repetitions(at_least=REPETITIONS, at_most=REPETITIONS, slow_replays=REPETITIONS))
    warm_up()
    suite = [layer for layer in layers.known_layers() if fnmatchcase(layer.name, options.layer)]
    with options.times.open("w") as out, torch.no_grad():
        for layer, precision in tqdm(list(product(suite, PRECISIONS)), unit="case"):
            operands = random_operands(layer, precision, device)
            for layout in layers.LAYOUTS:
                call = convt3d_call(layer, "forward", operands.in_layout(layout))
                key = layer, precision, layout
                for number in drawn(key, candidate_costs_on(key, cuda_device(device)), options):
                    with precision_switches(precision), only_engine(ENGINE, number):
                        milliseconds, _ = timer.time(call)
                    plan = layer_plan(
                        layer, "forward", precision, layout, cuda_device(device), engine=ENGINE, candidate=number
                    )
                    print(layer.name, precision, layout, f"{milliseconds:.5f}", plan.plan, file=out, flush=True)


def candidate_costs_on(key: tuple[Layer, str, str], device: Device) -> list[float]:
    """What the engine's plans of a case are expected to take."""
    layer, precision, layout = key
    return candidate_costs(layer, "forward", precision, dense_operands(layer, "forward", layout), device, ENGINE)


def drawn(key: tuple[Layer, str, str], costs: list[float], options: argparse.Namespace) -> list[int]:
    """The numbers of the plans to measure: the chosen one, and others by costs times a random factor."""
    layer, precision, layout = key
    random = np.random.default_rng(zlib.crc32(f"{layer.name} {precision} {layout} {options.seed}".encode()))
    order = np.argsort(np.array(costs) * np.exp(options.jitter * random.normal(size=len(costs))))
    return [0, *(int(number) for number in order if number != 0)][: options.count] if costs else []


class Model:
    """The cost of a plan with constants that can be changed, and the plans that were measured."""

    def __init__(self, times: list[Path]) -> None:
        self._library = _build_model()
        self._library.choice.restype = ctypes.c_char_p
        source = COST.read_text()
        self.names = [name for name, _ in CONSTANT.findall(source)]
        self._constants = [ctypes.c_double.in_dll(self._library, name) for name in self.names]
        measured: dict[Key, dict[str, float]] = defaultdict(dict)
        for line in (line for path in times for line in path.read_text().splitlines()):
            layer, precision, layout, milliseconds, plan = line.split(" ", 4)
            plans = measured[layer, precision, layout]
            identity = plan[: plan.rindex(" clocks=")]
            plans[identity] = min(float(milliseconds), plans.get(identity, math.inf))
        lines = case_lines()
        self.keys: list[Key] = []
        self.plans: list[dict[str, float]] = []
        self.unknown = 0
        for key, plans in measured.items():
            known = (ctypes.c_ubyte * len(plans))()
            self._library.add_case(lines[key].encode(), "\n".join(plans).encode(), known)
            self.keys.append(key)
            self.plans.append({plan: ms for (plan, ms), is_known in zip(plans.items(), known, strict=True) if is_known})
            self.unknown += len(plans) - len(self.plans[-1])
        counts = [len(plans) for plans in self.plans]
        if 0 in counts:
            raise SystemExit(f"no measured plan of {self.keys[counts.index(0)]} is known: sweep again")
        self.starts = np.cumsum([0, *counts[:-1]])
        self.counts = np.array(counts)
        self.ms = np.array([ms for plans in self.plans for ms in plans.values()])
        self.best = np.minimum.reduceat(self.ms, self.starts)
        self._clocks = np.empty(len(self.ms))

    @property
    def constants(self) -> np.ndarray:
        """The constants, in the order of ``names``."""
        return np.array([constant.value for constant in self._constants])

    @constants.setter
    def constants(self, values: np.ndarray) -> None:
        for constant, value in zip(self._constants, values, strict=True):
            constant.value = value

    def predict(self) -> np.ndarray:
        """Expected milliseconds of all measured plans, case after case."""
        self._library.predict(self._clocks.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
        return self._clocks / CLOCKS_PER_MS

    def objective(self, sharpness: float = 150, error_weight: float = 0.2) -> float:
        """How much slower than the best the chosen plans are (softly), and how wrong times near the best are."""
        expected = self.predict()
        cheapest = np.minimum.reduceat(expected, self.starts)
        with np.errstate(invalid="ignore"):  # constants far out expect infinite times: their objective is not a number
            share = (np.repeat(cheapest, self.counts) / expected) ** sharpness
        slower = np.add.reduceat(share * self.ms, self.starts) / np.add.reduceat(share, self.starts) / self.best - 1
        ratio = self.ms / np.repeat(self.best, self.counts)
        near = np.where(ratio < 1.5, np.exp(-(ratio - 1) / 0.2), 0)
        errors = np.add.reduceat(near * np.log(expected / self.ms) ** 2, self.starts)
        return float(np.mean(slower + error_weight * errors / np.add.reduceat(near, self.starts)))

    def report(self) -> str:
        """What the present constants choose, compared with the best that was measured."""
        slower: dict[Key, float] = {}
        for index, (key, plans) in enumerate(zip(self.keys, self.plans, strict=True)):
            chosen = plans.get(self._library.choice(index).decode())
            if chosen is not None:
                slower[key] = chosen / self.best[index] - 1
        lines = [f"chosen plans that were measured: {len(slower)} of {len(self.keys)} cases"]
        for precision in PRECISIONS:
            for layout in layers.LAYOUTS:
                values = [value for key, value in slower.items() if key[1:] == (precision, layout)]
                if values:
                    lines.append(f"  {precision} {layout}: {np.mean(values):.2%} slower than the best measured")
        for key in sorted(slower, key=slower.__getitem__, reverse=True)[:10]:
            lines.append(f"  {' '.join(key)}: {slower[key]:.1%}")
        return "\n".join(lines)


def _build_model() -> ctypes.CDLL:
    """The library of ``model.cpp``, in which every constant of the costs is a variable."""
    BUILD.mkdir(parents=True, exist_ok=True)
    source = COST.read_text()
    variables = "".join(f'extern "C" {{ double {name} = {value}; }}\n' for name, value in CONSTANT.findall(source))
    cost = BUILD / "wgmma_cost_variables.cpp"
    cost.write_text(variables + CONSTANT.sub("", source))
    library = BUILD / "libmodel.so"
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("costs.py: a C++ compiler is needed, g++ or clang++")
    sources = [cost, HERE / "model.cpp", *PLAN_SOURCES]
    flags = ["-std=c++17", "-O3", "-shared", "-fPIC", f"-I{CSRC}", f"-I{HERE}"]
    subprocess.run([compiler, *flags, *map(str, sources), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def anneal(model: Model, seconds: float, seed: int, ridge: float) -> np.ndarray:
    """The best constants that random changes of a few at a time find; ``ridge`` holds them to where they began."""
    random = np.random.default_rng(seed)
    free = np.array([name not in FIXED for name in model.names]).nonzero()[0]
    start = model.constants

    def value(constants: np.ndarray) -> float:
        model.constants = constants
        return model.objective() + ridge * float(np.mean(np.log(constants / start) ** 2))

    now = best = start
    now_value = best_value = value(start)
    begin = time.monotonic()
    with tqdm(total=round(seconds), unit="s") as progress:
        while (passed := time.monotonic() - begin) < seconds:
            progress.update(int(passed) - progress.n)
            progress.set_postfix(objective=f"{best_value:.4f}", refresh=False)
            changed = random.choice(free, random.integers(1, 5), replace=False)
            candidate = now.copy()
            candidate[changed] *= np.exp(random.normal(0, 10 ** random.uniform(-2, -0.5), len(changed)))
            candidate_value = value(candidate)
            temperature = 2e-3 * best_value * max(0.0, 1 - passed / (0.9 * seconds))
            if candidate_value < now_value + temperature * random.exponential():
                now, now_value = candidate, candidate_value
            if now_value < best_value:
                best, best_value = now, now_value
    return best


def fit(options: argparse.Namespace) -> None:
    """Fits, reports and, where asked to, writes the constants."""
    model = Model(options.times)
    print(f"{len(model.ms)} plans of {len(model.keys)} cases; {model.unknown} measured plans are not known any more")
    print(model.report())
    model.constants = anneal(model, 60 * options.minutes, options.seed, options.ridge)
    # As they will stand in the source.
    model.constants = np.array([float(f"{value:.3g}") for value in model.constants])
    print(model.report())
    values = dict(zip(model.names, model.constants, strict=True))
    if not options.write:
        print("\n".join(f"{name} = {value:g}" for name, value in values.items()))
        return
    source = COST
    source.write_text(
        CONSTANT.sub(lambda found: f"constexpr double {found[1]} = {values[found[1]]:g};", source.read_text())
    )
    print(f"{source} has the new constants: clang-format it, and run the tests of the plan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser("sweep", help="measure plans of every layer")
    measure.add_argument("times", type=Path, metavar="FILE")
    measure.add_argument("--layer", default="*", metavar="GLOB")
    measure.add_argument("--count", type=int, default=100, help="plans of a case; default: 100")
    measure.add_argument(
        "--jitter", type=float, default=0.15, help="how far from the cheapest they may be; default: 0.15"
    )
    measure.add_argument("--seed", type=int, default=1)
    measure.set_defaults(command=sweep)
    adjust = commands.add_parser("fit", help="fit the constants to measured times")
    adjust.add_argument("times", type=Path, nargs="+", metavar="FILE")
    adjust.add_argument("--minutes", type=float, default=5)
    adjust.add_argument("--seed", type=int, default=1)
    adjust.add_argument("--ridge", type=float, default=1e-3, help="how much constants are held to what they were")
    adjust.add_argument("--write", action="store_true", help="change csrc/engines/wgmma/plan/cost.cpp")
    adjust.set_defaults(command=fit)
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    sys.exit(main())
