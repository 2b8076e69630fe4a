# SPDX-License-Identifier: Apache-2.0
"""The settings that PyTorch is tried with, and which of them counts. Usage: test_settings.py"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pytorch_settings import Setting, find_best, of_arguments, of_threads  # noqa: E402


class Settings(unittest.TestCase):
    def test_pools_of_one_and_of_all(self):
        self.assertEqual(of_threads(2),
                         [Setting(1, 1), Setting(1, 2),
                          Setting(2, 1), Setting(2, 2)])
        self.assertEqual(of_threads(1), [Setting(1, 1)])

    def test_the_environment_says_both(self):
        environment = Setting(4, 1).environment
        self.assertEqual((environment["OMP_NUM_THREADS"], environment["OPENBLAS_NUM_THREADS"]),
                         ("4", "1"))
        for setting in (Setting(4, 1), Setting(1, 2, True, True)):
            self.assertEqual(of_arguments(map(str, setting.arguments)), setting)

    def test_the_fastest_counts(self):
        """Two pools that get in each other's way, a layout that helps, and a compiler or none."""
        def rate(setting):
            if setting.compiled and not compiler:
                return None
            slow = 0.3 if setting.threads > 1 and setting.blas > 1 else 1
            return setting.threads * slow * (1.2 if setting.channels_last else
                                             1) * (1.5 if setting.compiled else 1)

        for compiler in (False, True):
            best, rates = find_best(2, True, rate)
            self.assertEqual(best, Setting(2, 1, True, compiler))
            self.assertEqual(len(rates), 9)
        self.assertEqual(find_best(2, False, rate)[0], Setting(2, 1, False, True))
        self.assertEqual(len(find_best(2, False, rate)[1]), 5)

    def test_nothing_runs(self):
        with self.assertRaises(SystemExit):
            find_best(2, False, lambda setting: None)


unittest.main()
