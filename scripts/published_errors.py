#!/usr/bin/env python3
"""How far simulation is from published figures, over a folder of specs that have some.

    scripts/published_errors.py [FOLDER] [--mbench build/release/mbench] [--rows] [--bounds]

Runs every spec of FOLDER (configs/published/modern) on the machine that it names, and prints the mean and largest error
of peak memory and of step time by source, and over all. Where a figure was published of several runs of the same
their median counts; how far the first of them is from it, and simulation from the first, stands apart. Each spec is of one of two halves, by a hash of its name: what is
fitted is fitted to rows of the half `fit`, and what stands beside `held` is of rows that no constant has seen. Then the
pairs of layouts of one model on one machine whose published time for a token and device is more than 5 % apart: how many of
them simulation puts in the published order. Rows of one layout, by every field of their specs, are no pair. Last, what a measurement
of the same would say of the first of several runs: the median of the others, which is as right as any model can be. With --rows every
row; with --bounds exit code 1 if an error is beyond the bounds that stand in BOUNDS.

Rows that this version cannot run are counted, with their reasons. A figure with a doubt is left out.
"""
import argparse
import hashlib
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

# The largest share that each figure may be off: mean and largest. What was seen when they were set, and a little room.
# Small models have bounds of their own, for what their steps of a tenth of a second take is the host's, and published runs of one
# test differ by a third and more.
BOUNDS = {"allocated": (0.0095, 0.045), "time": (0.047, 0.15), "time of small models": (0.125, 0.62)}
SMALL = 512  # hidden size
ORDERED = ("xtuner",)  # sources that do not print the network and the processors of their machine: judged by the order of layouts
MEMORY = {"peak_memory_mib": "allocated", "last_rank_memory_mib": "allocated", "reserved_memory_mib": "reserved"}


def half(name):
    return "fit" if int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0 else "held"


def is_small(spec):
    return spec["model"].get("hidden", SMALL + 1) <= SMALL  # presets are wider


