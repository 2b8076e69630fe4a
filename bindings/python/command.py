# SPDX-License-Identifier: Apache-2.0
"""The command `ringfire` of a virtual environment: the program that a wheel brings along."""
import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).with_name("bin") / "ringfire"
    os.execv(program, sys.argv)
