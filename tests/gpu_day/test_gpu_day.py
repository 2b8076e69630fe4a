# SPDX-License-Identifier: Apache-2.0
"""The report of a GPU day: what it decides, and one on whatever devices there are. Usage:
test_gpu_day.py [PROGRAMS]"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import driver  # noqa: E402
import gpu_report  # noqa: E402
import phases  # noqa: E402
import verdict  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None


def record(phase, step, **more):
    return {"phase": phase, "step": step, "command": ["test_ops"], "seconds": 1.0, "status": 0,
            "timed_out": False, "errors": "", **more}


def row(op, case, kernel, seconds, chosen=True, gflops=1.0):
    return {"op": op, "case": case, "kernel": kernel, "seconds": seconds, "gflops": gflops,
            "gbytes": 1.0, "chosen": chosen}


class Phases(unittest.TestCase):
    def test_limits_fit_the_budget(self):
        for budget in (60, 300, 585):
            made = phases.make(pathlib.Path("p"), 16, budget, baseline=("python3",))
            self.assertLessEqual(sum(p.seconds for p in made), budget + 1e-6)
            for phase in made:
                for step in phase.steps:
                    self.assertLessEqual(step.seconds, phase.seconds)

    def test_every_operation_is_in_one_share(self):
        shares = [s.command[-1] for s in phases.correct(pathlib.Path("p"), 3, 10, True)]
        self.assertEqual(shares, ["0/3", "1/3", "2/3"])

    def test_operations_are_tried_in_16_bits(self):
        steps = phases.correct(pathlib.Path("p"), 8, 10, False)
        for kind in ("f16", "bf16"):
            self.assertEqual([s.command[-1] for s in steps if kind in s.command], ["0/2", "1/2"])

    def test_what_is_right_comes_before_what_is_fast(self):
        names = [p.name for p in phases.make(pathlib.Path("p"), 2)]
        self.assertLess(names.index("correct"), names.index("kernels"))
        self.assertNotIn("baseline", names)
        self.assertEqual(phases.NAMES,
                         tuple(p.name
                               for p in phases.make(pathlib.Path("p"), 2, baseline=("python3",))))

    def test_every_operation_is_measured_once(self):
        names = re.findall(r"\bOP\((\w+)\)", (ROOT / "src/ops/op_list.h").read_text())
        self.assertGreater(len(names), 80)
        for name in names:
            taken = [text for text in phases.OPERATIONS if phases.takes(text, name)]
            self.assertEqual(len(taken), 0 if name in phases.UNMEASURED else 1, (name, taken))
        for text in phases.OPERATIONS:
            self.assertTrue(any(phases.takes(text, name) for name in names), text)
        steps = [s
                 for s in dict((p.name, p)
                               for p in phases.make(pathlib.Path("p"), 2))["kernels"].steps
                 if s.name.startswith("operation ")]
        self.assertEqual([s.command[s.command.index("--op") + 1] for s in steps],
                         list(phases.OPERATIONS))
        self.assertTrue(all(s.json for s in steps))

    def test_every_network_has_a_step(self):
        known = re.findall(r'^    { "(\w+)", "\w+", (\d+), ',
                           (ROOT / "tools/bench/zoo_nets.c").read_text(), re.M)
        self.assertEqual(phases.NETWORKS,
                         {name: int(batch) for name, batch in known if name != "cnn"})
        steps = dict((p.name, p) for p in phases.make(pathlib.Path("p"), 2))["network"].steps
        self.assertEqual([s.name for s in steps if s.name.startswith("network ")],
                         ["network " + name for name in phases.NETWORKS])

    def test_the_baseline_alone_may_compile(self):
        (alone,), whole = (phases.make(pathlib.Path("p"), 2, baseline=("python3",), only=only)
                           for only in (["baseline"], None))
        self.assertGreater(alone.seconds, 4 * dict((p.name, p.seconds) for p in whole)["baseline"])
        self.assertEqual(alone.steps[0].command, ("python3", "--budget", "320"))

    def test_language_models_are_trained_where_they_are_named(self):
        def made(only):
            return phases.make(pathlib.Path("p"), 2, only=only, language=("python3", "script"))

        self.assertNotIn("language", [p.name for p in made(None)])
        (phase,) = made(["language"])
        self.assertLessEqual(phase.seconds, phases.BUDGET)
        command = [str(part) for part in phase.steps[0].command]
        self.assertEqual(command[:3], ["python3", "script", "p/tests/" + phases.LANGUAGE])
        self.assertLess(float(command[-1]), phase.seconds)

    def test_only_some(self):
        made = phases.make(pathlib.Path("p"), 2, only=["soak", "inventory"])
        self.assertEqual([p.name for p in made], ["inventory", "soak"])
        made = phases.make(pathlib.Path("p"), 2,
                           only=["kernels/products", "network/network b", "network/cnn", "device"])
        self.assertEqual([(p.name, [s.name for s in p.steps]) for p in made],
                         [("device", ["device"]), ("kernels", ["products", "products in bfloat16"]),
                          ("network",
                           ["cnn", "cnn, batch 256", "cnn, batch 1024", "network bert"])])


class Driver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def manifest(self, name, library):
        path = self.path / name
        path.write_text(json.dumps({"ICD": {"library_path": library}}))
        return str(path)

    def find(self, library=lambda name: None, environment=None, answers=bool):
        return driver.find(self.path, environment or {}, (str(self.path / "*.json"),), library,
                           lambda path: True, answers)

    def test_the_environment_decides(self):
        self.manifest("a.json", "liba.so")
        self.assertEqual(self.find(environment={"VK_ICD_FILENAMES": "/mine.json"}), "/mine.json")

    def test_gpus_before_software(self):
        self.manifest("lvp_icd.json", "libvulkan_lvp.so")
        radeon = self.manifest("radeon_icd.json", "libvulkan_radeon.so")
        self.assertEqual(self.find(), radeon)

    def test_drivers_of_gpus_that_are_not_there(self):
        lavapipe = self.manifest("lvp_icd.json", "libvulkan_lvp.so")
        self.manifest("radeon_icd.json", "libvulkan_radeon.so")
        self.manifest("intel_icd.json", "libvulkan_intel.so")
        self.assertEqual(self.find(answers=lambda drivers: "lvp" in drivers), lavapipe)
        self.assertIsNone(self.find(answers=lambda drivers: False))

    def test_software_where_there_is_nothing_else(self):
        lavapipe = self.manifest("lvp_icd.json", "libvulkan_lvp.so")
        self.assertEqual(self.find(), lavapipe)

    def test_a_library_without_a_manifest(self):
        found = self.find(lambda name: "/usr/lib/libEGL_nvidia.so.0" if name.startswith("libEGL")
                          else None)
        self.assertEqual(driver.library_of(found), "/usr/lib/libEGL_nvidia.so.0")

    def test_none(self):
        (self.path / "cut.json").write_text('{"ICD": ')
        self.assertIsNone(self.find())
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES", driver.HELP)


class Verdict(unittest.TestCase):
    def setUp(self):
        ops = [row("matmul", "square_4096", "block", 1.0, gflops=40000),
               row("add", "a", "flat", 2.0), row("add", "a", "wide", 1.0, chosen=False)]
        profile = [{**row("conv2d", "", "block", 90e-6, gflops=20000)},
                   {**row("adam", "", "flat", 10e-6), "gbytes": 100.0}]
        self.records = [
            record("correct", "operations 1 of 1", failed=["FAIL conv2d/odd_3/tile256 on H100: 4 "
                                                           "of 10 wrong",
                                                           "[  FAILED  ] test_split"], status=1),
            record("correct", "test_exec", status=None, timed_out=True),
            record("kernels", "operation matmul", result={"ops": ops[:1]}),
            record("kernels", "operation =add", result={"ops": ops[1:]}),
            record("kernels", "operation cast", status=None, timed_out=True),
            record("network", "network gpt", result={
                "networks": [{"model": "gpt", "unit": "tokens", "batch": 12,
                              "units_per_second": 5e5, "step_seconds": 2e-3}],
                "profile": [row("add", "", "flat", 1e-6), row("matmul", "", "block", 5e-6),
                            row("add", "", "flat", 9e-6)]
                + [row("op%d" % i, "", "k", 1e-7 * i) for i in range(1, 6)]}),
            record("network", "network vae", status=1),
            record("device", "device",
                   result={"rates": [{"what": "multiply-adds", "value": 40000.0},
                                     {"what": "memory, read and write", "value": 100.0}]}),
            record("network", "cnn", result={"images_per_second": 500000.0, "device": "H100",
                                             "profile": profile}),
            record("baseline", "pytorch", result={"gflops": {"float32 4096": 50000.0}, "rates": {
                "cnn": {"eager": 90000.0, "eager, channels last": 100000.0, "graph": 400000.0,
                        "graph, compiled": 600000.0},
                "gpt": {"eager": 1e5, "graph": 2e5}}})]

    def test_goals(self):
        product, eager, graph, half = verdict.goals(self.records)
        self.assertEqual((product.ratio, product.passed), (0.8, True))
        self.assertEqual((eager.ratio, eager.passed), (5.0, True))
        self.assertFalse(graph.passed)
        self.assertTrue(graph.text.endswith("the best of PyTorch's forms (graph, compiled)"))
        eager_only = [record("baseline", "pytorch", result={"rates": {"cnn": {"eager": 1.0}}})]
        self.assertEqual([(goal.baseline, goal.reason) for goal in verdict.goals(eager_only)[1:3]],
                         [(1.0, ""), (None, "PyTorch captured no graph here")])
        self.assertIsNone(half.passed)

    def test_nothing_measured_is_not_passed(self):
        self.assertTrue(all(goal.passed is None and goal.reason for goal in verdict.goals([])))
        self.assertIn("not measured", verdict.make([], []))

    def test_failures_can_be_repeated(self):
        (wrong, repeat), (case, _), (late, _) = verdict.failures(self.records)
        self.assertEqual(wrong, "conv2d/odd_3/tile256: 4 of 10 wrong")
        self.assertEqual(repeat, "test_ops --op conv2d --case odd_3 --kernel tile256")
        self.assertIn("test_split", case)
        self.assertIn("did not end", late)

    def test_a_crash_without_a_line_is_a_failure(self):
        self.assertEqual(len(verdict.failures([record("correct", "test_exec", status=-11)])), 1)
        self.assertEqual(verdict.failures([record("correct", "test_exec", status=77)]), [])

    def test_fixes_by_lost_time(self):
        first, second = verdict.fixes(self.records)
        self.assertEqual(first["op"], "conv2d")
        self.assertAlmostEqual(first["lost"], 45e-6)
        self.assertAlmostEqual(second["lost"], 0)

    def test_the_choice_that_was_not_the_fastest(self):
        self.assertEqual(verdict.runners_up(self.records), [("add", "a", "flat", "wide", 2.0)])

    def test_networks(self):
        (network, costs), = verdict.networks(self.records)
        self.assertEqual(network["model"], "gpt")
        self.assertEqual([(op, kernel, count) for op, kernel, count, _ in costs],
                         [("add", "flat", 2), ("matmul", "block", 1), ("op5", "k", 1),
                          ("op4", "k", 1), ("op3", "k", 1)])
        self.assertAlmostEqual(costs[0][-1], 10e-6)
        lines = verdict.make(self.records, []).splitlines()
        self.assertIn("| gpt, batch 12 | 2.00 | 500,000 tokens | 200,000 (graph) | 2.50 |", lines)
        self.assertIn("| gpt | add | flat | 2 | 10 |", lines)
        self.assertIn("|  | matmul | block | 1 | 5.00 |", lines)
        lines = verdict.make(self.records[:-1], []).splitlines()
        self.assertIn("| gpt, batch 12 | 2.00 | 500,000 tokens |  |  |", lines)

    def test_what_pytorch_could_not_do_is_told(self):
        self.records[-1]["result"]["errors"] = {"bert, compiled": "no time was left"}
        self.assertIn("these were not measured: bert, compiled (no time was left).",
                      verdict.make(self.records, []))

    def test_the_report_begins_with_the_goals(self):
        lines = verdict.make(self.records, [("system", "a|b")]).splitlines()
        self.assertEqual(lines[0], "# H100")
        self.assertTrue(lines[2].startswith("| goal"))
        self.assertIn("| system | a\\|b |", lines)


class Steps(unittest.TestCase):
    def run_step(self, *command, json_=False, seconds=20.0):
        step = phases.Step("s", command, seconds, json=json_)
        return gpu_report.run_step(phases.Phase("correct", 20, (step,)), step, seconds, {})

    def test_json(self):
        self.assertEqual(self.run_step(sys.executable, "-c", "print('{\"a\": 1}')",
                                       json_=True)["result"], {"a": 1})
        self.assertIn("printed no JSON",
                      self.run_step(sys.executable, "-c", "print('{')", json_=True)["errors"])

    def test_a_step_that_does_not_end(self):
        done = self.run_step(sys.executable, "-c",
                             "import time; print('FAIL a/b: c', flush=True); time.sleep(60)",
                             seconds=1.5)
        self.assertTrue(done["timed_out"])
        self.assertEqual(done["failed"], ["FAIL a/b: c"])

    def test_a_program_that_is_missing(self):
        self.assertEqual(self.run_step("/nowhere/program")["status"], gpu_report.NO_SUCH_PROGRAM)


@unittest.skipUnless(PROGRAMS, "no programs were named")
class Whole(unittest.TestCase):
    def test_small(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, HERE / "gpu_report.py", "--small", "--programs",
                                   PROGRAMS, "--out", out],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            report = (pathlib.Path(out) / "report.md").read_text()
            records = [json.loads(line)
                       for line in (pathlib.Path(out) / "report.jsonl").read_text().splitlines()]
        self.assertIn("| reference CNN, batch 64, against PyTorch step by step: at least 2.0 | ",
                      report)
        self.assertIn("## The first things to fix", report)
        self.assertTrue(verdict.result(records, "network", "cnn")["profile"])
        self.assertEqual([(n["model"], len(costs)) for n, costs in verdict.networks(records)],
                         [("ncf", verdict.MOST_OF_NETWORK)])
        self.assertIn("## Networks", report)
        self.assertTrue(all(r["status"] == 0 for r in records
                            if r["phase"] in ("correct", "device", "kernels", "network")),
                        done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
