# SPDX-License-Identifier: Apache-2.0
"""From what a GPU day wrote down to a report that a maintainer without a GPU can act on. Pure:
records in, Markdown out."""
import dataclasses
import re

MOST_FIXES = 10
MOST_OF_NETWORK = 5  # operations
MOST_FAILURES = 40
LARGE = 4096  # of the product that the goals name
DEVICE = ("driver", "driver_info", "vulkan", "type", "memory_bytes", "subgroup_size",
          "max_shared_memory", "cooperative_matrix")
FAIL = re.compile(r"^FAIL ([^/\s]+)/([^/\s:]+)(?:/(\S+))?(?: on (.+?))?: (.*)$")
CASE = re.compile(r"^\[  FAILED  \] (\w+)$")


@dataclasses.dataclass(frozen=True)
class Goal:
    """`least` is a ratio of measured to baseline; None for one without a baseline."""
    text: str
    unit: str
    measured: float = None
    baseline: float = None
    least: float = None
    reason: str = ""  # why there is no figure

    @property
    def ratio(self):
        return (self.measured / self.baseline if self.measured is not None and self.baseline
                else None)

    @property
    def passed(self):
        return None if self.ratio is None else self.ratio >= self.least


def result(records, phase, step):
    """The JSON that a step printed, or {}."""
    return next((r["result"] for r in records if r["phase"] == phase and r["step"] == step
                 and r.get("result")), {})


def operations(records):
    """What all steps that measured operations found."""
    return [row for r in records if r["phase"] == "kernels"
            for row in (r.get("result") or {}).get("ops", [])]


def networks(records):
    """What `ringfire-bench zoo` says of each network, with its most expensive operations: kernel,
    how many, seconds of all of them."""
    found = []
    for r in records:
        if r["phase"] != "network" or not (r.get("result") or {}).get("networks"):
            continue
        times = {}
        for node in r["result"].get("profile", []):
            times.setdefault((node["op"], node["kernel"]), []).append(node["seconds"])
        costs = sorted(((op, kernel, len(each), sum(each)) for (op, kernel), each in times.items()),
                       key=lambda cost: -cost[-1])
        found.append((r["result"]["networks"][0], costs[:MOST_OF_NETWORK]))
    return found


def best_form(forms):
    """The rate of the fastest form of a network, and which it is."""
    form = max(forms, key=forms.get, default="")
    return forms.get(form), form


def chosen_rate(records, op, case):
    rates = [row["gflops"] for row in operations(records) if row["op"] == op
             and row["case"] == case and row["chosen"]]
    return max(rates, default=None)


def goals(records):
    baseline = result(records, "baseline", "pytorch")
    rates, forms = baseline.get("gflops", {}), baseline.get("rates", {}).get("cnn", {})
    cnn = result(records, "network", "cnn").get("images_per_second")
    eager = max((rate for form, rate in forms.items() if form.startswith("eager")), default=None)
    best, form = best_form(forms) if any(form.startswith("graph") for form in forms) else (None, "")
    missing = "" if baseline else "no PyTorch was measured"
    absent = "no such product was measured"
    product, half = (chosen_rate(records, "matmul", "square_%d%s" % (LARGE, kind))
                     for kind in ("", " bf16"))
    return [
        Goal("float32 product, %d cubed, against the vendor's library" % LARGE, "GFLOP/s", product,
             rates.get("float32 %d" % LARGE), 0.8, absent if product is None else missing),
        Goal("reference CNN, batch 64, against PyTorch step by step", "images/s", cnn, eager, 2.0,
             missing),
        Goal("the same against the best of PyTorch's forms" + (" (%s)" % form if form else ""),
             "images/s", cnn, best, 1.0, missing or "PyTorch captured no graph here"),
        Goal("bfloat16 product, %d cubed, against the vendor's library" % LARGE, "GFLOP/s", half,
             rates.get("bfloat16 %d" % LARGE), 0.4, absent if half is None else missing),
    ]


