# SPDX-License-Identifier: Apache-2.0
"""Parameter servers from Python: the example in clusters of four tasks, and what is refused.

Usage: test_parameter_server.py ROOT"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import ringfire as rf

ROOT = pathlib.Path(sys.argv.pop())
sys.path.insert(0, str(ROOT / "tests/support"))
import digits  # noqa: E402
from programs import free_port  # noqa: E402

CLUSTER = {"chief": 1, "worker": 2, "ps": 1}
LINE = r"Epoch (\d+): loss of the last step (\d\.\d+), test accuracy (\d\.\d+)"
# A chief and its workers, around a step and what is done with it.
PROGRAM = """
import sys
import time
import numpy as np
import ringfire as rf
if rf.distribute.TFConfigClusterResolver().task_type == 'ps':
    rf.distribute.Server('0').join()
    sys.exit()
strategy = rf.distribute.ParameterServerStrategy(devices='0')
with strategy.scope():
    weight = rf.Variable([1.0, 2.0], name='weight')
    count = rf.Variable(0.0, trainable=False, name='count')
    optimizer = rf.keras.optimizers.SGD(0.5)
coordinator = rf.distribute.ClusterCoordinator(strategy, synchronous=True)
rows = np.arange(8, dtype=np.float32).reshape(8, 1)
data = coordinator.create_per_worker_dataset(
    lambda: rf.data.Dataset.from_tensor_slices(rows).batch(2))
iterator = iter(data)

def step(x):
    loss = rf.nn.compute_average_loss(rf.reduce_sum(x * weight, axis=1))
    optimizer.minimize(loss, [weight])
    count.assign(count + 1.0)
    return loss

def wait_for_workers():
    deadline = time.monotonic() + 60
    while strategy.is_chief and coordinator.stats['num_workers'] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)

def train(iterator):
    return strategy.reduce('sum', strategy.run(step, (next(iterator), )))

def value(iterator):
    return rf.reduce_sum(next(iterator)) * 0.0 + rf.reduce_sum(weight)

def broken(iterator):
    return 1.0 if next(iterator) > 0 else 2.0
"""


class Cluster(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tasks(self, *command):
        """What the chief prints."""
        cluster = {kind: ["127.0.0.1:%d" % free_port() for _ in range(count)]
                   for kind, count in CLUSTER.items()}
        tasks = [(kind, i) for kind, count in CLUSTER.items() for i in range(count)]
        started = []
        self.addCleanup(lambda: [p.kill() for p in started if p.poll() is None])
        for kind, index in tasks:
            config = {"cluster": cluster, "task": {"type": kind, "index": index}}
            started.append(
                subprocess.Popen(
                    [sys.executable, *map(str, command)],
                    env={**os.environ, "TF_CONFIG": json.dumps(config), "RINGFIRE_DEVICES": "0"},
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        made = [p.communicate(timeout=100) for p in started]
        for process, task, (_, errors) in zip(started, tasks, made):
            self.assertEqual(process.returncode, 0, "%s: %s" % (task, errors))
        self.assertEqual([out for out, _ in made[1:]], ["", "", ""])
        return made[0][0]

    def test_example(self):
        digits.write_both(self.folder, digits.patterns, 640, 100)
        # Gradients that are a step old make this network learn slowly.
        for options, accuracy in ([], 0.3), (["--synchronous"], 0.9):
            with self.subTest(options):
                out = self.run_tasks(ROOT / "examples/python/parameter_server.py", "--data",
                                     self.folder, "--epochs", 10, *options)
                epochs = re.findall(LINE, out)
                self.assertEqual([int(e[0]) for e in epochs], list(range(1, 11)), out)
                self.assertLess(float(epochs[-1][1]), float(epochs[0][1]))
                self.assertGreater(float(epochs[-1][2]), accuracy, out)

    def test_numbers(self):
        """Two shares of a step: the mean over all of its rows, and counts that are averaged."""
        program = self.folder / "weights.py"
        program.write_text(PROGRAM + """
