# SPDX-License-Identifier: Apache-2.0
"""ringfire.summary: what is written is what is read."""
import tempfile
import unittest

import numpy as np

from ringfire import summary


class Summary(unittest.TestCase):
    def test_round(self):
        with tempfile.TemporaryDirectory() as folder:
            writer = summary.create_file_writer(folder)
            with writer.as_default():
                summary.scalar("loss", np.float32(0.5), step=3)
                summary.histogram("weights", [0, 1, 1], step=4)
                summary.image("picture", np.zeros((2, 2, 1), np.uint8), step=5)
                summary.text("note", "**ä**", step=6)
            writer.hparams({"rate": 0.1, "name": "x"})
            writer.flush()
            events = {event.tag: event for event in summary.read(writer.path)}
            writer.close()
        self.assertEqual(events["loss"][:3] + events["loss"][4:], ("scalar", "loss", 3, 0.5))
        self.assertEqual(events["weights"].value[:, 2].sum(), 3)
        self.assertTrue(events["picture"].value.startswith(b"\x89PNG"))
        self.assertEqual((events["note"].value, events["note"].step), ("**ä**", 6))
        self.assertGreater(events["loss"].wall_time, 1e9)

    def test_failures(self):
        with self.assertRaisesRegex(ValueError, r"summary.scalar\(\): no writer"):
            summary.scalar("loss", 1, step=0)
        with self.assertRaisesRegex(OSError, "/proc/none"):
            summary.create_file_writer("/proc/none")
        with self.assertRaisesRegex(LookupError, "nowhere"):
            next(summary.read("/nowhere"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
