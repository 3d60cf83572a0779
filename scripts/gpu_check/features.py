"""The step features: what a model, a layout or an optimizer can be, trained on the GPU and on the CPU. Layouts are those of the tests
that train under MPI, which hold the CPU's results to a serial run's."""
import json
import os

from gpu_check.correctness import TOLERANCE, far_from, memory_differences
from gpu_check.room import POINT, ROOT

LAYOUTS = os.path.join(ROOT, "test/mpi/layouts.json")
AXES = ("tp", "pp", "dp", "cp")
EVERY = 6  # of the layouts of two ranks, which share the GPU
LOOSE = {**TOLERANCE, "fp8": 3e-2}  # the CPU rounds to FP8 as the GPU does, and sums in another order before it


def merged(common, changes):
    """A JSON merge patch."""
    if not isinstance(common, dict) or not isinstance(changes, dict):
        return changes
    result = {**common, **{k: merged(common.get(k), v) for k, v in changes.items()}}
    return {k: v for k, v in result.items() if v is not None}


def ranks_of(spec):
    count = 1
    for axis in AXES:
        count *= spec.get(axis, 1)
    return count


def on_gpus(spec):
    """As a GPU can run it: cuDNN's attention is for 16-bit types and draws no masks."""
    if spec["attention"] == "flash":
        spec = {**spec, "dropout": 0, **({"precision": "bf16"} if spec["precision"] == "f32" else {})}
    return spec


def chosen(with_ranks):
    """(name, spec): all of one rank; some of two, where there is a launcher for them."""
    with open(LAYOUTS) as file:
        table = json.load(file)
    specs = [(entry["name"], on_gpus({**merged(table["common"], {k: v for k, v in entry.items() if k != "name"}), "iterations": 3}))
             for entry in table["layouts"]]
    two = [s for s in specs if ranks_of(s[1]) == 2]
    return [s for s in specs if ranks_of(s[1]) == 1] + (two[::EVERY] if with_ranks else [])


def job(room, number, spec, device):
    """The command that trains it, and where its result will be."""
    folder = os.path.join(room.out, "features", f"{number}-{device}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "spec.json")
    with open(path, "w") as out:
        json.dump(spec, out, indent=1)
    launcher = "local" if ranks_of(spec) == 1 else room.launcher
    return ([room.mbench(), "sweep", path, "--on", device, "--out", folder, "--launcher", launcher, "--timeout", str(POINT), "--quiet"],
            os.path.join(folder, "results.json"))


def result_of(path, told):
    """The point, or what its command said."""
    if not os.path.exists(path):
        return {"outcome": "crashed", "reason": " ".join(told[1].split())[-300:]} if told[0] is not None else None
    with open(path) as file:
        points = json.load(file)["points"]
    return points[0] if points else None


def judge(gpu, cpu):
    """What is wrong, if anything, and the largest error as a part of what is allowed."""
    if gpu["outcome"] != "ok":
        return f"{gpu['outcome']} ({gpu.get('reason') or ''})", 0.0
    precision = gpu["precision"]
    worst, why = far_from(gpu, cpu, LOOSE[precision if isinstance(precision, str) else precision["preset"]])
    different = memory_differences(gpu, cpu)
    return "; ".join(filter(None, [why, *different])) or None, worst


def features(room):
    layouts = chosen(room.launcher == "mpirun")
    if room.tiny:
        layouts = layouts[:2]
    jobs = [job(room, i, spec, device) for i, (_, spec) in enumerate(layouts) for device in ("cpu", room.device)]
    told = room.run_many([argv for argv, _ in jobs])
    points = [result_of(path, said) for (_, path), said in zip(jobs, told)]
    wrong, unsupported, ran, worst = [], [], 0, 0.0
    for (name, _), cpu, gpu in zip(layouts, points[::2], points[1::2]):
        if cpu is None or gpu is None:
            continue
        ran += 1
        if gpu["outcome"] == "unsupported":
            unsupported.append(f"{name}: {gpu['reason']}")
            continue
        why, error = judge(gpu, cpu) if cpu["outcome"] == "ok" else (f"on the CPU {cpu['outcome']} ({cpu.get('reason') or ''})", 0.0)
        worst = max(worst, error)
        if why:
            wrong.append(f"{name}: {why}")
    said = (f"{ran} of {len(layouts)} layouts, {len(wrong)} wrong, {len(unsupported)} unsupported; largest error {worst:.2f} of the tolerance")
    result = "failed" if wrong or not ran else "cut off" if ran < len(layouts) else "ok"
    return result, "; ".join([said, *wrong[:5]]), {"details": {"wrong": wrong, "unsupported": unsupported, "worst": worst}}