wait_for_workers()
coordinator.register(value, (iterator, ), update=False)
first = coordinator.schedule(train, (iterator, ))
second = coordinator.schedule(train, (iterator, ))
print(coordinator.fetch([first, second]))
coordinator.join()
print(weight.numpy().tolist(), float(count), int(optimizer.iterations), coordinator.done())
print(coordinator.schedule(value, (iterator, )).fetch(), coordinator.stats['num_workers'])
coordinator.schedule(broken, (iterator, ))
try:
    coordinator.join()
except rf.Error as error:
    print(error)
""")
        # Rows 0 to 3 have the mean 1.5, and rows 4 to 7 5.5: the loss is that times the weights.
        out = self.run_tasks(program).splitlines()
        self.assertEqual(out[0], "[%s, %s]" % (1.5 * 3.0, 5.5 * (3.0 - 1.5)))
        self.assertEqual(out[1], "%s 2.0 2 True" % [1 - 0.5 * 7, 2 - 0.5 * 7])
        self.assertEqual(out[2], "-4.0 2")
        self.assertIn("broken", out[3])

    def test_failures_are_told(self):
        """The chief hears what a worker's function cannot do, with its line."""
        program = self.folder / "failing.py"
        program.write_text(PROGRAM + """
wait_for_workers()
coordinator.schedule(broken, (iterator, ))
try:
    coordinator.join()
except rf.Error as error:
    print(error)
""")
        self.assertRegex(self.run_tasks(program),
                         r"failing\.py:\d+: a condition needs a number")


class Refusals(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.environ.pop, "TF_CONFIG", None)
        self.task("chief")

    def task(self, kind):
        cluster = {name: ["%s:%d" % (name, i) for i in range(1, count + 1)]
                   for name, count in CLUSTER.items()}
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": cluster, "task": {"type": kind, "index": 0}})

    def coordinator(self, dataset=None):
        strategy = rf.ParameterServerStrategy(devices="0")
        coordinator = rf.distribute.ClusterCoordinator(strategy)
        if dataset is None:
            dataset = rf.data.Dataset.from_tensor_slices(np.ones((4, 2), np.float32)).batch(2)
        return coordinator, iter(coordinator.create_per_worker_dataset(dataset))

    def refused(self, kind, message):
        return self.assertRaisesRegex(kind, message)

    def test_tasks(self):
        self.task("ps")
        with self.refused(rf.InvalidArgumentError, r"Server\(\).join\(\)"):
            rf.ParameterServerStrategy()
        del os.environ["TF_CONFIG"]
        with self.refused(rf.NotFoundError, "TF_CONFIG"):
            rf.ParameterServerStrategy()

    def test_fit(self):
        coordinator, _ = self.coordinator()
        with coordinator.strategy.scope():
            model = rf.keras.Sequential([rf.keras.layers.Dense(1)])
            model.compile(optimizer="sgd", loss="mse")
        with self.refused(rf.UnsupportedError, "ClusterCoordinator"):
            model.fit(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32))

    def test_scheduling(self):
        coordinator, iterator = self.coordinator()
        with self.refused(rf.InvalidArgumentError, "one argument that is an iterator"):
            coordinator.schedule(lambda: 0.0)
        with self.refused(rf.InvalidArgumentError, "servers run one optimizer; 0 were made"):
            coordinator.schedule(lambda i: next(i), (iterator, ))
        with coordinator.strategy.scope():
            model = rf.keras.Sequential([rf.keras.layers.Dense(1)])
            optimizer = rf.keras.optimizers.SGD()
        with self.refused(rf.InvalidArgumentError, "'sequential' has no variables yet"):
            coordinator.join()
        del model, optimizer
        with self.refused(rf.TraceError, "are on the workers"):
            next(iterator)
        with self.refused(rf.InvalidArgumentError, r"needs batch\(\)"):
            self.coordinator(rf.data.Dataset.from_tensor_slices(np.ones((4, 2), np.float32)))
        with self.refused(rf.InvalidArgumentError, "needs a ParameterServerStrategy"):
            rf.distribute.ClusterCoordinator(rf.MirroredStrategy("0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
