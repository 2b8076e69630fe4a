# SPDX-License-Identifier: Apache-2.0
"""What all commands of the tool have in common: every command that the help lists has --version,
--help and --json, names what is wrong with its arguments, and ends with the codes of
docs/reference/commands/index.md; the pages there have the help as it is printed.

Usage: test_commands.py RINGFIRE SOURCE_ROOT [--update]

--update writes the help into the pages anew and tests nothing."""
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import programs  # noqa: E402

RINGFIRE, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
FIXTURES = ROOT / "tests/train/fixtures"
PAGES = ROOT / "docs/reference/commands"
HELP = re.compile(r"(?ms)^```text\n\$ ringfire (\w+) --help\n(.*?)^```$")
NO_DRIVER = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
OK, FAILED, NO, USAGE = 0, 1, 1, 2


def ringfire(*arguments, env=None):
    """Runs `ringfire`, or `ringfire-bench`, which is built beside it, where that is the first
    word."""
    program = RINGFIRE
    if arguments[:1] == ("ringfire-bench",):
        program, arguments = RINGFIRE + "-bench", arguments[1:]
    return programs.run(program, *arguments, env={"COLUMNS": None, **(env or {})})


def listed_commands():
    """As the help names them: ("devices",), ("ckpt", "show"), ("ringfire-bench", "ops"), ..."""
    for program in ((), ("ringfire-bench",)):
        listing = re.search(r"Commands:\n((?:  \S.*\n)+)", ringfire(*program, "--help").stdout)[1]
        for name in re.findall(r"(?m)^  (\S+)", listing):
            usage = ringfire(*program, name, "--help").stdout
            called = " ".join(program or ("ringfire",))
            words = re.findall(r"(?m)^(?:Usage:|  or:) +%s %s \[OPTION\.\.\.\](?: ([a-z]+)\b)?"
                               % (called, name), usage)
            for word in words:
                yield (*program, name, word) if word else (*program, name)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "log.csv").write_text("epoch,loss\n0,1.5\n1,nan\n2,0.5\n")
        for rank in (0, 1):
            clock = {"ph": "M", "pid": rank, "name": "ringfire_clock",
                     "args": {"wall_start_ns": 1000 * rank, "host": "h"}}
            (self.root / ("rank%d.json" % rank)).write_text(json.dumps([clock]))
        shutil.copy(FIXTURES / "model1.rfck", self.root)
        (self.root / "cut.rfck").write_bytes((FIXTURES / "model1.rfck").read_bytes()[:300])

    def calls(self):
        """A short call of every command, and what its document has to hold."""
        model, other = FIXTURES / "model1.rfck", FIXTURES / "layers-model.rfck"
        out = self.root / "out"
        return {
            ("devices",): ((), lambda d: d[0]["name"] and d[0]["memory_bytes"] > 0),
            ("bench",): (("--seconds", "0.001", "--batch", "2", "--devices", "llvmpipe"),
                         lambda d: ("llvmpipe" in d["devices"][0]["device"]
                                    and d["together"] is None)),
            ("ringfire-bench", "ops"): (("--op", "argmax", "--seconds", "0.001", "--device",
                                         "llvmpipe"), lambda d: d["ops"][0]["op"] == "argmax"),
            ("ringfire-bench", "kernels"): (("--op", "argmax", "--device", "llvmpipe"),
                                            lambda d: (d["kernels"][0]["op"] == "argmax"
                                                       and "llvmpipe" in d["device"])),
            ("ringfire-bench", "device"): (("--device", "llvmpipe", "--seconds", "0.001"),
                                           lambda d: (len(d["rates"]) > 15
                                                      and all(r["value"] > 0 for r in d["rates"]))),
            ("ringfire-bench", "model"): (("--batch", "4", "--seconds", "0.01", "--device",
                                           "llvmpipe"), lambda d: d["images_per_second"] > 0),
            ("ringfire-bench", "zoo"): (("--model", "gpt", "--batch", "1", "--seconds", "0.001",
                                         "--device", "llvmpipe"),
                                        lambda d: (d["networks"][0]["units_per_second"] > 0
                                                   and d["networks"][0]["parameters"] == 808064)),
            ("ringfire-bench", "audit"): (
                ("--network", "ncf", "--kernel", "matmul/lanes*", "--batch", "64", "--turns",
                 "1", "--device", "llvmpipe"),
                lambda d: (d["networks"][0]["seconds"] > 0
                           and d["variants"][0]["networks"][0]["without_seconds"] > 0)),
            ("ringfire-bench", "attention"): (("--length", "40", "--heads", "1", "--width", "8",
                                               "--rounds", "1", "--seconds", "0.001", "--device",
                                               "llvmpipe"),
                                              lambda d: (
                d["lengths"][0]["length"] == 40 and d["lengths"][0]["fused_training_seconds"] > 0)),
            ("ringfire-bench", "allreduce"): (("--size", "4K", "--seconds", "0.01"),
                                              lambda d: (d["ranks"] == 2 and
                                                         d["results"][0]["bytes"] == 4096)),
            ("ringfire-bench", "job"): (("--workers", "8", "--idle", "0.1"),
                                        lambda d: (d["workers"] == 8 and d["formed_seconds"] < 10
                                                   and d["idle_processor_share"] < 1)),
            ("ringfire-bench", "checkpoint"): (("--size", "0.001", "--rounds", "1", "--directory",
                                                self.root), lambda d: d["save_seconds"] > 0),
            ("ringfire-bench", "observe"): (("--batch", "4", "--steps", "1", "--seconds", "0.01",
                                             "--device", "llvmpipe", "--directory", self.root),
                                   lambda d: d["turns"] >= 1),
            ("ringfire-bench", "scale"): (("--model", "--ranks", "8", "--gradients", "1M"),
                                          lambda d: (d["kind"] == "model"
                                                     and d["results"][0]["ranks"] == 8
                                                     and d["results"][0]["best"] == "halving")),
            ("ringfire-bench", "train"): (("--workers", "2", "--batch", "2", "--seconds", "0.01",
                                           "--parameters", "1", "--devices", "llvmpipe"),
                                 lambda d: d["workers"] == 2),
            ("run",): (("-n", "2", "sh", "-c", "echo out; exit $((7 * RINGFIRE_RANK))"),
                       lambda d: d["exit_code"] == 7
                       and [w["rank"] for w in d["workers"]] == [0, 1]
                       and d["workers"][1]["exit_code"] == 7),
            ("keygen",): ((self.root / "key",),
                          lambda d: pathlib.Path(d["key_file"]).stat().st_mode & 0o777 == 0o600),
            ("ckpt", "ls"): ((FIXTURES,), lambda d: d["good"]
                             and {f["kind"]
                                  for f in d["files"]} >= {
                                      "checkpoint", "model", "exported model"}),
            ("ckpt", "show"): ((model,), lambda d: d["kind"] == "model" and len(d["tensors"]) == 12
                               and len(d["values"]) == 7),
            ("ckpt", "verify"): ((model,), lambda d: d["good"] is True),
            ("ckpt", "diff"): ((model, other), lambda d: d["same"] is False
                               and len(d["differences"]) > 3),
            ("ckpt", "convert"): ((model, self.root / "out.safetensors"),
                                  lambda d: d["tensors"] == 12 and "training" in d["left_out"]),
            ("plot",): ((self.root / "log.csv",),
                        lambda d: d["charts"][0]["curves"][0]["y"] == [1.5, None, 0.5]),
            ("report",): ((self.root, "--out", self.root / "page.html"),
                          lambda d: "epoch_loss is not finite at 1" in d["warnings"]),
            ("trace", "merge"): ((out, self.root / "rank0.json", self.root / "rank1.json"),
                                 lambda d: d["events"] == 3 and len(d["merged"]) == 2),
        }

    def test_version_and_help(self):
        version = ringfire("--version").stdout
        self.assertRegex(version, r"^ringfire \d+\.\d+\.\d+\n$")
        self.assertEqual(ringfire("ringfire-bench", "--version").stdout,
                         version.replace("ringfire", "ringfire-bench"))
        commands = set(listed_commands())
        # top succeeds where a job runs: test_top.py.
        self.assertEqual(commands - {("top",)}, set(self.calls()))
        for command in sorted(commands):
            with self.subTest(command):
                for option in ("--version", "-V"):
                    done = ringfire(*command, option)
                    name = "ringfire-bench" if command[0] == "ringfire-bench" else "ringfire"
                    expected = version.replace("ringfire", name)
                    self.assertEqual((done.returncode, done.stdout, done.stderr),
                                     (OK, expected, ""))
                done = ringfire(*command, "--help")
                self.assertEqual((done.returncode, done.stderr), (OK, ""))
                self.assertIn("--json", done.stdout)
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        for program in ((), ("ringfire-bench",)):
            self.assertLessEqual(max(map(len, ringfire(*program, "--help").stdout.splitlines())),
                                 80)

    def test_json(self):
        """One document on standard output and nothing else; with =FILE there, and the text as
        always."""
        for command, (arguments, holds) in self.calls().items():
            with self.subTest(command):
                # before the arguments: run's program has options of its own
                options = command + ("--json",)
                done = ringfire(*options, *arguments)
                self.assertTrue(holds(json.loads(done.stdout)), done.stdout)
                self.assertEqual(done.returncode,
                                 {("run",): 7, ("ckpt", "diff"): NO}.get(command, OK), done.stderr)
        for command in (("devices",), ("ckpt", "show"), ("run",)):
            with self.subTest(command):
                arguments, holds = self.calls()[command]
                file = self.root / "document.json"
                done = ringfire(*command, "--json=%s" % file, *arguments)
                self.assertTrue(holds(json.loads(file.read_text())))
                self.assertRegex(done.stdout,
                                 {"devices": "cpu|discrete|integrated", "ckpt": "tensors",
                                  "run": r"(?m)^\[1\] out$"}[command[0]])
                done = ringfire(*command, "--json=/nonexistent/x", *arguments)
                self.assertEqual((done.returncode, done.stdout), (FAILED, ""))
                self.assertIn("/nonexistent/x: cannot write", done.stderr)

    def test_answers(self):
        """The document of a question whose answer is no."""
        done = ringfire("ckpt", "verify", "--json", self.root / "cut.rfck")
        self.assertEqual(done.returncode, NO)
        answer = json.loads(done.stdout)
        self.assertIs(answer["good"], False)
        self.assertIn("truncated", answer["problem"])
        done = ringfire("ckpt", "ls", "--json", self.root)
        self.assertEqual(done.returncode, NO)
        files = {f["name"]: f for f in json.loads(done.stdout)["files"]}
        self.assertEqual({n: f["good"] for n, f in files.items()},
                         {"cut.rfck": False, "model1.rfck": True})

    def test_train_alone(self):
        """Two devices of one process beside one of them that trains by itself, and beside both that
        do."""
        done = ringfire("ringfire-bench", "train", "--json", "--workers", "1", "--batch", "2",
                        "--seconds", "0.01", "--parameters", "1",
                        "--devices", "llvmpipe,llvmpipe", "--alone")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        measured = json.loads(done.stdout)
        self.assertEqual(measured["replicas"], 2)
        rows = {r["exchange"]: r for r in measured["results"]}
        self.assertEqual(list(rows), ["one replica", "apart", "after", "during"])
        self.assertEqual((rows["one replica"]["bytes"], rows["one replica"]["of_one_replica"],
                          rows["apart"]["bytes"]), (0, 1, 0))
        for name in ("apart", "after", "during"):
            self.assertEqual(rows[name]["bytes"] > 0, name != "apart")
            self.assertAlmostEqual(rows[name]["of_one_replica"] * rows["one replica"][
                "step_seconds"], rows[name]["step_seconds"])
            self.assertGreater(rows[name]["processor_seconds"], 0)

    def test_machine(self):
        """Each device by itself, then both together; the table holds what the document does, and
        nothing tells of progress."""
        document = self.root / "machine.json"
        done = ringfire("bench", "--json=%s" % document, "--seconds", "0.001", "--batch", "2",
                        "--devices", "llvmpipe,llvmpipe")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        measured = json.loads(document.read_text())
        self.assertEqual([d["index"] for d in measured["devices"]],
                         [measured["devices"][0]["index"]] * 2)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^Device +GFLOP/s +GB/s +Steps/s +Images/s$")
        for line, device in zip(lines[1:], measured["devices"]):
            training = device["training"]
            self.assertTrue(line.startswith(device["device"]))
            numbers = (device["products_gflops"], device["memory_gbytes"],
                       training["steps_per_second"], training["images_per_second"])
            self.assertEqual(line[len(device["device"]):].split(),
                             ["%.1f" % n for n in numbers[:3]] + ["%.0f" % numbers[3]])
            self.assertAlmostEqual(training["images_per_second"] * training["step_seconds"], 2)
        together, reduced = measured["together"], measured["all_reduce"]
        self.assertEqual(lines[3].split()[2:], ["-", "-", "%.1f" % together["steps_per_second"],
                                                "%.0f" % together["images_per_second"]])
        self.assertAlmostEqual(together["images_per_second"] * together["step_seconds"], 4)
        self.assertEqual(reduced["bytes"], 16 << 20)
        self.assertAlmostEqual(reduced["gbytes"] * reduced["seconds"] * 1e9, reduced["bytes"],
                               delta=1)
        self.assertEqual(lines[4],
                         "All-reduce of 16 MiB between them: %.2f ms, %.2f GB/s"
                         % (reduced["seconds"] * 1e3, reduced["gbytes"]))

    def test_first_step(self):
        """The first step of a network with empty caches, then with filled ones; the caches are gone
        afterwards."""
        folders = set(pathlib.Path("/tmp").glob("ringfire-first-*"))
        done = ringfire("ringfire-bench", "zoo", "--first-step", "--json", "--model", "ncf",
                        "--batch", "2", "--device", "llvmpipe")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        network, = json.loads(done.stdout)["networks"]
        self.assertGreater(network["pipelines"], 10)
        self.assertGreater(network["cold_processor_seconds"], network["warm_processor_seconds"])
        self.assertGreater(network["warm_processor_seconds"], 0)
        self.assertGreater(network["warm_peak_bytes"], 1e6)
        self.assertEqual(set(pathlib.Path("/tmp").glob("ringfire-first-*")) - folders, set())

    def test_usage(self):
        """What was wrong is named, on standard error, with the allowed range of a number; the code
        is 2."""
        wrong = [((), "COMMAND is missing"), (("devises",), "'devises'"),
                 (("--nonsense",), "'--nonsense'"),
                 (("ringfire-bench",), "COMMAND is missing"),
                 (("ringfire-bench", "dance"), "'dance'")]
        for command in listed_commands():
            wrong.append((command + ("--nonsense",), "'--nonsense'"))
        for name, words in (("ckpt", "ls, show, verify, diff and convert"), ("trace", "merge")):
            wrong += [((name,), words), ((name, "dance"), "'dance'"), ((name, "dance"), words)]
        for command in listed_commands():
            if command[0] in ("devices", "bench", "ringfire-bench"):
                wrong.append((command + ("extra",), "'extra'"))
        wrong += [(("keygen", "a", "extra"), "'extra'"), (("keygen", ""), "FILE"),
                  (("ckpt", "ls", "a", "extra"), "'extra'"),
                  (("ckpt", "show"), "FILE is missing"),
                  (("ckpt", "show", "a", "extra"), "'extra'"),
                  (("ckpt", "verify"), "FILE is missing"),
                  (("ckpt", "diff"), "the first FILE is missing"),
                  (("ckpt", "diff", "a"), "the second FILE is missing"),
                  (("ckpt", "diff", "a", "b", "extra"), "'extra'"),
                  (("ckpt", "convert"), "FROM is missing"),
                  (("ckpt", "convert", "a"), "TO is missing"),
                  (("ckpt", "convert", "a.rfck", "b.rfck"), "*.safetensors"),
                  (("plot",), "LOGDIR is missing"), (("plot", "--out", "x.gif", "."), "'x.gif'"),
                  (("trace", "merge"), "OUT"),
                  (("trace", "merge", "a"), "IN"), (("run",), "PROGRAM is missing"),
                  (("run", "-n"), "-- 'n'"),
                  (("run", "--insecure", "--encrypt", "true"), "--encrypt"),
                  (("run", "-H", "a:b", "true"), "'a:b'"),
                  (("run", "--nnodes", "3:2", "true"), "--nnodes 3:2"),
                  (("ringfire-bench", "allreduce", "--algorithm", "fast"), "'fast'"),
                  (("ringfire-bench", "zoo", "--model", "vgg"),
                   "cnn, resnet, densenet, vae, gpt, bert, transformer, gru, lstm, ncf"),
                  (("ringfire-bench", "zoo", "--profile", "--first-step", "--model", "gpt"),
                   "say one of them"),
                  (("ringfire-bench", "allreduce", "--wire", "f8"), "'f8'"),
                  (("ringfire-bench", "allreduce", "--size", "3x"), "'3x'"),
                  (("ringfire-bench", "scale"), "say --model or --workers LIST"),
                  (("ringfire-bench", "scale", "--model", "--workers", "2"), "one of them"),
                  (("ringfire-bench", "scale", "--workers", "2,65"), "'2,65'"),
                  (("ringfire-bench", "scale", "--workers", "2", "--ranks", "4"), "--ranks is for"),
                  (("ringfire-bench", "scale", "--workers", "2", "--per-host", "4"),
                   "are for --model"),
                  (("ringfire-bench", "scale", "--workers", "2", "--inner-latency", "0"),
                   "are for --model"),
                  (("ringfire-bench", "scale", "--workers", "2", "--gradients", "1M,2M"),
                   "one size is measured"),
                  (("ringfire-bench", "scale", "--model", "--seconds", "1"),
                   "--seconds is for --workers"),
                  (("ringfire-bench", "scale", "--model", "--ranks", "64,0"), "'64,0'"),
                  (("ringfire-bench", "scale", "--model", "--ranks", "2,"), "'2,'"),
                  (("ringfire-bench", "scale", "--model", "--gradients", "1M,x"), "'1M,x'"),
                  (("ringfire-bench", "scale", "--ranks", ",".join("2" * 17)),
                   "not up to 16 numbers"), (("ringfire-bench", "scale", "--bucket", "3"), "'3'"),
                  (("ringfire-bench", "scale", "--latency", "5"), "such as 100us"),
                  (("ringfire-bench", "scale", "--bandwidth", "1gb"), "such as 1gbit"),
                  (("ringfire-bench", "scale", "--sum-rate", "0"), "--sum-rate is '0'"),
                  (("ringfire-bench", "train", "--alone"), "add --workers 1"),
                  (("ringfire-bench", "train", "--alone", "--workers", "1"),
                   "--devices: name them"),
                  (("ringfire-bench", "train", "--alone", "--workers", "1", "--devices", "all"),
                   "--devices: name them")]
        wrong += [(("ringfire-bench", "audit", "--network", "vgg"), "cnn, resnet, densenet"),
                  (("ringfire-bench", "audit", "--kernel", "matmul/fast"),
                   "'matmul/fast', and no kernel is called so"),
                  (("ringfire-bench", "audit", "--clock", "sun"), "device, host and processor")]
        numbers = {("ringfire-bench", "audit"): {"--batch": (1, 1 << 16), "--turns": (1, 1000)},
                   ("bench",): {"--batch": (1, 65536)},
                   ("run",): {"--workers": (1, 1024), "--max-restarts": (0, 1000000),
                              "--master-port": (1, 65535), "--nnodes": (1, 1024)},
                   ("ringfire-bench", "model"): {"--batch": (1, 1 << 20)},
                   ("ringfire-bench", "zoo"): {"--batch": (1, 1 << 16)},
                   ("ringfire-bench", "attention"): {"--length": (1, 1 << 16), "--heads": (1, 1024),
                                                     "--width": (1, 1024), "--rounds": (1, 99)},
                   ("ringfire-bench", "allreduce"): {"--ranks": (2, 16)},
                   ("ringfire-bench", "job"): {"--workers": (2, 1024)},
                   ("ringfire-bench", "checkpoint"): {"--rounds": (1, 32), "--batch": (1, 65536),
                                                      "--threads": (1, 64), "--level": (-100, 22)},
                   ("ringfire-bench", "observe"): {"--batch": (1, 65536), "--steps": (1, 4096)},
                   ("ringfire-bench", "scale"): {"--per-host": (1, 1024)},
                   ("ringfire-bench", "train"): {"--workers": (1, 16), "--batch": (1, 65536),
                                                 "--parameters": (1, 60), "--bucket": (1, 1 << 20),
                                        "--cores-per-worker": (1, 1024)}}
        for command, options in numbers.items():
            for option, (least, most) in options.items():
                for value in (str(least - 1), str(most + 1), "many", "5x", ""):
                    wrong.append((command + (option + "=" + value,),
                                  "%s is '%s', not a number of %d to %d"
                                  % (option, value, least, most)))
        for command, option in ((("bench",), "--seconds"), (("run",), "--grace"),
                                (("ringfire-bench", "ops"), "--seconds"),
                                (("ringfire-bench", "train"), "--seconds")):
            for value in ("-1", "nan", "inf", "soon"):
                wrong.append((command + (option + "=" + value,),
                              "%s is '%s', not a number of seconds" % (option, value)))
        for arguments, part in wrong:
            with self.subTest(arguments):
                done = ringfire(*arguments)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""), done.stderr)
                self.assertTrue(done.stderr.startswith("ringfire"), done.stderr)
                self.assertIn(part, " ".join(done.stderr.split()))

    def test_codes(self):
        """Of what was asked for well but cannot be done, or has another answer."""
        missing, cut, model = (self.root / "missing.rfck", self.root / "cut.rfck",
                               self.root / "model1.rfck")
        (self.root / "key").write_text("")
        codes = [(("devices",), FAILED, NO_DRIVER), (("bench",), FAILED, NO_DRIVER),
                 (("bench", "--devices", "voodoo"), FAILED, {}),
                 (("ringfire-bench", "allreduce", "--provider", "voodoo"), FAILED, {}),
                 (("ringfire-bench", "checkpoint", "--size", "0.001", "--directory",
                   "/nonexistent"), FAILED, {}),
                 (("keygen", self.root / "key"), FAILED, {}), (("ckpt", "ls", missing), FAILED, {}),
                 (("ckpt", "ls", self.root), NO, {}),
                 (("ckpt", "ls", FIXTURES), OK, {}), (("ckpt", "show", missing), FAILED, {}),
                 (("ckpt", "show", model), OK, {}),
                 (("ckpt", "verify", model), OK, {}), (("ckpt", "verify", cut), NO, {}),
                 (("ckpt", "verify", missing), FAILED, {}),
                 (("ckpt", "diff", model, model), OK, {}),
                 (("ckpt", "diff", model, FIXTURES / "layers-model.rfck"), NO, {}),
                 (("ckpt", "diff", model, missing), 2, {}),
                 (("ckpt", "convert", missing, self.root / "x.safetensors"), FAILED, {}),
                 (("plot", self.root / "nowhere"), FAILED, {}),
                 (("plot", self.root / "log.csv"), OK, {}),
                 (("report", self.root / "nowhere"), FAILED, {}),
                 (("top", "--run", self.root / "nowhere"), FAILED, {}),
                 (("trace", "merge", self.root / "x", missing), FAILED, {}),
                 (("run", "true"), OK, {}), (("run", "sh", "-c", "exit 7"), 7, {}),
                 (("run", "sh", "-c", "exit 75"), 75, {}),
                 (("run", "sh", "-c", "kill -9 $$"), 128 + 9, {}),
                 (("run", "--hostfile", missing, "true"), FAILED, {}),
                 (("run", "-n", "3", "-H", "localhost", "true"), FAILED, {})]
        codes += [(("ringfire-bench", name, "--device", "voodoo"), FAILED, {})
                  for name in ("ops", "kernels", "device", "model", "zoo", "attention", "observe")]
        codes += [(("ringfire-bench", "kernels", "--op", "argmax", "--device", "llvmpipe",
                    "--compare", path), FAILED, {}) for path in (missing, self.root / "log.csv")]
        codes += [(("ringfire-bench", "train", "--devices", "voodoo"), FAILED, {}),
                  (("ringfire-bench", "audit", "--device", "voodoo"), FAILED, {})]
        codes += [(("ringfire-bench", *words, "--json=/nonexistent/x"), FAILED,
                   {}) for words in (("scale", "--model"), ("job",))]
        asked = set()
        for arguments, code, env in codes:
            with self.subTest(arguments):
                words = 2 if arguments[0] in ("ckpt", "ringfire-bench", "trace") else 1
                asked.add(arguments[:words])
                done = ringfire(*arguments, env=env)
                self.assertEqual(done.returncode, code, done.stderr)
                if code == FAILED and arguments[:2] not in (("ckpt", "ls"), ("ckpt", "diff")):
                    self.assertTrue(done.stderr.startswith("ringfire"), done.stderr)
        self.assertEqual(asked, set(listed_commands()))

    def test_codes_are_documented(self):
        in_help = dict(re.findall(r"(?m)^  (\d)  (\w+)", ringfire("--help").stdout))
        in_docs = dict(re.findall(r"(?m)^\| (\d) \| (\w+)", (PAGES / "index.md").read_text()))
        self.assertEqual(in_help, in_docs)
        self.assertEqual(set(in_help), {"0", "1", "2"})

    def test_help_is_documented(self):
        pages = {p.stem for p in PAGES.glob("*.md")} - {"index"}
        self.assertEqual(pages, {words[0] for words in listed_commands()} - {"ringfire-bench"})
        for name in pages:
            blocks = HELP.findall((PAGES / (name + ".md")).read_text())
            self.assertEqual([command for command, _ in blocks], [name])
            self.assertEqual(blocks[0][1], ringfire(name, "--help").stdout)

    # ---- width ----

    def test_devices_fit(self):
        names = [d["name"] for d in json.loads(ringfire("devices", "--json").stdout)]
        for columns, text in ((80, ringfire("devices").stdout), (120, None), (80, None), (44, None),
                              (20, None)):
            if text is None:
                terminal = programs.Terminal(columns, RINGFIRE, "devices")
                self.addCleanup(terminal.close)
                self.assertEqual(terminal.finish(), (0, ""))
                text = terminal.text
            widest = max(map(len, text.splitlines()))
            self.assertLessEqual(widest, max(columns, 40), text)
            for name in names:
                self.assertIn(name if columns >= 80 else name[:8], text)
            if columns < 80 and max(map(len, names)) > 20:
                self.assertIn("...", text)

    def test_show_fits(self):
        model = FIXTURES / "layers-model.rfck"
        whole = {v["name"]: v["value"]
                 for v in json.loads(ringfire("ckpt", "show", "--json", model).stdout)["values"]}
        terminal = programs.Terminal(50, RINGFIRE, "ckpt", "show", model)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.finish(), (0, ""))
        for columns, text in ((80, ringfire("ckpt", "show", model).stdout), (50, terminal.text)):
            values = [l for l in text.splitlines() if l.split()[0] in whole]
            self.assertEqual(len(values), len(whole))
            self.assertLessEqual(max(map(len, values)), columns)
            self.assertRegex(text, r'(?m)^  architecture +\{"input_shape".*\.\.\.\r?$')
            self.assertRegex(text, r"(?m)^  train_step/step +0\r?$")
        text = ringfire("ckpt", "show", "--full", model).stdout
        for name, value in whole.items():
            self.assertRegex(text, r"(?m)^  %s +%s$" % (re.escape(name), re.escape(value)))


def update():
    for page in PAGES.glob("*.md"):
        page.write_text(HELP.sub(lambda m: "```text\n$ ringfire %s --help\n%s```" % (
            m[1], ringfire(m[1], "--help").stdout), page.read_text()))


if __name__ == "__main__":
    if sys.argv[3:] == ["--update"]:
        sys.exit(update())
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Commands)
    sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