def failures(records):
    """What went wrong among the tests: pairs of what it is and a command that repeats it."""
    found = []
    for r in records:
        if r["phase"] != "correct":
            continue
        program, before = str(r["command"][0]), len(found)
        for line in r.get("failed", []):
            if m := FAIL.match(line):
                op, case, kernel, _, text = m.groups()
                repeat = "%s --op %s --case %s%s" % (
                    program, op, case, " --kernel %s" % kernel if kernel else "")
                found.append((("%s/%s%s: %s" % (op, case, "/" + kernel if kernel else "",
                                                text))[:200], repeat))
            elif m := CASE.match(line):
                found.append(("%s of %s" % (m[1], r["step"]), program))
            else:
                found.append((line[:200], " ".join(map(str, r["command"]))))
        if r["timed_out"]:
            found.append(("%s did not end within %.0f s" % (r["step"], r["seconds"]),
                          " ".join(map(str, r["command"]))))
        elif r["status"] not in (0, 77) and len(found) == before:
            found.append(("%s ended with status %s" % (r["step"], r["status"]),
                          " ".join(map(str, r["command"]))))
    return found


def ceilings(records):
    """GFLOP/s and GB/s that the device reaches: as measured, else the best that any operation
    reached here."""
    rates = {rate["what"]: rate["value"]
             for rate in result(records, "device", "device").get("rates", [])}
    rows = operations(records) + result(records, "network", "cnn").get("profile", [])
    return (rates.get("multiply-adds") or max((row["gflops"] for row in rows), default=0),
            rates.get("memory, read and write") or max((row["gbytes"] for row in rows), default=0))


def fixes(records):
    """The nodes of the CNN's step by the time that they take beyond what the device needs at its
    best."""
    flops, bytes_ = ceilings(records)
    found = []
    for node in result(records, "network", "cnn").get("profile", []):
        reached = max(node["gflops"] / flops if flops else 0, node["gbytes"] / bytes_ if bytes_
                      else 0)
        found.append({**node, "reached": min(reached, 1.0),
                      "lost": node["seconds"] * (1 - min(reached, 1.0))})
    return sorted(found, key=lambda node: -node["lost"])[:MOST_FIXES]


def runners_up(records):
    """Cases in which another kernel was at least a tenth faster than the chosen one."""
    cases = {}
    for row in operations(records):
        cases.setdefault((row["op"], row["case"]), []).append(row)
    found = []
    for (op, case), rows in sorted(cases.items()):
        chosen, best = next((row for row in rows if row["chosen"]),
                            None), min(rows, key=lambda row: row["seconds"])
        if chosen and best["seconds"] * 1.1 < chosen["seconds"]:
            found.append((op, case, chosen["kernel"], best["kernel"],
                          chosen["seconds"] / best["seconds"]))
    return sorted(found, key=lambda row: -row[-1])


def figure(value):
    return "" if value is None else "%.2f" % value if abs(value) < 10 else "{:,.0f}".format(value)


def table(heads, rows):
    yield "| %s |" % " | ".join(heads)
    yield "|%s" % ("---|" * len(heads))
    for row in rows:
        yield "| %s |" % " | ".join(str(cell).replace("|", "\\|") for cell in row)
    yield ""


def goal_rows(records):
    tests = [r for r in records if r["phase"] == "correct"]
    wrong = failures(records)
    for goal in goals(records):
        verdict = {True: "yes", False: "NO",
                   None: "not measured" + (": " + goal.reason if goal.reason else "")}[goal.passed]
        yield ("%s: at least %.1f" % (goal.text, goal.least),
               "%s %s" % (figure(goal.measured), goal.unit) if goal.measured is not None else "",
               figure(goal.baseline), figure(goal.ratio), verdict)
    yield ("test programs without a failure",
           "%d of %d" % (sum(r["status"] in (0, 77) for r in tests), len(tests)), "", "",
           ("NO, %d failures" % len(wrong) if wrong else "yes") if tests else "not measured")


