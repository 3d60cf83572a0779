#!/usr/bin/env python3
"""Fits the constants of a framework file (engine/framework) to published step times.

    scripts/fit_framework.py FRAMEWORK.json SPEC... [--fix KEY,KEY...] [--hold-out] [--mbench build/release/mbench] [--rounds 8]
    scripts/fit_framework.py FRAMEWORK.json --half-of FOLDER [--fix KEY,KEY...]

Every SPEC has published figures with iteration_ms. --half-of takes the specs of FOLDER (configs/published/modern) that run on this
framework and are of the half `fit` of scripts/published_errors.py; models as small as that script keeps apart weigh a quarter. The constants that all of them share are moved by damped, reweighted
least squares on the logarithm of simulated / published, so that the mean of the relative errors falls; nothing belongs to
one table. Prints the constants and the errors; --write puts them into the file. With --hold-out it fits each choice of half of the specs
and prints the error on the other half, which is what an unseen table may expect.
"""
import argparse
import copy
import itertools
import json
import math
import os
import statistics
import subprocess
import tempfile

import published_errors

HOST = ("kernel", "call", "call_fill", "fill", "product", "collective", "message", "micro_batch", "recompute_region", "step", "masked_token", "mixture", "parameter")


def constants_of(framework, fixed):
    """[(group, key)] of what the fit may move."""
    all_of = [("host_us", key) for key in HOST if key in framework["host_us"]] + [("kernels", "traffic_efficiency")]
    unknown = set(fixed) - {key for _, key in all_of}
    if unknown:
        raise SystemExit(f"--fix {', '.join(sorted(unknown))}: need some of {', '.join(key for _, key in all_of)}")
    return [(group, key) for group, key in all_of if key not in fixed]


def simulate(mbench, framework, specs):
    """log(simulated / published) of every published row."""
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "framework.json")
        with open(path, "w") as out:
            json.dump(framework, out)
        for i, (spec, published) in enumerate(specs):
            file, results = os.path.join(folder, f"{i}.json"), os.path.join(folder, f"{i}")
            with open(file, "w") as out:
                json.dump({**spec, "framework.host": path}, out)
            subprocess.run([mbench, "sweep", file, "--on", published["machine"], "--out", results, "--quiet"], check=True,
                           stdout=subprocess.DEVNULL)
            with open(os.path.join(results, "results.json")) as text:
                points = json.load(text)["points"]
            for row in published["rows"]:
                point = next(p for p in points if all(p[k] == v for k, v in row["where"].items()))
                published_ms = statistics.median(published_errors.runs_of(row["iteration_ms"]))
                errors.append(math.log(point["iteration_ms"]["mean"] / published_ms))
    return errors


def solve(a, b):
    """Gaussian elimination with pivoting."""
    n = len(b)
    rows = [list(a[i]) + [b[i]] for i in range(n)]
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[p] = rows[p], rows[i]
        for r in range(i + 1, n):
            f = rows[r][i] / rows[i][i]
            rows[r] = [x - f * y for x, y in zip(rows[r], rows[i])]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x


def with_constants(framework, constants, values):
    changed = copy.deepcopy(framework)
    for (group, key), value in zip(constants, values):
        changed[group][key]["value"] = min(value, 1.0) if group == "kernels" else value
    return changed


def mean(values):
    return sum(values) / len(values)


def specs_of_half(folder, framework):
    """[(spec, published, weight)] of those with a time."""
    chosen = []
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".json"):
            continue
        with open(os.path.join(folder, file)) as text:
            spec = json.load(text)
        published = spec.pop("published")
        published["rows"] = [row for row in published["rows"] if "iteration_ms" in row and "iteration_ms" not in row.get("doubt", {})]
        if published_errors.host_of(spec) == framework and published_errors.half(spec["name"]) == "fit" and published["rows"]:
            chosen.append((spec, published, 0.25 if spec["model"]["hidden"] <= published_errors.SMALL else 1.0))
    return chosen


