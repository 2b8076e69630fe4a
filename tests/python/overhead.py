# SPDX-License-Identifier: Apache-2.0
"""How much longer a step takes from Python than from C: the same small network, from batches to
losses, in turns, so that both see the same machine. Time is that in which the thread of the loop
computes, which other programs on the machine hardly change. At most MOST microseconds.

Usage: overhead.py OVERHEAD [ROUNDS]"""
import statistics
import subprocess
import sys
import time

import numpy as np
import ringfire as rf
from ringfire._tape import Optimizer

MOST = 15.0
STEPS = 200
BATCH, INPUTS, HIDDEN, CLASSES, EXAMPLES = 32, 64, 64, 10, 64 * 32

strategy = rf.OneDeviceStrategy()
with strategy.scope():
    weights = [
        rf.Variable(np.zeros(shape, np.float32))
        for shape in ((INPUTS, HIDDEN), (HIDDEN, ), (HIDDEN, CLASSES), (CLASSES, ))
    ]
    optimizer = Optimizer("sgd")
dataset = rf.data.Dataset.from_tensor_slices(
    (np.zeros((EXAMPLES, INPUTS), np.float32), np.arange(EXAMPLES, dtype=np.int32) % CLASSES))
batches = strategy.experimental_distribute_dataset(dataset.batch(BATCH))


def train_step(inputs):
    images, labels = inputs
    with rf.GradientTape() as tape:
        hidden = rf.nn.relu(rf.nn.bias_add(rf.matmul(images, weights[0]), weights[1]))
        logits = rf.nn.bias_add(rf.matmul(hidden, weights[2]), weights[3])
        losses = rf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = rf.nn.compute_average_loss(losses)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss


@rf.function
def distributed_train_step(inputs):
    return strategy.reduce(rf.ReduceOp.SUM, strategy.run(train_step, args=(inputs, )), axis=None)


def python():
    begin, done, total = time.thread_time(), 0, 0.0
    while True:
        for batch in batches:
            total += distributed_train_step(batch)
            done += 1
            if done == STEPS:
                return (time.thread_time() - begin) / STEPS * 1e6


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    process = subprocess.Popen([sys.argv[1], str(STEPS)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, bufsize=1)

    def c():
        process.stdin.write("\n")
        return float(process.stdout.readline())

    python(), c()  # traces and compiles
    ours, theirs, more = [], [], float("inf")
    # Whatever disturbs makes steps longer, and never shorter: a machine with other work takes more
    # rounds.
    while len(ours) < rounds and (more > MOST or len(ours) < 20):
        ours.append(python())
        theirs.append(c())
        more = min(ours) - min(theirs)
    process.stdin.close()
    if process.wait(60) != 0:
        sys.exit("the C program failed")
    print("fastest of %d rounds of %d steps: Python %.1f us, C %.1f us, %.1f more (median %.1f)" %
          (len(ours), STEPS, min(ours), min(theirs), more,
           statistics.median(ours) - statistics.median(theirs)))
    sys.exit(more > MOST)


if __name__ == "__main__":
    main()
