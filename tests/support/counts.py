# SPDX-License-Identifier: Apache-2.0
"""Counts of tests, and what Meson's logs say of them."""
import json
import re


class Count:
    """Passed, failed and skipped tests: CMocka's cases one by one, other tests as one each. Skips
    are pairs of test and reason, times of seconds and test, `said` what is shown with the
    result."""

    def __init__(self):
        self.passed = self.failed = 0
        self.skips = []
        self.times = []
        self.said = []

    @property
    def skipped(self):
        return len(self.skips)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skips += other.skips
        self.times += other.times

    def __str__(self):
        return "%d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped)


def skips_in(stdout, stderr):
    """What a test program left out: reasons by test, as CMocka (tests/skip.h) and Python's unittest
    at verbosity 2 name them."""
    found = {}
    reason = case = ""
    for line in stdout.splitlines():
        if line.startswith("[ RUN"):
            reason = ""
        elif line.startswith("skipped: "):
            reason = line.removeprefix("skipped: ")
        elif m := re.match(r"\[  SKIPPED \] (\w+)$", line):
            found.setdefault(m[1], reason)
    unnamed = 0
    for line in stderr.splitlines():
        if m := re.match(r"(test_\w+) \(", line):
            case = m[1]
        if m := re.search(r"skipped (['\"])(.*)\1$", line):
            found[case] = m[2]
            unnamed -= 1
        elif m := re.match(r"(?:OK|FAILED) \(.*skipped=(\d+)", line):
            unnamed += int(m[1])
    return {**found, **{"one of its tests (%d)" % n: "" for n in range(1, unnamed + 1)}}


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"^(skipped|SKIP): ", "", lines[-1]) if lines else "no reason given"


def count_meson(directory, name="testlog"):
    """Reads what `meson test` wrote."""
    count, failures = Count(), []
    log = directory / "meson-logs" / (name + ".json")
    if not log.exists():
        return count, failures
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        stdout, stderr = entry.get("stdout") or "", entry.get("stderr") or ""
        output = stdout + stderr
        name = entry["name"].partition(" / ")[2] or entry["name"]
        result = entry["result"]
        count.times.append((entry["duration"], name))
        if result == "SKIP":
            count.skips.append((name, last_line(output)))
            continue
        passed = len(re.findall(r"^\[       OK \]", output, re.M))
        failed = len(set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M)))
        skips = skips_in(stdout, stderr)
        count.skips += [("%s, %s" % (name, test), reason or "no reason given") for test,
                        reason in skips.items()]
        if result in ("OK", "EXPECTEDFAIL"):
            ran = re.search(r"^Ran (\d+) test", stderr, re.M)
            count.passed += max(passed, 1 if not skips or ran and int(ran[1]) > len(skips) else 0)
        else:
            count.passed += passed
            count.failed += max(failed, 1)
            failures.append((entry["name"], result, output))
    return count, failures
