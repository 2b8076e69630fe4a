# SPDX-License-Identifier: Apache-2.0
"""The strategies that trainers of examples/ offer: with central storage over two replicas each of
them computes what it does with mirrored variables, to the last bit but where gradients are clipped
by their norm, whose squares are added shard by shard; a job of several workers and options that a
strategy does not have are refused. With parameter servers a synchronous training of one worker
reports what a mirrored one does, before and after it goes on from a checkpoint, two workers of two
servers train to the end, and one that is killed changes no report.

Usage: test_strategies.py RINGFIRE EXAMPLES SOURCES"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

BY_NORM = "gpt", "nmt"
DIFFERENCE = re.compile(r"differs: (\S+), by up to (\S+)")
# Softmax takes no notice of what all scores have in common: the gradient of this bias is nothing
# but rounding, which Adam makes a step of.
OF_NO_EFFECT = "model/attention/score/bias"
RINGFIRE, EXAMPLES, SOURCES = (pathlib.Path(argument) for argument in sys.argv[1:4])


class Strategies(unittest.TestCase):
    clusters = 0

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        digits.write_both(cls.folder, digits.patterns, 48, 16)
        (cls.folder / "text.md").write_text("".join(
            "# Part %d\n\nThe cat sat down. It saw a bird. The bird flew off. Then it rained. The "
            "cat slept.\n\n" % i for i in range(60)))
        images = ["--data", cls.folder, "--batch-size", "4"]
        cls.trainers = {
            "resnet": [*images, "--epochs", "1", "--synchronized"],
            "densenet": [*images, "--epochs", "1", "--limit", "24"],
            "vae": [*images, "--epochs", "1", "--picture", cls.folder / "vae.png"],
            "ncf": ["--batch-size", "100", "--users", "40", "--items", "60", "--per-user", "8",
                    "--epochs", "1"],
            "lstm": ["--batch-size", "8", "--limit", "96", "--epochs", "1"],
            "nmt": ["--batch-size", "8", "--pairs", "dates", "--limit", "96", "--epochs", "1"],
            "gpt": ["--batch-size", "2", "--text", cls.folder / "text.md", "--steps", "6",
                    "--sample", "1"],
            "bert": ["--batch-size", "2", "--text", cls.folder / "text.md", "--vocabulary", "120",
                     "--steps", "6", "--task", "none"],
        }

    def train(self, name, strategy):
        directory = self.folder / ("%s-%s" % (name, strategy))
        done = programs.run(EXAMPLES / name, *self.trainers[name], "--devices", "llvmpipe,llvmpipe",
                            "--strategy", strategy, "--checkpoint-dir", directory)
        self.assertEqual(done.returncode, 0, "%s: %s" % (name, done.stderr))
        return max(directory.glob("*.rfck"))

    def test_central_storage(self):
        """Weights, optimizer, metrics: the checkpoints are the same."""
        for name in self.trainers:
            with self.subTest(name):
                central, mirrored = (self.train(name, strategy)
                                     for strategy in ("central_storage", "mirrored"))
                done = programs.run(RINGFIRE, "ckpt", "diff", central, mirrored)
                lines = done.stdout.strip().splitlines()
                self.assertEqual(done.returncode, int(len(lines) > 0), done.stderr)
                if name not in BY_NORM:
                    self.assertEqual(lines, [])
                for line in lines:
                    name_of, difference = DIFFERENCE.fullmatch(line).groups()
                    self.assertLess(float(difference), 1e-5 if name_of == OF_NO_EFFECT else 1e-6,
                                    line)
                shown = programs.run(RINGFIRE, "ckpt", "show", central).stdout
                self.assertIn("optimizer/", shown)  # what is compared

    def test_one_device(self):
        command = [EXAMPLES / "lstm", *self.trainers["lstm"], "--strategy", "one_device",
                   "--devices"]
        done = programs.run(*command, "llvmpipe")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Number of devices: 1\n", done.stdout)
        done = programs.run(*command, "llvmpipe,llvmpipe")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'llvmpipe,llvmpipe' is a list", done.stderr)

    def serve(self, name, *arguments, workers=1, servers=1):
        Strategies.clusters += 1
        # below those that systems hand out by themselves
        port = 20000 + (os.getpid() + self.clusters) * 8 % 12000
        done = programs.run("sh", SOURCES / "run_parameter_server.sh", EXAMPLES / name, *arguments,
                            "--devices", "llvmpipe", "--strategy", "parameter_server",
                            env={"PORT": str(port), "WORKERS": str(workers),
                                 "SERVERS": str(servers), "RINGFIRE": str(RINGFIRE),
                                 "TF_CONFIG": ""})
        self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        return done

    def test_parameter_servers(self):
        """One worker takes the batches that a program of one process takes; losses of nmt are of
        pairs there, and of tokens here."""
        same = {"bert": [r"[hH]eld out (\d\.\d\d\d)", r"held out (\S+ %)"],
                "gpt": [r"loss:? (\d+\.\d\d\d)", r"[vV]alidation:? (\d\S+\d)"],
                "lstm": [r"loss: (0\.\d+)", r"(\S+) %"],
                "ncf": [r"loss: (0\.\d\d\d)", r"HR@10 (\S+)", r"NDCG@10 (\S+)"],
                "nmt": [r"(?m)^(.*: .* \(wrong\))$", r"Test: (\S+) %"],
                "nmt transformer": [r"(?m)^(.*: .* \(wrong\))$", r"Test: (\S+) %"],
                "vae": [r"(?:Loss|loss): (\d+\.\d\d)", r"ELBO: (\S+)"]}
        for what, patterns in same.items():
            name, *network = what.split()
            arguments = [*self.trainers[name], *(["--network", *network] if network else [])]
            with self.subTest(what):
                served = self.serve(name, *arguments, "--synchronous")
                alone = programs.run(EXAMPLES / name, *arguments, "--devices", "llvmpipe")
                self.assertIn("1 workers, 1 parameter servers, synchronous\n", served.stdout)
                for pattern in patterns:
                    found = re.findall(pattern, served.stdout)
                    self.assertTrue(found, served.stdout)
                    self.assertEqual(found, re.findall(pattern, alone.stdout), pattern)

    def test_images_with_servers(self):
        """Batch normalization: what is validated has its moving averages."""
        for name in "resnet", "densenet":
            arguments = [argument for argument in self.trainers[name]
                         if argument != "--synchronized"] + [
                             "--epochs", "2", "--learning-rate", "0.001"]
            with self.subTest(name):
                served = self.serve(name, *arguments, "--synchronous")
                alone = programs.run(EXAMPLES / name, *arguments, "--devices", "llvmpipe")
                found = programs.numbers(r"Epoch \d/2: loss: (\S+)\nValidation: loss: (\S+), "
                                         r"accuracy: (\S+)", served)
                expected = programs.numbers(r"Epoch \d/2: loss: (\S+), .*val_loss: (\S+), "
                                            r"val_accuracy: (\S+),", alone)
                self.assertEqual((len(found), len(expected)), (2, 2), served.stdout + alone.stdout)
                for got, want in zip(sum(found, ()), sum(expected, ())):
                    self.assertAlmostEqual(got, want, delta=2e-3)
                done = self.serve(name, *self.trainers[name][:4], "--epochs", "1", workers=2,
                                  servers=2)
                self.assertIn("2 workers, 2 parameter servers, asynchronous\n", done.stdout)

    def test_servers_go_on(self):
        """What is left after a checkpoint is done as if nothing had happened: weights, moving
        averages, the optimizer's state, the place in the data."""
        more = {"resnet": [*self.trainers["resnet"][:4], "--epochs", "3"],
                "densenet": [*self.trainers["densenet"], "--epochs", "3"],
                "bert": [*self.trainers["bert"], "--steps", "104"],
                "vae": [*self.trainers["vae"], "--epochs", "3"],
                "nmt": [*self.trainers["nmt"], "--epochs", "3"]}
        for name, arguments in more.items():
            with self.subTest(name):
                directory = self.folder / ("%s-served" % name)
                arguments = [*arguments, "--synchronous", "--checkpoint-dir", directory]
                reports = self.serve(name,
                                     *arguments).stdout.split("Epoch 1/")[1].split("Epoch 2/")[1]
                files = sorted(directory.glob("*.rfck"))
                shown = programs.run(RINGFIRE, "ckpt", "show", files[0]).stdout
                self.assertIn("optimizer/", shown)
                if name in ("resnet", "densenet"):
                    self.assertIn("/moving_variance ", shown)
                kept = files[-1].rename(self.folder / "kept.rfck")
                for file in files[1:-1]:
                    file.unlink()
                again = self.serve(name, *arguments).stdout
                self.assertIn("Continuing after epoch 1\n", again)
                self.assertEqual(again.split("Epoch 2/")[1], reports)
                diff = programs.run(RINGFIRE, "ckpt", "diff", kept, files[-1])
                self.assertEqual((diff.returncode, diff.stdout), (0, ""), diff.stderr)

    def lead(self, kills):
        """What the chief of two synchronous workers prints; one is killed after the first epoch."""
        Strategies.clusters += 1
        port = 20000 + (os.getpid() + self.clusters) * 8 % 12000
        tasks = [("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0)]
        cluster = {"ps": [port], "worker": [port + 1, port + 2], "chief": [port + 3]}
        cluster = {kind: ["127.0.0.1:%d" % p for p in ports] for kind, ports in cluster.items()}
        arguments = [EXAMPLES / "vae", *self.trainers["vae"], "--epochs", "4", "--devices",
                     "llvmpipe", "--strategy", "parameter_server", "--synchronous"]
        started = []
        try:
            for kind, index in tasks:
                config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
                started.append(subprocess.Popen(arguments,
                                                env={**os.environ, "TF_CONFIG": config,
                                                     "RINGFIRE_INSECURE": "1"},
                                                stdout=subprocess.PIPE if kind == "chief"
                                                else subprocess.DEVNULL,
                                                stderr=subprocess.PIPE if kind == "chief"
                                                else subprocess.DEVNULL, text=True))
            printed = []
            for line in started[3].stdout:
                printed.append(line)
                if kills and line.startswith("Epoch 1/4: "):
                    started[2].kill()
            said = started[3].stderr.read()
            self.assertEqual(started[3].wait(60), 0, said)
            self.assertEqual("worker 1 (127.0.0.1:%d) was lost" % (port + 2) in said, kills, said)
        finally:
            for task in started:
                task.kill()
                task.wait()
        return [line for line in printed if "oss" in line]

    def test_lost_worker(self):
        """Whoever takes its place draws its numbers, for its batches."""
        reports = self.lead(False)
        self.assertGreaterEqual(len(reports), 4)
        self.assertEqual(self.lead(True), reports)

    def test_several_workers(self):
        for how in [], ["--synchronous"]:
            done = self.serve("lstm", *self.trainers["lstm"], "--epochs", "4", *how, workers=2,
                              servers=2)
            losses = [float(loss) for loss in re.findall(r"Epoch \d/4: loss: (\S+)", done.stdout)]
            self.assertEqual(len(losses), 4, done.stdout)
            self.assertLess(losses[-1], losses[0])
            self.assertEqual(done.stdout.count("2 workers, 2 parameter servers"), 1)

    def test_no_servers(self):
        servers = ["--strategy", "parameter_server"]
        for name, arguments, text in (("resnet", ["--synchronized"],
                                       "--synchronized needs workers that take their steps "
                                       "together; use --strategy mirrored"),
                                      ("densenet", ["--mixed", "f16"],
                                       "no server has all gradients of f16 to unscale"),
                                      ("gpt", ["--muon"], "no server has whole matrices"),
                                      ("gpt", ["--mixed", "f16"], "no server has whole matrices"),
                                      ("custom_loop", [], "examples/parameter_server.c shows them"),
                                      ("lstm", [], "TF_CONFIG is not set"),
                                      ("lstm", ["--logdir", self.folder / "logs"], "--logdir: "),
                                      ("vae",
                                       ["--checkpoint-dir", self.folder / "none",
                                        "--sharded-checkpoints"], "--sharded-checkpoints: "),
                                      ("ncf", ["--compression", "f16"],
                                       "--compression is for workers")):
            done = programs.run(EXAMPLES / name, *servers, *arguments, env={"TF_CONFIG": ""})
            self.assertGreater(done.returncode, 0, name)
            self.assertIn(text, done.stderr)
        done = programs.run(EXAMPLES / "lstm", "--synchronous")
        self.assertIn("--synchronous is for --strategy parameter_server", done.stderr)
        self.assertGreater(done.returncode, 0)

    def test_refused(self):
        for name in self.trainers:
            for arguments, text in ((["--strategy", "central"], "there is no strategy 'central'"),
                                    (["--strategy", "central_storage", "--compression", "f16"],
                                     "--compression is for workers"),
                                    (["--strategy", "one_device", "--balance"],
                                     "--balance is for several devices")):
                done = programs.run(EXAMPLES / name, *arguments)
                self.assertGreater(done.returncode, 0, name)
                self.assertIn(text, done.stderr)
        for strategy in "central_storage", "one_device":
            done = programs.run(RINGFIRE, "run", "-n", "2", EXAMPLES / "lstm",
                                *self.trainers["lstm"], "--strategy", strategy, "--devices",
                                "llvmpipe")
            self.assertEqual(done.returncode, 1)
            self.assertIn("this job has 2 workers, which only --strategy mirrored spans",
                          done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
