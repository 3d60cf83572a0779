"""The steps that look at single kernels: profile (Nsight Compute over one training step) and kernels (the engine's own, by bytes)."""
import csv
import json
import os
import re
import shutil

from gpu_check import record
from gpu_check.room import ROOT
from gpu_check.speed import TINY

METRICS = {"gpu__time_duration.sum": "time", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory",
           "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": "tensor"}
UNITS = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1, "us": 1, "msecond": 1e3, "ms": 1e3, "second": 1e6, "s": 1e6, "%": 1}  # to us
FIRST = "EmbeddingEach"  # the first kernel of a step looks words up


def launches_of(text):
    """Of ncu's csv: [{"kernel", "time" in us, "memory", "tensor" in %}], in the order of the launches."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    launches = {}
    for row in csv.DictReader(lines[begin:]):
        what = METRICS.get(row.get("Metric Name") or "")
        if not what:
            continue
        entry = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        try:
            entry[what] = float(row["Metric Value"].replace(",", "")) * UNITS.get(row["Metric Unit"], 1)
        except ValueError:  # "n/a": this GPU has no such metric
            entry[what] = None
    return list(launches.values())


def last_step(launches):
    """Those of the last step: the steps before had plans to make."""
    starts = [i for i, entry in enumerate(launches) if FIRST in entry["kernel"]]
    starts = [i for i, before in zip(starts, [-2, *starts]) if i > before + 1]  # words, then positions: one beginning
    return launches[starts[-1]:] if starts else launches


def short_name(kernel):
    """The name without namespaces, arguments and the words that all have."""
    name = re.sub(r"\(.*$", "", kernel.replace("void ", "").replace("mbench::cuda::", "").replace("mbench::", ""))
    return name if len(name) <= 90 else name[:87] + "..."


def by_kernel(launches):
    """Rows: kernel, launches, us of all, memory %, tensor %, by time."""
    sums = {}
    for entry in launches:
        s = sums.setdefault(short_name(entry["kernel"]), {"n": 0, "time": 0.0, "memory": 0.0, "tensor": 0.0})
        time = entry.get("time") or 0.0
        s["n"] += 1
        s["time"] += time
        for what in ("memory", "tensor"):
            s[what] += time * (entry.get(what) or 0.0)
    share = lambda s, what: f"{s[what] / s['time']:.0f}" if s["time"] else "n/a"
    return [[name, s["n"], f"{s['time']:.1f}", share(s, "memory"), share(s, "tensor")]
            for name, s in sorted(sums.items(), key=lambda item: -item[1]["time"])]


def profile(room):
    if room.device != "cuda":
        return "not run", "needs a GPU", {}
    if not shutil.which("ncu", path=room.environment.get("PATH")):
        return "not run", "ncu (Nsight Compute) is not installed", {}
    spec = {k: v for k, v in room.spec("mfu-gpt-1.3b").items() if k not in ("tables", "sweep", "name", "$schema", "max_seconds")}
    spec.update(iterations=1, warmup=1, micro_batch=8, global_batch=8)
    spec["model"] = {**spec["model"], "name": "2 layers of gpt-1.3b", "layers": 2}
    if room.tiny:
        spec.update({k: v for k, v in TINY.items() if k != "sweep"}, micro_batch=1, global_batch=1, iterations=1, warmup=1)
    path, log = os.path.join(room.out, "profile.json"), os.path.join(room.out, "profile.csv")
    with open(path, "w") as out:
        json.dump(spec, out, indent=1)
    if os.path.exists(log):
        os.remove(log)
    code, text = room.run(["ncu", "--csv", "--log-file", log, "--target-processes", "all", "--metrics", ",".join(METRICS), room.mbench(),
                           "run", path, "--on", "cuda"])
    told = open(log).read() if os.path.exists(log) else ""
    if "ERR_NVGPUCTRPERM" in told + text:
        return "not run", "this machine's driver lets nobody but root read a GPU's counters (ERR_NVGPUCTRPERM)", {}
    launches = last_step(launches_of(told))
    if not launches:
        return ("cut off" if code is None else "failed"), " ".join((told + text).split())[-300:] or "ncu wrote nothing", {}
    rows = by_kernel(launches)
    total = sum(entry.get("time") or 0.0 for entry in launches)
    return ("cut off" if code is None else "ok"), f"{len(launches)} launches, {total / 1e3:.2f} ms in kernels", {
        "tables": [record.table("Kernels of one step of 2 layers of gpt-1.3b", ["kernel", "launches", "us", "memory (%)", "tensor (%)"],
                                rows)]}


def kernels(room):
    if room.device != "cuda":
        return "not run", "needs a GPU", {}
    program = room.program("kernel_bench")
    if not program:
        return "not run", f"no kernel_bench in {room.programs}", {}
    table = os.path.join(ROOT, "bench/kernels.json")
    code, text = room.run([program, *(["--table", table] if os.path.exists(table) else []), *(["--tiny"] if room.tiny else [])])
    if code is None:
        return "cut off", "its time was up", {}
    if code != 0:
        return "failed", text.strip()[-300:], {}
    told = json.loads(text[text.index("{"):])
    os.makedirs(os.path.join(room.out, "measured"), exist_ok=True)
    with open(os.path.join(room.out, "measured/kernels.json"), "w") as out:
        json.dump(told, out, indent=1)
    percent = lambda x: "n/a" if x is None else f"{x * 100:.0f} %"
    rows = [[k["op"], f"{k['us']:.1f}", f"{k['gb_per_s']:.0f}", percent(k["allowed"]), percent(k["measured"])] for k in told["ops"]]
    below = [k["op"] for k in told["ops"] if None not in (k["allowed"], k["measured"]) and k["measured"] < 0.8 * k["allowed"]]
    said = f"{len(rows)} ops at {told['memory_gb_per_s']:.0f} GB/s of memory"
    if below:
        said += "; below 80 % of what their registers allow: " + ", ".join(below)
    return "ok", said, {"details": told, "tables": [
        record.table("The engine's own kernels, by the bytes that must move", ["op", "us", "GB/s", "allowed", "measured"], rows)]}
