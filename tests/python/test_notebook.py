# SPDX-License-Identifier: Apache-2.0
"""A notebook: fit draws one line anew, its curves are plotted, and an interrupt stops it between
steps, after which the notebook goes on.

Usage: test_notebook.py [FILE]    FILE receives the executed notebook"""
import importlib.util
import os
import sys
import tempfile
import unittest

FILE = sys.argv.pop() if len(sys.argv) > 1 and sys.argv[-1].endswith(".ipynb") else None
NEEDED = ("nbformat", "nbclient", "ipykernel", "matplotlib")
CELLS = ["""
import numpy as np
import ringfire as rf

x = np.random.default_rng(1).normal(size=(4096, 8)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int32)
strategy = rf.MirroredStrategy('0')
with strategy.scope():
    model = rf.keras.Sequential([
        rf.keras.layers.Dense(32, activation='relu', input_shape=(8,)),
        rf.keras.layers.Dense(2),
    ])
    model.compile(optimizer=rf.keras.optimizers.Adam(0.01), metrics=['accuracy'],
                  loss=rf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, batch_size=32, epochs=3)
""", """
import matplotlib.pyplot as plt
for name, values in history.history.items():
    plt.plot(values, label=name)
plt.legend()
plt.show()
""", """
model.fit(x, y, batch_size=32, epochs=100000, verbose=0)
""", """
print(model.evaluate(x, y, verbose=0)[1])
"""]


class Notebook(unittest.TestCase):
    def test_all(self):
        missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
        if missing:
            self.skipTest("not installed: " + ", ".join(missing))
        import nbclient
        import nbformat
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c.strip()) for c in CELLS])
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update(IPYTHONDIR=folder, MPLCONFIGDIR=folder, JUPYTER_RUNTIME_DIR=folder)
            client = nbclient.NotebookClient(
                book, interrupt_on_timeout=True, allow_errors=True,
                timeout_func=lambda cell: 5 if "epochs=100000" in cell.source else 100,
                resources={"metadata": {"path": folder}})
            client.execute()
        if FILE:
            nbformat.write(book, FILE)
        fitted, plotted, stopped, evaluated = (cell.outputs for cell in book.cells)
        text = "".join(out.get("text", "") for out in fitted)
        for epoch in 1, 2, 3:
            self.assertIn("Epoch %d/3\n" % epoch, text)
        self.assertEqual(text.count("128/128 [=============================="), 3, text)
        self.assertIn("\r128/128", text)
        self.assertTrue(any("image/png" in out.get("data", {}) for out in plotted), plotted)
        self.assertEqual([out.get("ename") for out in stopped], ["KeyboardInterrupt"], stopped)
        accuracy = "".join(out.get("text", "") for out in evaluated)
        self.assertGreater(float(accuracy), 0.95)


if __name__ == "__main__":
    unittest.main(verbosity=2)
