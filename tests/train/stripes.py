# SPDX-License-Identifier: Apache-2.0
"""Images for the trajectories of networks that classify them."""
import numpy as np


def batch(rng, count, classes, height, width, channels):
    """Stripes whose direction is the class, and noise."""
    labels = rng.integers(0, classes, count).astype(np.int32)
    y, x = np.mgrid[:height, :width]
    angle = labels[:, None, None] * np.pi / classes
    stripes = np.sin(0.8 * (np.cos(angle) * x + np.sin(angle) * y)
                     + rng.uniform(0, 6, (count, 1, 1)))
    images = (stripes[..., None] * rng.uniform(0.5, 1, channels)
              + 0.3 * rng.standard_normal((count, height, width, channels)))
    return (np.round(images * 8) / 8).astype(np.float32), labels