def small_runs(folder):
    """The names of a folder's specs of small models."""
    specs = (json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json"))
    return {spec["name"] for spec in specs if is_small(spec)}


class Row:
    """A published figure beside the simulated one."""

    def __init__(self, spec, kind, runs, simulated):
        self.spec, self.kind, self.runs, self.simulated = spec, kind, runs, simulated
        self.published, self.first = statistics.median(runs), runs[0]
        self.name = spec["name"]
        self.source = self.name.split("-")[0]
        self.small = is_small(spec)
        if self.small:
            self.source += f", width {SMALL}"
        self.half = half(self.name)

    @property
    def error(self):
        return self.simulated / self.published - 1


def runs_of(figure):
    """The runs of a published figure."""
    return figure["runs"] if isinstance(figure, dict) else [figure]


def host_of(spec):
    """The framework whose host costs a spec charges."""
    framework = spec.get("framework", "mbench")
    return framework if isinstance(framework, str) else framework.get("host", framework["preset"])


def precision_of(spec):
    precision = spec["precision"]
    return precision if isinstance(precision, str) else precision["preset"]


def run(mbench, folder, framework=None):
    """Every figure of the folder's specs, and what could not be run: {reason: names}."""
    rows, left_out = [], {}
    names = sorted(f for f in os.listdir(folder) if f.endswith(".json"))
    with tempfile.TemporaryDirectory() as out:
        for file in names:
            with open(os.path.join(folder, file)) as text:
                spec = json.load(text)
            published = spec["published"]
            results = os.path.join(out, spec["name"])
            command = [mbench, "sweep", os.path.join(folder, file), "--on", published["machine"], "--out", results, "--quiet"]
            if framework:
                host = host_of(spec)
                command += ["--set", f"framework.host={framework[host]}"] if host in framework else []
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            path = os.path.join(results, "results.json")
            if not os.path.exists(path):
                sys.exit(f"{file}: {done.stderr.strip()}")
            with open(path) as text:
                written = json.load(text)
            point = (written["points"] or [None])[0]
            if point["outcome"] != "ok":
                left_out.setdefault(f"{point['outcome']}: {point['reason']}", []).append(spec["name"])
                continue
            spec["parameters"] = point["parameters"]
            spec["world"] = point["world"]
            spec["nodes"] = -(-point["world"] // written["environment"]["devices_per_node"])
            spec["experts"] = spec["model"].get("experts", 0)
            for figures in published["rows"]:
                for key, value in figures.items():
                    if key in ("where", "doubt") or key in figures.get("doubt", {}):
                        continue
                    simulated = point[key]["mean"] if isinstance(point[key], dict) else point[key]
                    if simulated is None:
                        continue
                    kind = MEMORY.get(key, "time")
                    runs = runs_of(value)
                    if key == "tflops_per_device":
                        runs, simulated = [1 / run for run in runs], 1 / simulated
                    rows.append(Row(spec, kind, runs, simulated))
    return rows, left_out


def describe(rows):
    if not rows:
        return f"{'-':>8} {'-':>8} {0:>4}"
    errors = [abs(r.error) for r in rows]
    return f"{100 * sum(errors) / len(errors):7.2f}% {100 * max(errors):7.2f}% {len(rows):>4}"


def layout(spec):
    """All that a simulation is told."""
    return json.dumps({k: v for k, v in spec.items() if k not in ("name", "published", "parameters", "world")}, sort_keys=True)


def told(errors):
    return (f"mean {100 * statistics.mean(errors):.1f} %, largest {100 * max(errors):.1f} %, "
            f"{sum(e > 0.18 for e in errors)} of {len(errors)} more than 18 %")


def repeats(rows):
    """Of times that were published of several runs: lines on how far these are apart, and how far the first is from what was measured
    in the others and from what is simulated."""
    times = [r for r in rows if r.kind == "time"]
    several = [r for r in times if len(r.runs) > 1]
    if not several:
        return []
    off = [abs(r.first / r.published - 1) for r in several]
    spread = [max(r.runs) / min(r.runs) - 1 for r in several]
    within = sum(min(r.runs) <= r.simulated <= max(r.runs) for r in several)
    beyond = [max(min(r.runs) / r.simulated, r.simulated / max(r.runs), 1) - 1 for r in several]
    settled = [abs(r.error) for r in times if not r.small or len(r.runs) > 1]
    first = [abs(r.simulated / r.first - 1) for r in times]
    measured = [abs(statistics.median(r.runs[1:]) / r.first - 1) for r in several]
    simulated = [abs(r.simulated / r.first - 1) for r in several]
    return [
        f"{len(several)} times were published of {min(len(r.runs) for r in several)} to {max(len(r.runs) for r in several)} runs: the first is "
        f"{100 * statistics.mean(off):.1f} % from the median of its runs, at most {100 * max(off):.1f} %, {sum(o > 0.18 for o in off)} of them more than 18 %; "
        f"the slowest takes {100 * statistics.median(spread):.0f} % longer than the fastest (median); {within} simulated times are between both, the others at most {100 * max(beyond):.1f} % beyond",
        f"the first of these runs, from the median of the others: {told(measured)}; from its simulation: {told(simulated)}",
        f"times without those of width {SMALL} that were published of one run: mean {100 * statistics.mean(settled):.2f} %, "
        f"largest {100 * max(settled):.2f} % of {len(settled)}",
        f"simulated times against the first runs alone: mean {100 * statistics.mean(first):.2f} %, largest {100 * max(first):.2f} % of {len(first)}"]


def pairs(rows, repeated=False):
    """Of layouts of one model on one machine: in the published order, and all; or those alone of which both have several runs, and all
    of the one are faster than any of the other."""
    groups = {}
    for r in rows:
        if r.kind != "time":
            continue
        s = r.spec
        if "iteration_ms" not in s["published"]["rows"][0]:
            continue
        tokens = s["global_batch"] * s["seq"] / s["world"]
        key = (json.dumps(s["model"]), s["published"]["machine"].split("x", 1)[1], s["seq"], precision_of(s))
        groups.setdefault(key, []).append((r.published / tokens, r.simulated / tokens, layout(s), [run / tokens for run in r.runs]))
    right = of = 0
    for group in groups.values():
        for (pa, sa, la, ra), (pb, sb, lb, rb) in itertools.combinations(group, 2):
            if la == lb or max(pa, pb) / min(pa, pb) <= 1.05:
                continue
            if repeated and (min(len(ra), len(rb)) < 2 or (min(ra) <= max(rb) and min(rb) <= max(ra))):
                continue
            of += 1
            right += (pa < pb) == (sa < sb)
    return right, of


def rank_correlation(rows):
    """Spearman's, of published and simulated times for a token and device."""
    def ranks(values):
        order = sorted(range(len(values)), key=values.__getitem__)
        return [order.index(i) for i in range(len(values))]

    def of(row, time):
        return time / (row.spec["global_batch"] * row.spec["seq"] / row.spec["world"])

    n = len(rows)
    if n < 2:
        return math.nan
    published, simulated = ranks([of(r, r.published) for r in rows]), ranks([of(r, r.simulated) for r in rows])
    return 1 - 6 * sum((p - s) ** 2 for p, s in zip(published, simulated)) / (n * (n * n - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="configs/published/modern")
    parser.add_argument("--mbench", default="build/release/mbench")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--bounds", action="store_true")
    options = parser.parse_args()
    rows, left_out = run(options.mbench, options.folder)
    if options.rows:
        for r in sorted(rows, key=lambda r: (r.kind, r.name)):
            print(f"{r.kind:10} {r.half:5} {r.published:12.3f} {r.simulated:12.3f} {100 * r.error:+7.2f}%  {r.name}")
    too_far = []
    for kind in ("allocated", "reserved", "time"):
        of_kind = [r for r in rows if r.kind == kind]
        print(f"\n{kind + ', mean largest rows':38}   {'all':^22}   {'fit':^22}   {'held':^22}")
        groups = {source: [r for r in of_kind if r.source == source] for source in sorted({r.source for r in of_kind})}
        groups = {source: some for source, some in groups.items() if source not in ORDERED}
        of_kind = [r for r in of_kind if r.source not in ORDERED]
        groups[f"together, without width {SMALL}"] = [r for r in of_kind if not r.small]
        groups["together"] = of_kind
        for name, some in groups.items():
            line = "   ".join(describe([r for r in some if h in (None, r.half)]) for h in (None, "fit", "held"))
            print(f"{name:38}   {line}")
        apart = {kind: [r for r in of_kind if kind != "time" or not r.small]}
        if kind == "time":
            apart["time of small models"] = [r for r in of_kind if r.small]
        for what, bound in apart.items():
            if what not in BOUNDS or not bound:
                continue
            errors = [abs(r.error) for r in bound]
            mean, largest = sum(errors) / len(errors), max(errors)
            if mean > BOUNDS[what][0] or largest > BOUNDS[what][1]:
                too_far.append(f"{what}: mean {100 * mean:.2f} %, largest {100 * largest:.2f} %, need {BOUNDS[what]}")
    right, of = pairs(rows)
    wide, of_wide = pairs([r for r in rows if not r.small])
    clear, of_clear = pairs(rows, repeated=True)
    print(f"\n{right} of {of} pairs of layouts more than 5 % apart in the published order; without width {SMALL} {wide} of {of_wide}; "
          f"where both were published of several runs, none of which is in the other's range, {clear} of {of_clear}")
    for source in ORDERED:
        apart = [r for r in rows if r.kind == "time" and r.source == source]
        right, of = pairs(apart)
        print(f"{source}, judged by order: {right} of {of} pairs, rank correlation {rank_correlation(apart):.2f}; "
              f"time {describe(apart).strip()}, mean of all {100 * statistics.mean(r.error for r in apart):+.1f} %" if apart else f"{source}: none")
    for line in repeats([r for r in rows if r.source not in ORDERED]):
        print(line)
    for reason, names in sorted(left_out.items()):
        print(f"not run, {reason}: {', '.join(names)}")
    if options.bounds and too_far:
        sys.exit("\n".join(too_far))


if __name__ == "__main__":
    main()
