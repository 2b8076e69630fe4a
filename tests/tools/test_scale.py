# SPDX-License-Identifier: Apache-2.0
"""`ringfire bench scale`: the tables of docs/scaling.md are what the command prints, and the figures follow from each other.

Usage: test_scale.py RINGFIRE SOURCE_ROOT [--update]

--update writes the model's tables of docs/scaling.md anew and tests nothing."""
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])

PAGE = ROOT / "docs/scaling.md"
TABLE = re.compile(r"(?ms)^```text\n\$ ringfire bench scale (--model[^\n]*)\n(.*?)^```$")


def scale(*arguments):
    return programs.run(RINGFIRE, "bench", "scale", *arguments, env={"COLUMNS": None})


def model(*arguments):
    return json.loads(scale("--model", "--json", *arguments).stdout)


class Model(unittest.TestCase):
    def test_documented_tables(self):
        tables = TABLE.findall(PAGE.read_text())
        self.assertGreaterEqual(len(tables), 2)
        for arguments, table in tables:
            with self.subTest(arguments):
                done = scale(*arguments.split())
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, table)

    def test_rows(self):
        """All numbers of ranks for each size; the best schedule is the one with the shortest time."""
        got = model("--ranks", "2,1000", "--gradients", "4K,32M", "--compute", "20ms")
        self.assertEqual([(r["ranks"], r["gradient_bytes"], r["buckets"]) for r in got["results"]],
                         [(2, 4096, 1), (1000, 4096, 1), (2, 32 << 20, 16), (1000, 32 << 20, 16)])
        for row in got["results"]:
            times = row["all_reduce_seconds"]
            self.assertEqual(set(times), {"ring", "doubling", "halving", "hierarchical"})
            self.assertEqual(times[row["best"]], min(times.values()))
            self.assertAlmostEqual(row["step_seconds"], 0.02 + row["exposed_seconds"])
            self.assertLessEqual(row["exposed_seconds"], times[row["best"]] + 1e-12)
            self.assertGreaterEqual(row["exposed_seconds"], times[row["best"]] / row["buckets"] - 1e-12)

    def test_options_count(self):
        """Every figure of the network changes what comes out."""
        options = ("--ranks", "64", "--gradients", "64M")
        before = model(*options)["results"]
        for change in (("--bandwidth", "10gbit"), ("--latency", "50us"), ("--per-host", "4"), ("--inner-bandwidth", "10gbit"),
                       ("--inner-latency", "50us"), ("--sum-rate", "1"), ("--compute", "1ms"), ("--bucket", "64M")):
            with self.subTest(change):
                self.assertNotEqual(model(*options, *change)["results"], before)

    def test_one_rank(self):
        row = model("--ranks", "1", "--gradients", "1G")["results"][0]
        self.assertEqual((row["step_seconds"], row["sharded_step_seconds"]), (0.1, 0.1))


def update():
    PAGE.write_text(TABLE.sub(lambda m: "```text\n$ ringfire bench scale %s\n%s```" % (m[1], scale(*m[1].split()).stdout), PAGE.read_text()))


if __name__ == "__main__":
    if sys.argv[3:] == ["--update"]:
        sys.exit(update())
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
