# SPDX-License-Identifier: Apache-2.0
"""What a training leaves behind for those who look at it: event files of the TensorBoard callback,
traces, and curves of both.

Usage: test_observing.py RINGFIRE EXAMPLES_DIRECTORY"""
import collections
import json
import pathlib
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "persist")]
import digits  # noqa: E402
import programs  # noqa: E402
import read_events  # noqa: E402

RINGFIRE, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
BENCH = RINGFIRE + "-bench"  # built beside it


def spans(trace, pid=None):
    return [e for e in trace if e["ph"] == "X" and (pid is None or e["pid"] == pid)]


class Observing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        digits.write_both(cls.root)
        options = ("--data", cls.root, "--epochs", "3", "--batch-size", "16", "--devices",
                   "llvmpipe")
        cls.one = programs.run(EXAMPLES / "fit_callbacks", *options, "--logdir", cls.root / "logs",
                               env={"RINGFIRE_TRACE": str(cls.root / "one.json"),
                                    "RINGFIRE_TRACE_OPS": "2"})
        cls.two = programs.run(RINGFIRE, "run", "-n", "2", "--insecure", EXAMPLES / "fit_callbacks",
                               *options,
                               env={"RINGFIRE_TRACE": str(cls.root / "two.json"),
                                    "RINGFIRE_TRACE_OPS": "0"})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def load(self, name):
        trace = json.loads((self.root / name).read_text())
        self.assertNotIn("ringfire_dropped", [e["name"] for e in trace])
        return trace

    def check_nesting(self, trace):
        """Spans of one line lie within each other or apart (times have three places, so to a
        nanosecond)."""
        lines = collections.defaultdict(list)
        for span in spans(trace):
            self.assertGreaterEqual(span["ts"], 0)
            self.assertGreaterEqual(span["dur"], 0)
            lines[span["pid"],
                  span["tid"]].append((round(span["ts"] * 1000),
                                       round((span["ts"] + span["dur"]) * 1000), span["name"]))
        for line in lines.values():
            line.sort(key=lambda s: (s[0], -s[1]))
            open_spans = []
            for begin, end, name in line:
                while open_spans and open_spans[-1][1] <= begin + 1:
                    open_spans.pop()
                if open_spans:
                    self.assertLessEqual(end, open_spans[-1][1] + 1,
                                         "%s crosses %s" % (name, open_spans[-1][2]))
                open_spans.append((begin, end, name))

    def test_ran(self):
        self.assertEqual((self.one.returncode, self.one.stderr), (0, ""))
        self.assertEqual(self.two.returncode, 0, self.two.stderr)
        self.assertRegex(self.one.stdout, r"Speed in epoch 3: \d+ images/s")

    def events(self, part):
        path, = (self.root / "logs" / part).iterdir()
        return list(read_events.events(path))

    def test_tensorboard(self):
        train, validation = self.events("train"), self.events("validation")
        values = lambda events, tag: [(e["step"], e["values"][0]) for e in events
                                      if e.get("tag") == tag]
        for tag in ("epoch_loss", "epoch_accuracy", "epoch_learning_rate"):
            self.assertEqual([step for step, _ in values(train, tag)], [0, 1, 2])
        for tag in ("epoch_loss", "epoch_accuracy"):
            self.assertEqual([step for step, _ in values(validation, tag)], [0, 1, 2])
        self.assertLess(values(train, "epoch_loss")[2][1], values(train, "epoch_loss")[0][1])
        for _, rate in values(train, "epoch_learning_rate"):
            self.assertAlmostEqual(rate, 1e-3, delta=1e-9)
        # one group of up to 20 an epoch
        self.assertEqual([step for step, _ in values(train, "batch_loss")], [5, 10, 15])
        self.assertEqual(len(values(train, "batch_steps_per_second")), 3)
        kernels = [e for e in train if e.get("tag") == "dense_1/kernel/histogram"]
        self.assertEqual([e["step"] for e in kernels], [0, 1, 2])
        self.assertEqual(sum(kernels[0]["values"][2::3]), 640)
        # the printed values are the same
        self.assertIn("loss: %.4g," % values(train, "epoch_loss")[2][1], self.one.stdout)

    def test_graph(self):
        graph, = [e["nodes"] for e in self.events("train") if e["kind"] == "graph"]
        names = {n["name"] for n in graph}
        self.assertEqual(len(names), len(graph))
        for node in graph:
            for name in node["inputs"]:
                self.assertIn(name.split(":")[0], names)
        self.assertTrue({"conv2d", "matmul", "VariableV2",
                         "Placeholder"} <= {n["op"] for n in graph})

    def test_plot(self):
        done = programs.run(RINGFIRE, "plot", self.root / "logs")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("epoch_accuracy", done.stdout)

    def test_trace(self):
        trace = self.load("one.json")
        self.check_nesting(trace)
        names = collections.Counter((e["cat"], e["name"].split(" (")[0]) for e in spans(trace))
        for name in (("run", "train_step"), ("run", "evaluate_step"), ("replica", "upload"),
                     ("replica", "submit"),
                     ("replica", "acquire"), ("replica", "wait"), ("device", "train_step"),
                     ("device", "update"),
                     ("op", "conv2d"), ("op", "matmul"), ("op", "adam_update")):
            self.assertIn(name, names)
        self.assertEqual(names["run", "train_step"], 15)
        self.assertEqual(names["device", "train_step"], 15)
        # every second run in detail, each in its own frames
        self.assertTrue(4 <= names["op", "adam_update"] <= 8, names["op", "adam_update"])
        # the device computes after the host has submitted
        submitted = min(e["ts"] for e in spans(trace) if e["name"] == "submit")
        self.assertGreaterEqual(min(e["ts"] for e in spans(trace) if e["cat"] == "device"
                                    and e["name"] == "train_step"), submitted)
        tracks = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
        device, = {e["tid"] for e in spans(trace) if e["cat"] == "op"}
        self.assertIn("llvmpipe", tracks[device])

    def test_trace_of_a_benchmark(self):
        """Benchmarks measure in processes of their own, which end without exit handlers; their
        traces are whole."""
        trace = self.root / "zoo.json"
        done = programs.run(BENCH, "zoo", "--model", "ncf", "--batch", "2", "--seconds", "0.001",
                            "--device", "llvmpipe",
                            env={"RINGFIRE_TRACE": str(trace)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue([e for e in json.loads(trace.read_text()) if e.get("name") == "train_step"])

    def test_merge(self):
        files = [self.root / ("two.rank%d.json" % r) for r in (0, 1)]
        for rank, path in enumerate(files):
            self.assertEqual({e["pid"] for e in self.load(path.name)}, {rank})
        out = self.root / "merged.json"
        done = programs.run(RINGFIRE, "trace", "merge", out, *files)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        trace = self.load("merged.json")
        # and that it was merged
        self.assertEqual(len(trace), sum(len(self.load(f.name)) for f in files) + 1)
        self.check_nesting(trace)
        for rank in (0, 1):
            names = {e["name"].split(" ")[0] for e in spans(trace, rank)}
            self.assertTrue({"train_step", "wait", "reduce", "gather", "reduce_scatter",
                             "all_gather", "send", "receive"} <= names, names)
            self.assertEqual({e["args"]["peer"] for e in spans(trace, rank) if e["name"] == "send"},
                             {1 - rank})
            self.assertNotIn("op", {e["cat"] for e in spans(trace, rank)})
        # a collective ends on one rank only after the other has begun it
        of = [{e["args"]["operation"]: e for e in spans(trace, r)
               if "operation" in e.get("args", {})} for r in (0, 1)]
        self.assertEqual(set(of[0]), set(of[1]))
        for number in of[0]:
            a, b = of[0][number], of[1][number]
            self.assertGreater(a["ts"] + a["dur"], b["ts"] - 1000)
            self.assertGreater(b["ts"] + b["dur"], a["ts"] - 1000)

    def test_merge_cut(self):
        """The file of a program that was killed."""
        text = (self.root / "two.rank1.json").read_text()
        cut, out = self.root / "cut.json", self.root / "merged_cut.json"
        cut.write_text(text[:len(text) // 2])
        done = programs.run(RINGFIRE, "trace", "merge", out, self.root / "two.rank0.json", cut)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^ringfire: trace '.*cut.json' is truncated .*\n$")
        self.assertEqual({e["pid"] for e in self.load("merged_cut.json")}, {0, 1})

    def test_errors(self):
        other = self.root / "other.json"
        other.write_text("[1, {}]")
        for arguments, part in ((("merge", "x", "/nonexistent"), "/nonexistent"),
                                (("merge", "x", other), "not a trace of Ringfire"),
                                (("merge", "/nonexistent/x", self.root / "one.json"),
                                 "/nonexistent/x"), (("split",), "merge"),
                                (("merge", "x"), "files")):
            done = programs.run(RINGFIRE, "trace", *arguments)
            self.assertGreater(done.returncode, 0)
            self.assertIn(part, done.stderr)
        done = programs.run(EXAMPLES / "linear_model", env={"RINGFIRE_TRACE": "/nonexistent/x"})
        self.assertGreater(done.returncode, 0)
        self.assertIn("RINGFIRE_TRACE", done.stderr)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Observing)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
