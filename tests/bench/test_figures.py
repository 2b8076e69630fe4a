# SPDX-License-Identifier: Apache-2.0
"""What the page of figures makes of the text that other scripts print, and of what it keeps."""
import unittest

import figures

ZOO = "%-11s %10.0f %7s/s %10.0f %7s/s   %.2f (%.2f to %.2f)   %5.0f, %5.0f   %s\n"
ACCURACY = """cnn, PyTorch: test accuracy in percent 90.52 +- 0.44 (90.1, 90.9), loss 0.15
cnn, Ringfire: test accuracy in percent 90.83 +- 0.59 (90.2, 91.4), loss 0.15
cnn, Ringfire - PyTorch: difference of the means +0.31, p 0.380  ok
"""


class Figures(unittest.TestCase):
    def test_pytorch(self):
        text = (ZOO % ("cnn", 3066, "images", 3070, "images", 1, 0.9, 1.1, 120, 300, "2 + 1")
                + "geometric mean of 1: 1.00\n")
        self.assertEqual(figures.read_pytorch(text), [
            ["cnn", "3,066 images", "3,070 images", "1.00"], ["geometric mean", "", "", "1.00"]])

    def test_accuracy(self):
        self.assertEqual(figures.read_accuracy(ACCURACY), [
            ["cnn", "90.83 +- 0.59", "90.52 +- 0.44", "+0.31", "p 0.380"]])

    def test_page_says_when_a_machine_was_busy(self):
        taken = {"day": "2026-11-28", "machine": "M", "processors": 2, "load": 0.1, "commit": "c",
                 "device": "d"}
        self.assertIn("otherwise idle", figures.told(taken))
        self.assertIn("other programs used at the same time (load 9.0)",
                      figures.told({**taken, "load": 9.0}))

    def test_digits(self):
        self.assertEqual([figures.figure(x) for x in (0.01234, 5.6789, 98.04, 1754.2, 184198.4)],
                         ["0.012", "5.68", "98.0", "1,754", "184,198"])


unittest.main()
