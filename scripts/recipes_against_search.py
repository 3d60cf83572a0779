#!/usr/bin/env python3
"""Where the layouts that others published stand among all that a search looks at.

    scripts/recipes_against_search.py [NAME...] [--folder configs/published/modern] [--mbench build/release/mbench]
                                      [--fields tp,pp,cp,...] [--threads N] [--timeout SECONDS]

For each published run the fields of its layout are set free (FIELDS, of these those that its model has, and tp_comm_overlap where
it ran with it), all else stays as it ran: model, batch, sequence, machine, recompute, optimizer state. The recipe is simulated; then the search is asked for every
layout of that space that is faster. Its rank is one more than there are. Prints a table: the recipe and its rank, how many layouts
can be and are not too large by what is known of them, the best, by how much it is faster, and in which part of the step most of
that lies. Runs of models of width 512, whose steps are the host's, are left out, as are runs that do not fit when simulated.

A rank is that of a simulation: docs/simulation.md says how far its times are from published ones, and a difference below that is
none. What cannot be decided within the timeout is told as that.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

FIELDS = ["tp", "pp", "cp", "ep", "etp", "sequence_parallel", "micro_batch", "schedule", "virtual_stages"]
MOST = 1000  # layouts that a search tells at most
SMALL = 512  # hidden size
SHARES = 0.05, 0.1  # of the layouts that may fit


def results(folder):
    with open(os.path.join(folder, "results.json")) as text:
        return json.load(text)["points"]


def run(command, timeout):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None


def layout_of(point):
    shown = []
    for field in FIELDS + ["tp_comm_overlap", "dp"]:
        value = point.get(field, 1)
        if value not in (1, False, 0, "1f1b") and not (field == "virtual_stages" and value == 1):
            shown.append(field if value is True else f"{field}={value}")
    return " ".join(shown) or "dp=1"


def free(spec, fields):
    """The spec of a search: those fields any, the rest as it ran."""
    space = {k: v for k, v in spec.items() if k not in ("name", "published", "dp")}
    experts = spec["model"].get("experts", 0) > 0
    wanted = [f for f in fields if experts or f not in ("ep", "etp")]
    if spec.get("tp_comm_overlap"):
        wanted.append("tp_comm_overlap")
    for field in wanted:
        space.pop(field, None)
    return {**space, "search": wanted}


def parts(best, recipe):
    """In which part of the step the best is faster, the most first."""
    mine, its = recipe["time_anatomy_ms"], best["time_anatomy_ms"]
    less = {k: (mine.get(k) or 0) - (its.get(k) or 0) for k in mine}
    first = sorted(less, key=less.get, reverse=True)[:2]
    return ", ".join(f"{k.replace('_', ' ')} {-less[k]:+.0f} ms" for k in first if less[k] > 0)


def judge(options, name, spec):
    """A row of the table, or why there is none."""
    device = spec["published"]["machine"]
    with tempfile.TemporaryDirectory() as folder:
        own = os.path.join(folder, "own")
        mine = os.path.join(folder, name + ".json")
        with open(mine, "w") as text:
            json.dump({k: v for k, v in spec.items() if k != "$schema"}, text)
        done = run([options.mbench, "sweep", mine, "--on", device, "--out", own, "--quiet"], options.timeout)
        if done is None:
            return "not simulated in time"
        recipe = results(own)[0]
        if recipe["outcome"] != "ok":
            return f"{recipe['outcome']} when simulated"
        path = os.path.join(folder, "space.json")
        with open(path, "w") as text:
            json.dump(free(spec, options.fields), text)
        found = os.path.join(folder, "found")
        # A hair below its own rate, so that it is among what is found.
        command = [options.mbench, "search", path, "--on", device, "--out", found, "--quiet", "--no-front", "--best", str(MOST),
                   "--rate", repr(recipe["tokens_per_s"]["mean"] * (1 - 1e-9) if isinstance(recipe["tokens_per_s"], dict)
                                  else recipe["tokens_per_s"] * (1 - 1e-9)), "--threads", str(options.threads)]
        done = run(command, options.timeout)
        if done is None:
            return "not decided in time"
        if done.returncode != 0:
            return done.stderr.strip() or "the search failed"
        layouts = int(re.search(r"(\d+) layouts? that can be", done.stdout)[1])
        too_large = sum(int(n) for n in re.findall(r"- (\d+) layouts? do(?:es)? not fit", done.stdout))
        points = [p for p in results(found) if p["outcome"] == "ok"]
        ms = recipe["iteration_ms"]["mean"]
        faster = [p for p in points if p["iteration_ms"]["mean"] < ms * (1 - 1e-9)]
        if len(faster) >= MOST:
            return f"more than {MOST} of {layouts} layouts are faster"
        return {"name": name, "device": device, "recipe": recipe, "rank": len(faster) + 1, "of": layouts - too_large,
                "best": faster[0] if faster else recipe}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", default="configs/published/modern")
    parser.add_argument("--mbench", default="build/release/mbench")
    parser.add_argument("--fields", default=",".join(FIELDS), type=lambda text: text.split(","))
    parser.add_argument("--threads", default=1, type=int)
    parser.add_argument("--timeout", default=600, type=float)
    options = parser.parse_args()
    every = sorted(f[:-5] for f in os.listdir(options.folder) if f.endswith(".json"))
    unknown = [n for n in options.names if n not in every]
    if unknown:
        sys.exit(f"no such run in {options.folder}: {', '.join(unknown)}")
    print("| run | machine | recipe | time | rank | of | best | faster by | most of it |")
    print("|---|---|---|---:|---:|---:|---|---:|---|")
    within, judged = [0] * len(SHARES), 0
    untold = []
    for name in options.names or every:
        with open(os.path.join(options.folder, name + ".json")) as text:
            spec = json.load(text)
        if spec["model"]["hidden"] <= SMALL:
            continue
        row = judge(options, name, spec)
        if isinstance(row, str):
            untold.append(f"{name}: {row}")
            print(f"{name}: {row}", file=sys.stderr, flush=True)
            continue
        judged += 1
        within = [n + (row["rank"] <= max(1, share * row["of"])) for n, share in zip(within, SHARES)]
        ms, best = row["recipe"]["iteration_ms"]["mean"], row["best"]["iteration_ms"]["mean"]
        print(f"| {name} | {row['device'].removeprefix('sim:')} | {layout_of(row['recipe'])} | {ms:.0f} ms | {row['rank']} | "
              f"{row['of']} | {layout_of(row['best'])} | {100 * (1 - best / ms):.1f} % | "
              f"{parts(row['best'], row['recipe']) if row['rank'] > 1 else ''} |", flush=True)
    print()
    for n, share in zip(within, SHARES):
        print(f"{n} of {judged} recipes are within the best {100 * share:.0f} %.")
    for line in untold:
        print(f"- {line}")


if __name__ == "__main__":
    main()
