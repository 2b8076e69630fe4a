# SPDX-License-Identifier: Apache-2.0
"""Compares a CTC loss with PyTorch's. Usage: check_ctc.py FOLDER LOSS

FOLDER/outputs.npy has probabilities [n, steps, classes] and FOLDER/labels.npy labels [n, s], which
a negative one ends; LOSS is the mean of all examples. Exits with 77, and says why, without
PyTorch."""
import pathlib
import subprocess
import sys


def main():
    folder, loss = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    outputs = torch.from_numpy(numpy.load(folder / "outputs.npy")).double()
    labels = torch.from_numpy(numpy.load(folder / "labels.npy")).long()
    lengths = (labels >= 0).sum(1)
    steps = torch.full((len(outputs), ), outputs.shape[1])
    wanted = torch.nn.functional.ctc_loss(outputs.log().transpose(0, 1), labels.clamp(min=0),
                                          steps, lengths, reduction="none").mean().item()
    print(f"loss {loss:.7g}, PyTorch's {wanted:.7g}")
    return 0 if abs(loss - wanted) <= 1e-4 * abs(wanted) else 1


try:
    import numpy
    import torch
except ImportError:
    if sys.executable != "/usr/bin/python3":
        # distributions' modules belong to their own interpreter
        sys.exit(subprocess.run(["/usr/bin/python3", *sys.argv]).returncode)
    print("no Python module torch (Debian: python3-torch): the loss is not compared")
    sys.exit(77)
sys.exit(main())
