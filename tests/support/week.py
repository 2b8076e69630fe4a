# SPDX-License-Identifier: Apache-2.0
"""The results of a weekly run, which is longer than most machines are left alone."""
import time

import kept
from counts import Count

TIME = "%Y-%m-%d %H:%M"


class Week:
    """Stages, and tests of stages ("stage: test"), that have passed at one commit, in weekly.json
    of a folder. `commit` is that of the tree, None where it has changes: then nothing is kept."""

    def __init__(self, folder, commit):
        self.folder, self.commit = folder, commit
        path = folder / "weekly.json"
        folder.mkdir(parents=True, exist_ok=True)
        is_new = commit and kept.Kept(path).get("commit") != commit
        for old in folder.glob("weekly*.json") if is_new else ():
            old.unlink()
        self.results = kept.Kept(path if commit else None)
        if is_new:
            self.results.add("commit", commit)

    def keeper(self, stage):
        """Where a stage that is a command keeps what is done of it; None: it does not."""
        return self.folder / ("weekly-%s.json" % stage) if self.commit else None

    def forget(self, stages):
        """They run as if they never had."""
        for name in list(self.results.results):
            if name.partition(": ")[0] in stages:
                self.results.add(name, None)
        for stage in stages if self.commit else ():
            self.keeper(stage).unlink(missing_ok=True)

    def add(self, name, count, seconds, commit):
        """Keeps a stage or a test that has passed, unless the tree is at another commit by then."""
        if count.passed and not count.failed and commit == self.commit:
            self.results.add(name, {"date": time.strftime(TIME), "seconds": seconds,
                                    "passed": count.passed, "skips": count.skips,
                                    "said": count.said})

    def date(self, name):
        """When it passed; None: it has not."""
        return (self.results.get(name) or {}).get("date")

    def recall(self, name):
        """Its count and its seconds."""
        result, count = self.results.get(name), Count()
        count.passed, count.said = result["passed"], result["said"]
        count.skips = [tuple(skip) for skip in result["skips"]]
        return count, result["seconds"]

    def page(self, heading, results):
        """In Markdown. `results`: name, count, seconds and end of each stage."""
        rows = []
        for stage, *row in results:
            rows.append((stage, *row))
            rows += [(name, *self.recall(name), self.date(name)) for name in self.results.results
                     if name.startswith(stage + ": ") and self.date(name)]
        said = ["## %s\n\n```\n%s\n```\n" % (name, "\n".join(count.said))
                for name, count, *_ in results if count.said]
        table = ["| stage | tests | ended | time |", "|---|---|---|---|",
                 *("| %s | %s | %s | %.0f min |" % (name, count, ended, seconds / 60)
                   for name, count, seconds, ended in rows)]
        return "# Weekly, %s\n\n%s\n\n%s\n\n%s" % (time.strftime("%Y-%m-%d"), heading,
                                                   "\n".join(table), "\n".join(said))
