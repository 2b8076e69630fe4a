# SPDX-License-Identifier: Apache-2.0
"""The settings with which users run PyTorch on a processor: a comparison takes the best of them
(pytorch_zoo.py, pytorch_ops.py).

Its own threads and those of its BLAS are different pools, which get in each other's way: Debian's
PyTorch with two of both on two cores trains small networks up to three times slower than with two
and one. Pools are made when a process starts, so each setting has a process of its own."""
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import kept_memory  # noqa: E402

BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Setting:
    threads: int
    blas: int
    channels_last: bool = False
    compiled: bool = False  # torch.compile(), from PyTorch 2 on

    def __str__(self):
        return "%d+%d threads%s%s" % (self.threads, self.blas, ", channels last" *
                                      self.channels_last, ", compiled" * self.compiled)

    @property
    def environment(self):
        return {
            **kept_memory.ENVIRONMENT, "OMP_NUM_THREADS": str(self.threads),
            **{name: str(self.blas)
               for name in BLAS}
        }

    @property
    def arguments(self):
        return [self.threads, self.blas, int(self.channels_last), int(self.compiled)]


def of_arguments(texts):
    threads, blas, channels_last, compiled = map(int, texts)
    return Setting(threads, blas, bool(channels_last), bool(compiled))


def of_threads(cores):
    """Pools of one thread and of one for each core."""
    counts = sorted({1, cores})
    return [Setting(threads, blas) for threads in counts for blas in counts]


def best(rates):
    """Of a dictionary from settings to rates, where None is one that did not run."""
    return max(filter(rates.get, rates), key=rates.get,
               default=None) or sys.exit("PyTorch runs with no setting")


def find_best(cores, images, measure):
    """The setting of the highest rate, and all rates. `measure` takes a setting and returns its
    rate, or None where it does not run. `images`: the network takes pictures, so that layouts
    differ. Compiling is tried with the best threads and layout."""
    rates = {}
    for setting in of_threads(cores):
        for channels_last in (False, True)[:1 + images]:
            each = dataclasses.replace(setting, channels_last=channels_last)
            rates[each] = measure(each)
    compiled = dataclasses.replace(best(rates), compiled=True)
    rates[compiled] = measure(compiled)
    return best(rates), rates
