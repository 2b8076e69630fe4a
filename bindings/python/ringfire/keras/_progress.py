# SPDX-License-Identifier: Apache-2.0
"""Lines that fit, evaluate and predict print, in the form of Keras.

On a terminal and in a notebook a line is drawn anew as batches go by: metrics are read a few times
a second, the loss at the end of the epoch, so that devices are not waited for. Elsewhere there is a
line for each epoch.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Mapping, Optional, TextIO

from .._lib import check, ffi, lib
from .callbacks import Callback, History

WIDTH = 30
SECONDS_BETWEEN = 0.2


def is_interactive(stream: TextIO) -> bool:
    """Whether a line can be drawn anew: on a terminal, or in a notebook."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


def verbosity(verbose: Any, stream: TextIO) -> int:
    """0, 1 (a bar) or 2 (a line for each epoch) of what the user gave."""
    if verbose in ("auto", True):
        return 1 if is_interactive(stream) else 2
    if verbose in (0, 1, 2, False):
        return int(verbose)
    raise ValueError(f"verbose={verbose!r} is none of 'auto', 0, 1, 2")


def format_values(logs: Mapping[str, float]) -> str:
    """ " - loss: 0.1234 - accuracy: 0.9876"."""
    return "".join(f" - {name}: {value:.4f}" if abs(value) > 1e-3 or value == 0
                   else f" - {name}: {value:.4e}" for name, value in logs.items())


def format_bar(done: int, total: int) -> str:
    """ "12/938 [>....]"; without a total the number alone."""
    if total <= 0:
        return f"{done}/Unknown"
    filled = min(WIDTH, WIDTH * done // total)
    bar = "=" * filled if filled == WIDTH else "=" * filled + ">" + "." * (WIDTH - filled - 1)
    return f"{done:{len(str(total))}d}/{total} [{bar}]"


def format_time(seconds: float, steps: int) -> str:
    """ "3s 12ms/step"."""
    each = seconds / max(steps, 1)
    unit = f"{each:.0f}s" if each >= 1 else f"{each * 1e3:.0f}ms" if each >= 1e-3 \
        else f"{each * 1e6:.0f}us"
    return f"{seconds:.0f}s {unit}/step"


class Progress(Callback):
    """Prints what fit does, and notes it in the history.

    It is also where Ctrl-C is noticed: Python looks for signals when it is called before a batch.
    """

    def __init__(self, verbose: Any, names: Any, chief: bool, history: History) -> None:
        self.history = history
        self.stream = sys.stdout
        self.verbose = verbosity(verbose, self.stream) if chief else 0
        self.names = names
        self.drawn = 0.0
        self.width = 0
        self.began = 0.0
        self.batches = 0

    def _draw(self, line: str, end: bool) -> None:
        self.stream.write("\r" + line.ljust(self.width) + ("\n" if end else ""))
        self.stream.flush()
        self.width = 0 if end else len(line)

    def _metrics(self) -> Mapping[str, float]:
        found = {}
        value = ffi.new("double *")
        for name in self.names():
            metric = lib.rf_model_metric(self.model.pointer, name.encode())
            if metric != ffi.NULL:
                check(lib.rf_metric_local_result(metric, value))
                found[name] = value[0]
        return found

    def on_epoch_begin(self, epoch: int, logs: Optional[Mapping[str, float]] = None) -> None:
        self.began = time.monotonic()
        self.drawn = self.began
        self.batches = 0
        if self.verbose:
            self.stream.write(f"Epoch {epoch + 1}/{self.params['epochs']}\n")
            self.stream.flush()

    def on_train_batch_begin(self, batch: int, logs: Optional[Mapping[str, float]] = None) -> None:
        self.batches = batch + 1
        now = time.monotonic()
        if self.verbose == 1 and batch > 0 and now - self.drawn > SECONDS_BETWEEN:
            self.drawn = now
            steps = self.params["steps"] or 0
            each = (now - self.began) / batch
            left = "" if steps <= 0 else f" - ETA: {each * (steps - batch):.0f}s"
            self._draw(format_bar(batch, steps) + left + format_values(self._metrics()), False)

    def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, float]] = None) -> None:
        self.history._add(epoch, logs or {})
        if not self.verbose:
            return
        seconds = time.monotonic() - self.began
        steps = self.params["steps"] or self.batches
        if steps <= 0:
            steps = self.batches
        if self.verbose == 1:
            self._draw(f"{format_bar(steps, steps)} - {format_time(seconds, steps)}"
                       + format_values(logs or {}), True)
        else:
            whole, each = format_time(seconds, steps).split()
            self.stream.write(f"{steps}/{steps} - {whole}{format_values(logs or {})} - "
                              f"{whole}/epoch - {each}\n")
            self.stream.flush()


def print_evaluation(verbose: Any, chief: bool, steps: int, seconds: float,
                     logs: Mapping[str, float]) -> None:
    """The line of an evaluation or a prediction that has ended."""
    stream = sys.stdout
    level = verbosity(verbose, stream) if chief else 0
    if not level:
        return
    steps = max(steps, 0)
    head = format_bar(steps, steps) if level == 1 and steps else f"{steps}/{steps}"
    stream.write(f"{head} - {format_time(seconds, steps)}{format_values(logs)}\n")
    stream.flush()