def network_rows(records):
    theirs = result(records, "baseline", "pytorch").get("rates", {})
    for network, _ in networks(records):
        other, form = best_form(theirs.get(network["model"], {}))
        yield ("%s, batch %s" % (network["model"], network["batch"]),
               figure(network["step_seconds"] * 1e3),
               "%s %s" % (figure(network["units_per_second"]), network["unit"]),
               "%s (%s)" % (figure(other), form) if other else "",
               figure(network["units_per_second"] / other if other else None))


def cost_rows(records):
    for network, costs in networks(records):
        for i, (op, kernel, count, seconds) in enumerate(costs):
            yield ("" if i else network["model"], op, kernel, count, figure(seconds * 1e6))


def make(records, about):
    """The report. `about`: pairs for its last section."""
    device = (result(records, "inventory", "devices") or [{}])[0]
    name = device.get("name") or result(records, "network", "cnn").get("device") or "unknown device"
    lines = ["# %s" % name, ""]
    lines += table(("goal", "measured", "baseline", "ratio", "reached"), goal_rows(records))
    flops, bytes_ = ceilings(records)
    lines += ["## The first things to fix", "",
              "Nodes of the reference CNN's step, by the time that they lose against the device's "
              "best (%s GFLOP/s, %s GB/s)." % (figure(flops), figure(bytes_)), ""]
    lines += table(("operation", "kernel", "time, us", "of the device's best", "lost, us"),
                   [(n["op"], n["kernel"], figure(n["seconds"] * 1e6),
                     "%.0f %%" % (100 * n["reached"]), figure(n["lost"] * 1e6))
                    for n in fixes(records)]
                   or [("no profile was taken",) + ("",) * 4])
    rows = list(network_rows(records))
    if rows:
        lines += ["## Networks", "", "Each beside the fastest of PyTorch's forms (TF32 off).", ""]
        lines += table(("network", "step, ms", "a second", "PyTorch (form)", "ratio"), rows)
        lines += ["The operations of a step that take longest, by the device's time alone:", ""]
        lines += table(("network", "operation", "kernel", "of them", "all, us"),
                       cost_rows(records))
    absent = result(records, "baseline", "pytorch").get("errors", {})
    if absent:
        lines += ["PyTorch may be faster than it is here, where these were not measured: %s."
                  % "; ".join("%s (%s)" % pair for pair in absent.items()), ""]
    slower = runners_up(records)
    if slower:
        lines += ["## Kernels that were chosen and were not the fastest", ""]
        lines += table(("operation", "case", "chosen", "faster", "times"),
                       [(*row[:-1], figure(row[-1])) for row in slower])
    spilling = [row for row in result(records, "kernels", "kernels").get("kernels", [])
                if row.get("spills") or row.get("scratch")]
    if spilling:
        lines += ["## Pipelines that spill registers", ""]
        lines += table(("kernel", "spills", "scratch, bytes"),
                       [(row.get("shader", ""), row.get("spills", ""), row.get("scratch", ""))
                        for row in spilling])
    wrong = failures(records)
    lines += ["## Failures", ""]
    lines += ["- %s  \n  `%s`" % pair for pair in wrong[:MOST_FAILURES]] or ["None."]
    lines += ["",
              "And %d more." % (len(wrong) - MOST_FAILURES)] if len(wrong) > MOST_FAILURES else []
    lines += ["", "## What ran", ""]
    lines += table(("phase", "step", "seconds", "status"),
                   [(r["phase"], r["step"], "%.1f" % r["seconds"], "stopped" if r["timed_out"]
                     else r["status"])
                                                             for r in records])
    lines += ["## Machine", ""]
    lines += table(("what", "is"), [*((key, device[key]) for key in DEVICE if key in device),
                                    *about])
    return "\n".join(lines).rstrip() + "\n"
