#!/usr/bin/env python3
"""Errors of a published table under each of the settings that its page leaves open.

    scripts/published_choices.py [NAME...] [--mbench build/release/mbench]

A page may not say a batch, whether layers are recomputed, or what a trainer's option was. For each such table of configs/published this
script has the few values that a person could have meant, as changes of the spec. It simulates all of them and prints the mean and the
largest error of each figure. `*` marks what the spec has. A value that the page states is never among them.
"""
import argparse
import itertools
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "configs", "published")

def batches(values):
    """One micro batch of so many samples on each rank, without accumulation."""
    return [{"micro_batch": b, "global_batch": lambda point, b=b: b * point["dp"]} for b in values]


# GB/s that a ring of PAI's four V100 moves over NVLink: two rings both ways over four bricks each, as in a DGX-1, one both ways, or one.
# The page has an instance of a cloud and does not say how its GPUs are linked.
QUAD = [{"machine": {"node.links[1].bus_gbps": gbps}} for gbps in (84, 42, 21)]

# NAME: [a list of changes for each open setting]. A change is of fields of every point; a function gets the point. `only` names the
# framework whose points it changes.
OPEN = {
    "pai-gpt-1.3b-zero": [
        QUAD,
        [{"recompute": "none"}, {"recompute": "full"}],
        [{"framework.overlap_comm": v, "only": "deepspeed"} for v in (False, True)],
        [{"framework.reduce_bucket_size": v, "only": "deepspeed"} for v in ("500000000", "200000000")],
    ],
    "pai-gpt-1.3b-sharded": [
        QUAD,
        [{"recompute": "none"}, {"recompute": "full"}],
        [{"framework.gradient_as_bucket_view": v} for v in (False, True)],
        [{"framework.mixed_precision": "autocast", "gradients_in_f32": True},
         {"framework.mixed_precision": "apex_o2", "gradients_in_f32": False}],
    ],
    "pai-gpt-1.3b-tp-pp": [
        QUAD,
        [{"recompute": "none"}, {"recompute": "full"}],
        [{"overlap_grad_reduce": v} for v in (False, True)],
    ],
    "pai-bert-mixed-precision": [
        QUAD,
        [{"framework.logits": v} for v in ("held", "dropped")],
        [{"framework.gradient_as_bucket_view": v} for v in (False, True)],
        [{"framework.fused_adamw": v} for v in (False, True)],
    ],
    "hf-nvlink": [
        [{"framework.logits": v} for v in ("held", "dropped")],
        [{"framework.fused_adamw": v} for v in (False, True)],
    ],
    "bert-345m-a100": [batches((1, 2, 4, 8, 16, 32)), [{"seq": 512}, {"seq": 128}]],
    "deepspeed-bert-345m-a100": [batches((1, 2, 4, 8, 16)), [{"seq": 512}, {"seq": 128}]],
}


def points_of(spec):
    """The points of a spec's sweep as dicts of fields."""
    axes = spec.get("sweep", {})
    for chosen in itertools.product(*axes.values()):
        point = {}
        for keys, value in zip(axes, chosen):
            names = keys.split(",")
            point.update(zip(names, value) if len(names) > 1 else {keys: value}.items())
        yield point


def set_field(point, key, value):
    if not key.startswith("framework."):
        point[key] = value
        return
    framework = point["framework"]
    framework = dict(framework) if isinstance(framework, dict) else {"preset": framework}
    framework[key.split(".", 1)[1]] = value
    point["framework"] = framework


def preset_of(framework):
    return framework["preset"] if isinstance(framework, dict) else framework


def field(point, key, otherwise=None):
    if not key.startswith("framework."):
        return point.get(key, otherwise)
    framework = point["framework"]
    return framework.get(key.split(".", 1)[1]) if isinstance(framework, dict) else None