def fit(mbench, framework, constants, specs, rounds, weights=None):
    weights = weights or [1.0] * sum(len(published["rows"]) for _, published in specs)
    average = lambda errors: sum(w * abs(e) for w, e in zip(weights, errors)) / sum(weights)
    values = [framework[group][key]["value"] for group, key in constants]
    errors = simulate(mbench, framework, specs)
    n = len(values)
    for _ in range(rounds):
        columns = []
        for j in range(n):
            moved = list(values)
            moved[j] *= 1.05 if constants[j][0] != "kernels" else 1 / 1.05
            other = simulate(mbench, with_constants(framework, constants, moved), specs)
            columns.append([(o - e) / math.log(moved[j] / values[j]) for o, e in zip(other, errors)])
        weight = [w / max(abs(e), 0.015) for w, e in zip(weights, errors)]
        a = [[sum(w * x * y for w, x, y in zip(weight, columns[i], columns[j])) for j in range(n)] for i in range(n)]
        damping = 0.01 * sum(a[i][i] for i in range(n)) / n
        for i in range(n):
            a[i][i] += damping
        step = solve(a, [-sum(w * x * e for w, x, e in zip(weight, columns[i], errors)) for i in range(n)])
        for scale in (1, 0.5, 0.25, 0.125):
            moved = [v * math.exp(max(-0.7, min(0.7, scale * s))) for v, s in zip(values, step)]
            other = simulate(mbench, with_constants(framework, constants, moved), specs)
            if average(other) < 0.9995 * average(errors):
                values, errors = moved, other
                break
        else:
            break
    return with_constants(framework, constants, values), errors


def describe(errors):
    relative = [abs(math.exp(e) - 1) for e in errors]
    return f"mean error {100 * mean(relative):.2f} %, max {100 * max(relative):.1f} % of {len(errors)} rows"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework")
    parser.add_argument("specs", nargs="*")
    parser.add_argument("--half-of")
    parser.add_argument("--fix", default="", help="constants that stay as they are, separated by commas")
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--write", action="store_true", help="put the fitted values into the file; their sources are to be written by hand")
    parser.add_argument("--mbench", default="build/release/mbench")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    with open(options.framework) as text:
        framework = json.load(text)
    constants = constants_of(framework, [key for key in options.fix.split(",") if key])
    specs, weights = [], None
    if options.half_of:
        half = specs_of_half(options.half_of, framework["name"])
        specs, weights = [(spec, published) for spec, published, _ in half], [w for _, published, w in half for _ in published["rows"]]
    for path in options.specs:
        with open(path) as text:
            spec = json.load(text)
        published = spec.pop("published")
        spec.pop("tables", None)
        specs.append((spec, published))
    if options.hold_out:
        worst = []
        for chosen in itertools.combinations(range(len(specs)), len(specs) // 2):
            fitted, seen = fit(options.mbench, framework, constants, [specs[i] for i in chosen], options.rounds)
            unseen = simulate(options.mbench, fitted, [s for i, s in enumerate(specs) if i not in chosen])
            names = " and ".join(specs[i][0]["name"] for i in chosen)
            print(f"fitted on {names}: {describe(seen)}; on the others: {describe(unseen)}", flush=True)
            worst.append(mean([abs(math.exp(e) - 1) for e in unseen]))
        print(f"unseen specs, mean over the choices: {100 * mean(worst):.2f} %")
        return
    print(f"now: {describe(simulate(options.mbench, framework, specs))}", flush=True)
    fitted, errors = fit(options.mbench, framework, constants, specs, options.rounds, weights)
    for group, key in constants:
        print(f"{group}.{key}: {framework[group][key]['value']:g} -> {fitted[group][key]['value']:.4g}")
    print(describe(errors))
    if options.write:
        with open(options.framework, "w") as out:
            out.write(json.dumps(fitted, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
