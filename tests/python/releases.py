# SPDX-License-Identifier: Apache-2.0
"""Files of each release stay readable: a small one of every kind is kept, with what is in it.

Usage: releases.py check FOLDER RINGFIRE    opens those of each release, a folder of FOLDER each
       releases.py write FOLDER             writes those of this version

Both use the public interface alone."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

WHAT, FOLDER, *TOOL = sys.argv[1:]
del sys.argv[1:]
FOLDER = pathlib.Path(FOLDER).resolve()
if WHAT == "write":
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ["RINGFIRE_TRACE"] = str(FOLDER / "trace.json")  # read when the library is opened

import numpy as np  # noqa: E402
import ringfire as rf  # noqa: E402

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
Y = X[:, :2] * 2 + 1
TEXTS = ("a ring of fire", "fire in the ring", "the ring of the fire")
TEXT = "the fire of a ring"


class Run:
    """A training: a model with its optimizer, and a counter."""

    def __init__(self):
        self.model = rf.keras.Sequential([rf.keras.layers.Dense(4, activation="tanh"),
                                          rf.keras.layers.Dense(2)])
        self.model.compile(optimizer=rf.keras.optimizers.Adam(0.05), loss="mse")
        self.model.build((None, 3))
        self.step = rf.Variable(0)
        self.checkpoint = rf.train.Checkpoint(model=self.model, optimizer=self.model.optimizer,
                                              step=self.step)

    def train(self, epochs):
        history = self.model.fit(X, Y, epochs=epochs, batch_size=4, shuffle=False, verbose=0)
        self.step.assign(self.step + epochs)
        return history.history["loss"]


def write():
    run = Run()
    run.train(5)
    run.checkpoint.write(FOLDER / "checkpoint")
    run.model.save(FOLDER / "model.rfck")
    run.model.save_weights(FOLDER / "weights.rfck")
    run.model.export(FOLDER / "inference.rfck")
    run.model.export(FOLDER / "weights.safetensors")
    outputs = run.model.predict(X, verbose=0).tolist()
    tokenizers = {}
    for kind in ("words", "word_piece", "byte_pair"):
        tokenizer = rf.text.Tokenizer.train(TEXTS, kind=kind, max_tokens=300)
        tokenizer.save(FOLDER / (kind + ".json"))
        tokenizers[kind] = tokenizer.encode(TEXT).tolist()
    expected = {"version": rf.__version__, "step": int(run.step), "outputs": outputs,
                "iterations": int(run.model.optimizer.iterations), "tokens": tokenizers,
                "next_loss": run.train(1)}  # where the training goes on, with the optimizer's state
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def of_each_release(test):
    """Calls a test with the folder of each release, and with what was expected then."""
    def each(self):
        releases = [f for f in sorted(FOLDER.iterdir()) if f.is_dir()]
        self.assertTrue(releases, "no files of a release are in %s" % FOLDER)
        for folder in releases:
            with self.subTest(folder.name):
                test(self, folder, json.loads((folder / "expected.json").read_text()))
    return each


class Releases(unittest.TestCase):
    def computes(self, compute, expected):
        np.testing.assert_allclose(np.asarray(compute(X)), expected["outputs"], atol=1e-5)

    @of_each_release
    def test_checkpoints(self, folder, expected):
        run = Run()
        run.checkpoint.read(folder / "checkpoint.rfck").assert_consumed()
        self.assertEqual(int(run.step), expected["step"])
        self.assertEqual(int(run.model.optimizer.iterations), expected["iterations"])
        self.computes(lambda x: run.model.predict(x, verbose=0), expected)
        np.testing.assert_allclose(run.train(1), expected["next_loss"], rtol=1e-4)

    @of_each_release
    def test_models(self, folder, expected):
        model = rf.keras.models.load_model(folder / "model.rfck")
        self.computes(lambda x: model.predict(x, verbose=0), expected)
        history = model.fit(X, Y, epochs=1, batch_size=4, shuffle=False, verbose=0)
        np.testing.assert_allclose(history.history["loss"], expected["next_loss"], rtol=1e-4)

    @of_each_release
    def test_inference(self, folder, expected):
        for name in "inference.rfck", "model.rfck":
            self.computes(rf.keras.models.Inference(folder / name), expected)

    @of_each_release
    def test_weights(self, folder, expected):
        for name in "weights.rfck", "weights.safetensors":
            run = Run()
            run.model.load_weights(folder / name)
            self.computes(lambda x: run.model.predict(x, verbose=0), expected)

    @of_each_release
    def test_tokenizers(self, folder, expected):
        for kind, tokens in expected["tokens"].items():
            tokenizer = rf.text.Tokenizer.load(folder / (kind + ".json"))
            self.assertEqual(tokenizer.encode(TEXT).tolist(), tokens)
            self.assertEqual(tokenizer.decode(tokens), TEXT)

    @of_each_release
    def test_commands(self, folder, expected):
        for file in sorted(folder.glob("*.rfck")):
            subprocess.run([*TOOL, "ckpt", "verify", file], check=True, timeout=60,
                           stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as place:
            merged = pathlib.Path(place) / "merged.json"
            subprocess.run([*TOOL, "trace", "merge", merged, folder / "trace.json"],
                           check=True, timeout=60)
            self.assertTrue(json.loads(merged.read_text()))


if WHAT == "write":
    write()
else:
    unittest.main()
