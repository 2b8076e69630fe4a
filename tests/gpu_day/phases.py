# SPDX-License-Identifier: Apache-2.0
"""What a GPU day runs: phases with limits, each a list of steps. Pure: from the programs, the
processors and the budget to commands.

The order matters: what runs first survives a day that is cut short. Each phase has a limit of its
own, which a smaller budget scales down; what a phase leaves over goes to those behind it."""
import dataclasses
import pathlib

BUDGET = 585  # seconds, of which machines that are lent for ten minutes leave room for the start
# of the phases, in order
NAMES = ("inventory", "correct", "device", "kernels", "network", "baseline", "soak")
ALONE = ("language", )  # phases that run where they are named, and take as long as a day
PRODUCTS = (256, 512, 1024, 2048, 4096)  # squares that baseline.py multiplies too
# Tests that take any device. The walk over the operations is cut into shares, one for each process.
TESTS = (("gpu/gpu_tests", "system"), ("gpu/gpu_tests", "gpu"), ("exec/exec_tests", "exec"),
         ("exec/exec_tests", "programs"), ("ops/ops_tests", "small_limits"),
         ("train/train_tests", "trajectory"), ("train/train_tests", "resnet"),
         ("train/train_tests", "gpt"))
# that they read
FIXTURES = ("trajectory.bin", "resnet_8.traj", "resnet_bottleneck.traj", "gpt.traj")
WALK = "ops/test_ops"
# what the device says of itself, as tests/gpu/snapshots keeps it for tests of plans
SNAPSHOT = "gpu/dump_snapshot"
LANGUAGE = "bench/language_training"
PROGRAMS = (WALK, SNAPSHOT, LANGUAGE, *dict.fromkeys(room for room, _ in TESTS))  # below tests/

# All operations with a benchmark as `ringfire-bench ops --op` takes them, each a process of its
# own: what ended before the limit is kept. First what
# networks spend most time on. Behind '=' stands a whole name, else what names contain; no two take
# the same operation.
OPERATIONS = ("=conv2d", "conv2d_filter_grad", "conv2d_data_grad", "attention", "=rnn", "rnn_grad",
              "softmax", "crossentropy", "layer_norm",
              "batch_", "elementwise", "reduce", "sum_to_like", "max_pool2d", "avg_pool2d", "adam",
              "gather", "=transpose", "concat",
              "conv2d_transpose", "conv2d_pool", "normalize", "bias_add", "recurrence", "cumsum",
              "cumprod", "top_k", "upsample2d", "dropout", "cast",
              "sgd", "momentum", "rmsprop", "adagrad", "lion", "lamb", "muon_update",
              "average_update", "accumulate", "overwrite", "assign",
              "unscale", "overflow_check", "slice", "pad", "split", "random_uniform", "fill_like",
              "block_squares", "argmax", "one_hot", "accuracy", "=matmul", "matmul_quantized",
              "ctc_loss")
# The others: views, and what has no case for a benchmark.
UNMEASURED = ("reshape", "reshape_like", "regroup", "expand_dims", "squeeze", "all_replica_sum",
              "stop_gradient", "loss_scale", "update_numbers",
              "mean_scale")
# Of `ringfire-bench zoo`, with their batches; the CNN has steps of its own.
NETWORKS = {"resnet": 64, "gpt": 12, "bert": 32, "transformer": 64, "densenet": 64, "vae": 32,
            "gru": 64, "lstm": 64, "ncf": 10000}


