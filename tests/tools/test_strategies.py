# SPDX-License-Identifier: Apache-2.0
"""The strategies that trainers of examples/ offer: with central storage over two replicas each of them computes what it does with mirrored
variables, to the last bit but where gradients are clipped by their norm, whose squares are added shard by shard; a job of several workers and options that a strategy does not have are refused.
With parameter servers a synchronous training of one worker reports what a mirrored one does, and two workers of two servers train to the end.

Usage: test_strategies.py RINGFIRE EXAMPLES SOURCES"""
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import digits  # noqa: E402
import programs  # noqa: E402

BY_NORM = "gpt", "nmt"
DIFFERENCE = re.compile(r"differs: \S+, by up to (\S+)")
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
            "# Part %d\n\nThe cat sat down. It saw a bird. The bird flew off. Then it rained. The cat slept.\n\n" % i for i in range(60)))
        images = ["--data", cls.folder, "--batch-size", "4"]
        cls.trainers = {
            "resnet": [*images, "--epochs", "1", "--synchronized"],
            "densenet": [*images, "--epochs", "1", "--limit", "24"],
            "vae": [*images, "--epochs", "1", "--picture", cls.folder / "vae.png"],
            "ncf": ["--batch-size", "100", "--users", "40", "--items", "60", "--per-user", "8", "--epochs", "1"],
            "lstm": ["--batch-size", "8", "--limit", "96", "--epochs", "1"],
            "nmt": ["--batch-size", "8", "--pairs", "dates", "--limit", "96", "--epochs", "1"],
            "gpt": ["--batch-size", "2", "--text", cls.folder / "text.md", "--steps", "6", "--sample", "1"],
            "bert": ["--batch-size", "2", "--text", cls.folder / "text.md", "--vocabulary", "120", "--steps", "6", "--task", "none"],
        }

    def train(self, name, strategy):
        directory = self.folder / ("%s-%s" % (name, strategy))
        done = programs.run(EXAMPLES / name, *self.trainers[name], "--devices", "llvmpipe,llvmpipe", "--strategy", strategy, "--checkpoint-dir", directory)
        self.assertEqual(done.returncode, 0, "%s: %s" % (name, done.stderr))
        return max(directory.glob("*.rfck"))

    def test_central_storage(self):
        """Weights, optimizer, metrics: the checkpoints are the same."""
        for name in self.trainers:
            with self.subTest(name):
                central, mirrored = (self.train(name, strategy) for strategy in ("central_storage", "mirrored"))
                done = programs.run(RINGFIRE, "ckpt", "diff", central, mirrored)
                lines = done.stdout.strip().splitlines()
                self.assertEqual(done.returncode, int(len(lines) > 0), done.stderr)
                if name not in BY_NORM:
                    self.assertEqual(lines, [])
                for line in lines:
                    self.assertLess(float(DIFFERENCE.fullmatch(line)[1]), 1e-6, line)
                shown = programs.run(RINGFIRE, "ckpt", "show", central).stdout
                self.assertIn("optimizer/", shown)  # what is compared

    def test_one_device(self):
        command = [EXAMPLES / "lstm", *self.trainers["lstm"], "--strategy", "one_device", "--devices"]
        done = programs.run(*command, "llvmpipe")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Number of devices: 1\n", done.stdout)
        done = programs.run(*command, "llvmpipe,llvmpipe")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'llvmpipe,llvmpipe' is a list", done.stderr)

    def serve(self, name, *arguments, workers=1, servers=1):
        Strategies.clusters += 1
        port = 20000 + (os.getpid() + self.clusters) * 8 % 12000  # below those that systems hand out by themselves
        done = programs.run("sh", SOURCES / "run_parameter_server.sh", EXAMPLES / name, *arguments, "--devices", "llvmpipe", "--strategy", "parameter_server",
                            env={"PORT": str(port), "WORKERS": str(workers), "SERVERS": str(servers), "RINGFIRE": str(RINGFIRE), "TF_CONFIG": ""})
        self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        return done

    def test_parameter_servers(self):
        """One worker takes the batches that a program of one process takes; losses of nmt are of pairs there, and of tokens here."""
        same = {"gpt": [r"loss:? (\d+\.\d\d\d)", r"[vV]alidation:? (\d\S+\d)"], "lstm": [r"loss: (0\.\d+)", r"(\S+) %"], "ncf": [r"loss: (0\.\d\d\d)", r"HR@10 (\S+)", r"NDCG@10 (\S+)"],
                "nmt": [r"(?m)^(.*: .* \(wrong\))$", r"Test: (\S+) %"],
                "nmt transformer": [r"(?m)^(.*: .* \(wrong\))$", r"Test: (\S+) %"], "vae": [r"(?:Loss|loss): (\d+\.\d\d)", r"ELBO: (\S+)"]}
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

    def test_several_workers(self):
        for how in [], ["--synchronous"]:
            done = self.serve("lstm", *self.trainers["lstm"], "--epochs", "4", *how, workers=2, servers=2)
            losses = [float(loss) for loss in re.findall(r"Epoch \d/4: loss: (\S+)", done.stdout)]
            self.assertEqual(len(losses), 4, done.stdout)
            self.assertLess(losses[-1], losses[0])
            self.assertEqual(done.stdout.count("2 workers, 2 parameter servers"), 1)

    def test_no_servers(self):
        servers = ["--strategy", "parameter_server"]
        for name, arguments, text in (("resnet", [], "which servers cannot; use --strategy mirrored"), ("densenet", [], "which servers cannot"),
                                      ("bert", [], "servers do not know which ones they hold; use --strategy mirrored"),
                                      ("gpt", ["--muon"], "no server has whole matrices"), ("gpt", ["--mixed", "f16"], "no server has whole matrices"),
                                      ("custom_loop", [], "examples/parameter_server.c shows them"),
                                      ("lstm", [], "TF_CONFIG is not set"), ("lstm", ["--logdir", self.folder / "logs"], "--logdir: "),
                                      ("vae", ["--checkpoint-dir", self.folder / "none"], "--checkpoint-dir: "),
                                      ("ncf", ["--compression", "f16"], "--compression is for workers")):
            done = programs.run(EXAMPLES / name, *servers, *arguments, env={"TF_CONFIG": ""})
            self.assertGreater(done.returncode, 0, name)
            self.assertIn(text, done.stderr)
        done = programs.run(EXAMPLES / "lstm", "--synchronous")
        self.assertIn("--synchronous is for --strategy parameter_server", done.stderr)
        self.assertGreater(done.returncode, 0)

    def test_refused(self):
        for name in self.trainers:
            for arguments, text in ((["--strategy", "central"], "there is no strategy 'central'"),
                                    (["--strategy", "central_storage", "--compression", "f16"], "--compression is for workers"),
                                    (["--strategy", "one_device", "--balance"], "--balance is for several devices")):
                done = programs.run(EXAMPLES / name, *arguments)
                self.assertGreater(done.returncode, 0, name)
                self.assertIn(text, done.stderr)
        for strategy in "central_storage", "one_device":
            done = programs.run(RINGFIRE, "run", "-n", "2", EXAMPLES / "lstm", *self.trainers["lstm"], "--strategy", strategy, "--devices", "llvmpipe")
            self.assertEqual(done.returncode, 1)
            self.assertIn("this job has 2 workers, which only --strategy mirrored spans", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
