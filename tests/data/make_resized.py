#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/resized.h: images that PyTorch resized, in float64, without antialiasing.

tests/data/make_resized.py > tests/data/resized.h"""
import torch

# height, width, then those to come, channels
CASES = ((4, 5, 8, 10, 3), (5, 7, 3, 3, 1), (7, 9, 3, 3, 4), (1, 1, 3, 2, 3), (6, 1, 4, 3, 1),
         (5, 9, 13, 7, 3), (9, 9, 9, 3, 1),
         (15, 11, 5, 7, 3))


def noise(count):
    seed, values = 7, []
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) % 2**32
        values.append(seed >> 24)
    return values


pixels, lines = [], []
for height, width, to_height, to_width, channels in CASES:
    image = torch.tensor(noise(height * width * channels),
                         dtype=torch.float64).reshape(1, height, width, channels).permute(
                             0, 3, 1, 2)
    out = torch.nn.functional.interpolate(image, (to_height, to_width), mode="bilinear",
                                          align_corners=False)
    # Next to a half, the last bit of f32 could decide: the cases have no such values, only halves,
    # which f32 holds.
    assert not (((out % 1 - 0.5).abs() < 1e-4) & (out % 1 != 0.5)).any(), (height, width)
    lines.append("    { { %d, %d, %d, %d, %d }, %d },"
                 % (height, width, to_height, to_width, channels, len(pixels)))
    pixels += torch.floor(out + 0.5).permute(0, 2, 3, 1).flatten().to(torch.int64).tolist()

print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* Written by make_resized.py. */")
print("/* clang-format off */")
print("static const struct {\n    uint32_t sizes[5]; /* height, width, then those to come, "
      "channels */\n    uint32_t first;\n} resized_cases[] = {")
print("\n".join(lines))
print("};\nstatic const uint8_t resized_pixels[] = {")
for i in range(0, len(pixels), 28):
    print("    " + ", ".join(str(p) for p in pixels[i:i + 28]) + ",")
print("};")
print("/* clang-format on */")
