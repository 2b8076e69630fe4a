# SPDX-License-Identifier: Apache-2.0
"""What a GPU day runs: phases with limits, each a list of steps. Pure: from the programs, the processors and the budget to commands.

The order matters: what runs first survives a day that is cut short. Each phase has a limit of its own, which a smaller budget scales down;
what a phase leaves over goes to those behind it."""
import dataclasses
import pathlib

BUDGET = 585  # seconds, of which machines that are lent for ten minutes leave room for the start
NAMES = ("inventory", "correct", "device", "kernels", "network", "baseline", "soak")  # of the phases, in order
PRODUCTS = (256, 512, 1024, 2048, 4096)  # squares that baseline.py multiplies too
# Tests that take any device. The walk over the operations is cut into shares, one for each process.
TESTS = ("gpu/test_gpu_system", "exec/test_exec", "exec/test_programs", "ops/test_small_limits", "train/test_trajectory", "train/test_resnet",
         "train/test_gpt")
FIXTURES = ("trajectory.bin", "resnet_8.traj", "resnet_bottleneck.traj", "gpt.traj")  # that they read
WALK = "ops/test_ops"
SNAPSHOT = "gpu/dump_snapshot"  # what the device says of itself, as tests/gpu/snapshots keeps it for tests of plans
PROGRAMS = (WALK, SNAPSHOT, *TESTS)  # below tests/


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    command: tuple  # of texts and paths
    seconds: float  # after which it is stopped
    json: bool = False  # prints a JSON object
    environment: tuple = ()  # of pairs


@dataclasses.dataclass(frozen=True)
class Phase:
    name: str
    seconds: float
    steps: tuple
    parallel: int = 1  # steps that run at once


def correct(programs, processes, seconds, small):
    """The walk in as many shares as processes, the other tests beside it, then a sample under the validation layer."""
    walk = programs / "tests" / WALK
    options = ["--quick", "--turns"] + (["--sample", "2", "--op", "softmax"] if small else [])
    shares = max(1, processes)
    steps = [Step("operations %d of %d" % (i + 1, shares), (walk, *options, "--share", "%d/%d" % (i, shares)), seconds) for i in range(shares)]
    if not small:
        steps += [Step(pathlib.PurePath(name).name, (programs / "tests" / name,), seconds) for name in TESTS]
        steps.append(Step("operations under the validation layer", (walk, "--quick", "--turns", "--sample", "2", "--validation"), seconds))
    return tuple(steps)


def bench(programs, name, *options, seconds, what=None):
    return Step(what or name, (programs / "tools/ringfire", "bench", name, *options, "--json"), seconds, json=True)


def make(programs, processes, budget=BUDGET, small=False, baseline=None, only=None):
    """All phases, or those that `only` names. `small`: what fits a minute on a software driver; `baseline`: the command that measures
    PyTorch, or None where there is none."""
    scale = min(1.0, budget / BUDGET)

    def limit(seconds):
        return seconds * scale

    each = "0.02" if small else "0.1"
    phases = [
        Phase("inventory", limit(20), (Step("devices", (programs / "tools/ringfire", "devices", "--json"), limit(20), json=True),
                                       Step("snapshot", (programs / "tests" / SNAPSHOT,), limit(20)),
                                       Step("nvidia-smi", ("nvidia-smi", "-q"), limit(20)))),
        Phase("correct", limit(120), correct(programs, processes, limit(115), small), parallel=max(1, processes)),
        Phase("device", limit(45), (bench(programs, "device", "--seconds", each, seconds=limit(45)),)),
        Phase("kernels", limit(120), tuple(
            [bench(programs, "ops", "--op", "matmul", "--seconds", each, seconds=limit(30), what="products"),
             bench(programs, "ops", "--op", "matmul", "--mixed", "bf16", "--seconds", each, seconds=limit(30), what="products in bfloat16")]
            + ([] if small else [bench(programs, "kernels", seconds=limit(40)),
                                 bench(programs, "ops", "--all-kernels", "--tune", "--seconds", each, seconds=limit(100), what="operations")]))),
        Phase("network", limit(60), tuple(
            [bench(programs, "model", "--profile", "--seconds", "0.3" if small else "3", seconds=limit(30), what="cnn")]
            + ([] if small else [bench(programs, "model", "--batch", str(n), "--seconds", "2", seconds=limit(20), what="cnn, batch %d" % n)
                                 for n in (256, 1024)])
            + ([] if small else [bench(programs, "zoo", "--seconds", "2", seconds=limit(40), what="networks")]))),
    ]
    if baseline:
        phases.append(Phase("baseline", limit(120), (Step("pytorch", tuple(baseline), limit(115), json=True),)))
    if not small:
        phases.append(Phase("soak", limit(60), (bench(programs, "model", "--seconds", "%.0f" % limit(40), seconds=limit(60), what="cnn for long"),)))
    return [phase for phase in phases if not only or phase.name in only]
