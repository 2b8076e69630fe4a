# SPDX-License-Identifier: Apache-2.0
"""Results that are kept in a file as they come, so that a run that was broken off goes on after
them."""
import json
import threading


class Kept:
    """Results by name, a line of JSON each; the last line of a name counts. Without a file nothing
    is kept. A line that was broken off is left out."""

    def __init__(self, path):
        self.path = path
        self.results = {}
        self.lock = threading.Lock()
        whole, _, broken = (path.read_text() if path and path.exists() else "").rpartition("\n")
        if broken:
            path.write_text(whole + "\n" if whole else "")
        self.results = dict(json.loads(line) for line in whole.splitlines())

    def get(self, name):
        return self.results.get(name)

    def add(self, name, result):
        with self.lock:
            self.results[name] = result
            if self.path:
                with self.path.open("a") as f:
                    f.write(json.dumps([name, result]) + "\n")