def takes(text, operation):
    """Whether `ringfire-bench ops --op TEXT` measures the operation."""
    return operation == text[1:] if text.startswith("=") else text in operation


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
    """The walk in as many shares as processes, the other tests beside it, the walk in 16 bits in
    fewer shares, then a sample under the validation layer."""
    walk = programs / "tests" / WALK
    options = ["--quick", "--turns"] + (["--sample", "2", "--op", "softmax"] if small else [])
    shares = max(1, processes)

    def walks(what, shares, *more):
        return [Step("%s %d of %d" % (what, i + 1, shares),
                     (walk, *options, *more, "--share", "%d/%d" % (i, shares)), seconds)
                for i in range(shares)]

    steps = walks("operations", shares)
    if not small:
        steps += [Step(name, (programs / "tests" / room, name), seconds) for room, name in TESTS]
        for kind in ("f16", "bf16"):
            steps += walks("operations in " + kind, max(1, processes // 4), "--type", kind)
        steps.append(Step("operations under the validation layer",
                          (walk, "--quick", "--turns", "--sample", "2", "--validation"), seconds))
    return tuple(steps)


def bench(programs, name, *options, seconds, what=None):
    return Step(what or name, (programs / "tools/ringfire-bench", name, *options, "--json"),
                seconds, json=True)


def operations(programs, seconds):
    """All kernels of each operation, with the fastest kept for what follows."""
    return [bench(programs, "ops", "--op", text, "--all-kernels", "--tune", "--seconds", "0.02",
                  seconds=seconds, what="operation " + text)
            for text in OPERATIONS]


def chosen_part(phase, only):
    """The phase, with what `only` leaves of its steps."""
    if not only or phase.name in only:
        return phase
    starts = [text.partition("/")[2] for text in only if text.startswith(phase.name + "/")]
    return dataclasses.replace(phase,
                               steps=tuple(s for s in phase.steps
                                           if any(s.name.startswith(start) for start in starts)))


def make(programs, processes, budget=BUDGET, small=False, baseline=None, only=None, language=None):
    """All phases, or those that `only` names: PHASE, or PHASE/STEP for steps whose names begin so.
    `small`: what fits a minute on a software driver; `baseline`, `language`: the commands that
    measure PyTorch, and train language models beside it; None where there is no PyTorch."""
    scale = min(1.0, budget / BUDGET)

    def limit(seconds):
        return seconds * scale

    each = "0.02" if small else "0.1"
    phases = [
        Phase("inventory", limit(15),
              (Step("devices", (programs / "tools/ringfire", "devices", "--json"), limit(15),
                    json=True),
                                       Step("snapshot", (programs / "tests" / SNAPSHOT,),
                                            limit(15)),
                                       Step("nvidia-smi", ("nvidia-smi", "-q"), limit(15)))),
        Phase("correct", limit(100), correct(programs, processes, limit(95), small),
              parallel=max(1, processes)),
        Phase("device", limit(20), (bench(programs, "device", "--seconds", each, seconds=limit(20)),
                                    )),
        Phase("kernels", limit(220), tuple(
            [bench(programs, "ops", "--op", "matmul", "--seconds", each, seconds=limit(30),
                   what="products"),
             bench(programs, "ops", "--op", "matmul", "--mixed", "bf16", "--seconds", each,
                   seconds=limit(30), what="products in bfloat16")]
            + ([] if small else [bench(programs, "kernels", seconds=limit(40)),
                                 *operations(programs, limit(40))]))),
        Phase("network", limit(90), tuple(
            [bench(programs, "model", "--profile", "--seconds", "0.3" if small else "3",
                   seconds=limit(30), what="cnn")]
            + ([bench(programs, "zoo", "--model", "ncf", "--profile", "--seconds", "0.1",
                      seconds=limit(60), what="network ncf")] if small else
               [bench(programs, "model", "--batch", str(n), "--seconds", "2", seconds=limit(20),
                      what="cnn, batch %d" % n) for n in (256, 1024)]
               + [bench(programs, "zoo", "--model", name, "--profile", "--seconds", "1",
                        seconds=limit(20), what="network " + name)
                  for name in NETWORKS]))),
    ]
    if baseline:
        seconds = limit(
            80) if only is None else 400  # by itself it has time to compile every network
        command = (*baseline, "--budget", "%.0f" % (0.8 * seconds))
        phases.append(
            Phase("baseline", seconds, (Step("pytorch", command, 0.95 * seconds, json=True), )))
    if language and only and any(name.partition("/")[0] in ALONE for name in only):
        seconds = limit(BUDGET)
        command = (*language, programs / "tests" / LANGUAGE, "--budget", "%.0f" % (0.95 * seconds))
        phases.append(Phase("language", seconds, (Step("training", command, seconds),)))
    if not small:
        phases.append(Phase("soak", limit(60),
                            (bench(programs, "model", "--seconds", "%.0f" % limit(40),
                                   seconds=limit(60), what="cnn for long"),)))
    return [phase for phase in (chosen_part(phase, only) for phase in phases) if phase.steps]
