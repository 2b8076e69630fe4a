# SPDX-License-Identifier: Apache-2.0
"""An environment in which glibc keeps the memory that a program frees.

PyTorch allocates and frees every tensor of a step. By default glibc gives large ones back to the
system at once and fetches zeroed pages for the next, which on virtual machines can take most of the
time: an epoch of DenseNet-BC on 640 images, with its test, took 201 s, and 17 s where memory is
kept. What we compare with is PyTorch at its best."""
import os

ENVIRONMENT = {**os.environ, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8000000000",
               "MALLOC_TOP_PAD_": "67108864"}