def changed(spec, changes):
    """The spec with these changes at each of its points, and whether any is one."""
    common = {k: v for k, v in spec.items() if k not in ("$schema", "sweep", "published")}
    points, differs = [], False
    for point in points_of(spec):
        full = {**common, **point}
        for change in changes:
            if change.get("only") not in (None, preset_of(full["framework"])):
                continue
            for key, value in change.items():
                if key == "only":
                    continue
                value = value(full) if callable(value) else value
                before = field(full, key, "none" if key == "recompute" else None)
                set_field(full, key, value)
                differs |= before != value and not (before is None and value == default_of(key))
        points.append(full)
    return points, differs


DEFAULTS = {"framework.overlap_comm": False, "framework.reduce_bucket_size": "500000000", "framework.logits": "dropped",
            "framework.gradient_as_bucket_view": False, "framework.fused_adamw": False, "overlap_grad_reduce": True,
            "framework.mixed_precision": "autocast"}


def default_of(key):
    return DEFAULTS.get(key)


def value_of(figure):
    return figure["mean"] if isinstance(figure, dict) else figure


def simulate(mbench, spec, points, folder):
    """[result] of each point, in order."""
    keys = sorted({k for p in points for k in p} - {"name"})
    one = {"name": spec["name"], "sweep": {",".join(keys): [[p[k] for k in keys] for p in points]}}
    for key in list(keys):
        values = [p.get(key) for p in points]
        if all(v == values[0] for v in values):
            one[key] = values[0]
            keys.remove(key)
    one["sweep"] = {",".join(keys): [[p[k] for k in keys] if len(keys) > 1 else p[keys[0]] for p in points]} if keys else {}
    path, out = os.path.join(folder, "spec.json"), tempfile.mkdtemp(dir=folder)
    with open(path, "w") as text:
        json.dump(one, text)
    run = subprocess.run([mbench, "sweep", path, "--on", spec["published"]["machine"], "--out", os.path.join(out, "o"), "--quiet"],
                         capture_output=True, text=True)
    results = os.path.join(out, "o", "results.json")
    if not os.path.exists(results):
        raise SystemExit(f"{spec['name']}: {run.stderr or run.stdout}")
    with open(results) as text:
        return json.load(text)["points"]


def matches(where, point):
    return all(point.get(key) == value for key, value in where.items())


def errors_of(spec, results):
    """{figure: [relative error]} of the rows without a doubt."""
    errors = {}
    for row in spec["published"]["rows"]:
        if "doubt" in row:
            continue
        for point, result in zip(points_of(spec), results):
            common = {k: v for k, v in spec.items() if k not in ("sweep", "published")}
            if not matches(row["where"], {"env": {}, **common, **point}):
                continue
            for key in ("samples_per_s", "iteration_ms", "peak_memory_mib", "device_memory_mib"):
                simulated = result.get(key)
                if key in row and simulated is not None:
                    errors.setdefault(key, []).append(value_of(simulated) / value_of(row[key]) - 1)
            break
    return errors


def words_of(changes):
    return ", ".join(f"{key.removeprefix('framework.')} {json.dumps(value).strip(chr(34))}" for change in changes
                     for key, value in change.items() if key != "only" and not callable(value))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of configs/published; all that have open settings without one")
    parser.add_argument("--mbench", default="build/release/mbench")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in OPEN]
    if unknown:
        parser.error(f"{', '.join(unknown)}: need some of {', '.join(OPEN)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names or OPEN:
            with open(os.path.join(FOLDER, name + ".json")) as text:
                spec = json.load(text)
            print(f"{name}")
            for changes in itertools.product(*OPEN[name]):
                points, differs = changed(spec, changes)
                errors = errors_of(spec, simulate(args.mbench, spec, points, folder))
                figures = "; ".join(
                    f"{key} {100 * sum(map(abs, e)) / len(e):.1f} %, largest {100 * max(e, key=abs):+.1f} %"
                    for key, e in errors.items())
                print(f"  {' ' if differs else '*'} {words_of(changes)}: {figures or 'no figure'}")


if __name__ == "__main__":
    main()
