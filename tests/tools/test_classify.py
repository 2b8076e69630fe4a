# SPDX-License-Identifier: Apache-2.0
"""The classifier of photos as a user meets it: a pretrained network with a new head learns painted
images, of which one class has few, the same on two devices. A confusion matrix is shown, the
network is written back, and bad input is named.

Usage: test_classify.py CLASSIFY"""
import json
import pathlib
import re
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import hub  # noqa: E402
import pictures  # noqa: E402
import programs  # noqa: E402

CLASSIFY = sys.argv[1]
WIDTH, INNER, SIDE, PATCH = 16, 24, 16, 8
CONFIG = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": SIDE,
          "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2,
          "intermediate_size": INNER, "patch_size": PATCH}
CLASSES = {"blue": (40, (20, 40, 220)), "green": (12, (30, 200, 60)), "red": (40, (210, 50, 30))}
RESULT = re.compile(r"Test: (\S+) % right")


def vit_weights(rng):
    """Random ones, which tell colours apart as they are."""
    shapes = {"embeddings.cls_token": (1, 1, WIDTH),
              "embeddings.position_embeddings": (1, (SIDE // PATCH)**2 + 1, WIDTH),
              "embeddings.patch_embeddings.projection.weight": (WIDTH, 3, PATCH, PATCH)}
    products = {"encoder.layer.0.attention.attention.%s" % p: (WIDTH, WIDTH)
                for p in ("query", "key", "value")}
    products.update({"encoder.layer.0.attention.output.dense": (WIDTH, WIDTH),
                     "encoder.layer.0.intermediate.dense": (INNER, WIDTH),
                     "encoder.layer.0.output.dense": (WIDTH, INNER), "classifier": (2, WIDTH)})
    weights = {"vit." + name: rng.standard_normal(shape) / shape[-1]
               for name, shape in shapes.items()}
    weights["vit.embeddings.patch_embeddings.projection.bias"] = np.zeros(WIDTH)
    for name, shape in products.items():
        name = name if name == "classifier" else "vit." + name
        weights[name + ".weight"] = rng.standard_normal(shape) / shape[1]**0.5
        weights[name + ".bias"] = np.zeros(shape[0])
    for name in ("encoder.layer.0.layernorm_before", "encoder.layer.0.layernorm_after",
                 "layernorm"):
        weights["vit.%s.weight" % name] = np.ones(WIDTH)
        weights["vit.%s.bias" % name] = np.zeros(WIDTH)
    return weights


class Classify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, rng = pathlib.Path(folder.name), np.random.default_rng(3)
        cls.network, cls.images = cls.folder / "vit", cls.folder / "images"
        hub.write_directory(cls.network, CONFIG, vit_weights(rng))
        (cls.network / "preprocessor_config.json").write_text(
            '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}')
        for name, (count, colour) in CLASSES.items():
            (cls.images / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.clip(rng.normal(colour, 60, (20, 18, 3)), 0, 255).astype(np.uint8)
                (cls.images / name / ("%d.PNG" % i)).write_bytes(
                    pictures.png(18, 20, pixels.tobytes()))
        cls.command = [CLASSIFY, "--network", cls.network, "--images", cls.images,
                       "--learning-rate", "0.02", "--batch-size", "8", "--devices"]

    def train(self, devices, *more):
        done = programs.run(*self.command, devices, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_learns(self):
        said = self.train("llvmpipe", "--epochs", "6", "--save", self.folder / "tuned")
        self.assertIn("New: classifier/kernel\nNew: classifier/bias\n", said)
        self.assertRegex(said, r"green +12 images, weight 2\.556\n")
        self.assertGreater(float(RESULT.search(said)[1]), 90)
        table = [line.split() for line in said[RESULT.search(said).end():].splitlines()[1:5]]
        self.assertEqual([table[0], *(row[0] for row in table[1:])],
                         [["blue", "green", "red"], "blue", "green", "red"])
        counts = np.array([[float(x) for x in row[1:]] for row in table[1:]])
        self.assertEqual(counts.sum(), 18)  # a fifth of 92
        self.assertAlmostEqual(100 * counts.trace() / 18, float(RESULT.search(said)[1]), 2)
        before, after = hub.read_directory(self.network), hub.read_directory(self.folder / "tuned")
        self.assertEqual(after["classifier.weight"][1], (3, WIDTH))
        self.assertEqual([name for name in before if before[name] != after[name]],
                         ["classifier.weight", "classifier.bias"])
        config = json.loads((self.folder / "tuned" / "config.json").read_text())
        self.assertEqual(config["id2label"], {"0": "blue", "1": "green", "2": "red"})
        again = programs.run(CLASSIFY, "--network", self.folder / "tuned", *self.command[3:],
                             "llvmpipe", "--epochs", "1", "--learning-rate", "1e-9")
        self.assertNotIn("New:", again.stdout)
        self.assertEqual(RESULT.search(again.stdout)[1], RESULT.search(said)[1])

    def test_devices(self):
        """All of the network, with a test directory and without weights."""
        options = ("--full", "--unweighted", "--epochs", "2", "--test-images", self.images)
        losses = []
        for devices, batch in (("llvmpipe", "8"), ("llvmpipe,llvmpipe", "4")):
            said = self.train(devices, *options, "--batch-size", batch)
            losses.append([float(x) for x in re.findall(r"loss: ([0-9.]+), accuracy", said)])
            self.assertIn("weight 1.000\n", said)
            self.assertEqual(len(losses[-1]), 2, said)
        np.testing.assert_allclose(*losses, rtol=2e-3)

    def test_bad_input(self):
        tests = self.folder / "tests"
        (tests / "yellow").mkdir(parents=True)
        (tests / "yellow" / "a.png").write_bytes(pictures.png(1, 1, b"abc"))
        for arguments, text in ((("--test-images", tests),
                                 "tests has the class 'yellow' where"),
                                (("--test-part", "1"), "'1' is not between 0 and 1"),
                                (("--network", self.folder), "config.json"),
                                (("--images", self.folder / "none"), "none")):
            done = programs.run(*self.command, "llvmpipe", *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
