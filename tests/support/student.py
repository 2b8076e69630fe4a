# SPDX-License-Identifier: Apache-2.0
"""Student's tests: whether chance alone makes means differ so much."""
import math
import statistics


def probability_beyond(t, freedom):
    """Of |t| or more by Student's distribution with so many degrees of freedom: Simpson's rule over
    the angle a with t = tan(a) sqrt(freedom)."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    low, high, parts = math.atan(abs(t) / math.sqrt(freedom)), math.pi / 2, 2000
    step = (high - low) / parts
    values = (max(math.cos(low + i * step),
                  0.0) ** (freedom - 1) * (1 if i in (0, parts) else 4 if i % 2 else 2)
              for i in range(parts + 1))
    return min(1.0, 2 * scale * sum(values) * step / 3)


def welch(a, b):
    """Probability that means differ so much by chance, where deviations may differ."""
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    difference = statistics.mean(a) - statistics.mean(b)
    if va + vb == 0:
        return 1.0 if difference == 0 else 0.0
    freedom = (va + vb) ** 2 / (va ** 2 / (len(a) - 1) + vb ** 2 / (len(b) - 1))
    return probability_beyond(difference / math.sqrt(va + vb), freedom)


def greater(a, b):
    """Probability that chance alone makes the mean of a - b, of pairs, as large as it is:
    one-sided."""
    differences = [x - y for x, y in zip(a, b)]
    mean, variance = statistics.mean(differences), statistics.variance(differences) / len(
        differences)
    if variance == 0:
        return 0.0 if mean > 0 else 1.0
    both = probability_beyond(mean / math.sqrt(variance), len(differences) - 1)
    return both / 2 if mean > 0 else 1 - both / 2
