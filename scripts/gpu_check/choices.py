"""The steps that compare ways to compute the same: choices (attention's gradient, epilogues), products (which kernels the clock chose,
FP8), and calibrate, which writes this GPU's machine file."""
import json
import os

from gpu_check import record
from gpu_check.speed import FIGURES, TINY, figures, fitting

# mbench's own way; cuDNN's gradient in whatever order parts arrive; every bias, GELU and sum as an op of its own, as Megatron-LM had
# them in 2022.
WAYS = ("mbench", {"preset": "mbench", "deterministic_attention": False}, {"preset": "megatron-2022", "host": "mbench"})
HEADER = ["model", "micro batch", "framework", "precision", *FIGURES]


def framework_text(p):
    framework = p["framework"]
    return framework if isinstance(framework, str) else ", ".join(f"{k} {v}" for k, v in framework.items())


def short_spec(room, name, size, **changes):
    """One point of a model, in a few seconds."""
    spec = {k: v for k, v in room.spec("mfu-" + name).items() if k != "tables"}
    if room.tiny:
        return {**spec, **TINY, "sweep": {"micro_batch,global_batch": [[1, 1]]}, **changes}
    return {**spec, "iterations": 6, "warmup": 3, "max_seconds": 6, "sweep": {"micro_batch,global_batch": [[size, size]]}, **changes}


def row_of(name, p):
    return [name, p["micro_batch"], framework_text(p), p["precision"], *figures(p)]


def sweep_rows(room, step, jobs):
    """(rows, points by name, what is wrong, whether time was up) of sweeps: (name, spec)."""
    rows, points, wrong, cut = [], {}, [], False
    for name, spec in jobs:
        if room.left() < 20:
            cut = True
            break
        points[name] = room.sweep(f"{step}/{name}", spec)
        if points[name] and all(p["outcome"] == "unsupported" and p["attention"] == "flash" for p in points[name]):
            points[name] = room.sweep(f"{step}/{name}", {**spec, "attention": "core"})  # a GPU or a build without cuDNN
        cut = cut or room.cut
        rows += [row_of(name, p) for p in points[name]]
        wrong += [f"{name} {framework_text(p)} {p['precision']}: {p['outcome']} ({p.get('reason') or ''})" for p in points[name]
                  if p["outcome"] not in ("ok", "oom", "unsupported")]
    return rows, points, wrong, cut


def verdict(points, wrong, cut):
    ran = any(p["outcome"] == "ok" for some in points.values() for p in some)
    return "failed" if wrong or (not ran and not cut) else "cut off" if cut else "ok"


def best_of(points):
    ran = [p for p in points if p["outcome"] == "ok"]
    return max(ran, key=lambda p: p["tokens_per_s"]) if ran else None


def choices(room):
    jobs = []
    for name, size in (("gpt-1.3b", 8), ("gpt2-345m", 16)):
        spec = short_spec(room, name, size)
        size = 1 if room.tiny else fitting(room, f"choices/{name}-sizes", spec, size)
        jobs.append((name, {**spec, "sweep": {"framework": list(WAYS)}, "micro_batch": size, "global_batch": size}))
    rows, points, wrong, cut = sweep_rows(room, "choices", jobs[:1] if room.tiny else jobs)
    said = [f"{name} fastest with {framework_text(b)}: {b['tokens_per_s']:.0f} tokens/s" for name in points
            if (b := best_of(points[name]))]
    return verdict(points, wrong, cut), "; ".join([*said, *wrong[:5]]) or "nothing ran", {
        "details": {"wrong": wrong}, "tables": [record.table("Attention's gradient and epilogues", HEADER, rows)]}


def epilogue_rows(name, p):
    """What the clock chose for each GEMM of a point."""
    gemms = (p.get("gemm_epilogues") or {}).get("gemms", [])
    return [[name, g["gemm"], g["chosen"], f"{g['fused_us']:.1f}", f"{g['separate_us']:.1f}"] for g in gemms]


def products(room):
    fp8 = [{"precision": "fp8", "fp8_recipe": recipe} for recipe in ("delayed", "tensorwise", "blockwise")]
    rows, chosen, wrong, cut, all_points = [], [], [], False, {}
    for change in ({"precision": "bf16"}, *fp8):
        if room.left() < 20:
            cut = True
            break
        name = "-".join(change.values())
        size = 8 if room.tiny else fitting(room, f"products/{name}-sizes", short_spec(room, "gpt-1.3b", 8, **change), 8)
        some, points, bad, short = sweep_rows(room, "products", [(name, short_spec(room, "gpt-1.3b", size, **change))])
        rows, wrong, cut = rows + some, wrong + bad, cut or short
        all_points.update(points)
        for p in points.get(name, []):
            chosen += epilogue_rows(name, p)
    ran = sum(p["outcome"] == "ok" for some in all_points.values() for p in some)
    separate = sum(1 for row in chosen if row[2] == "separate")
    said = f"{ran} of {len(rows)} precisions ran; of {len(chosen)} GEMMs with an epilogue the clock took {separate} apart"
    return verdict(all_points, wrong, cut), "; ".join([said, *wrong[:5]]), {"details": {"wrong": wrong}, "tables": [
        record.table("Precisions of GEMMs", HEADER, rows),
        record.table("Epilogues of GEMMs, fused or as kernels of their own (us)", ["point", "GEMM", "chosen", "fused", "separate"],
                     chosen)]}


def calibrate(room):
    if room.device != "cuda":
        return "not run", "needs a GPU", {}
    if room.tiny:
        return "not run", "small models: an emulated GPU's times make no machine file", {}
    path = os.path.join(room.out, "measured", "machine.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    argv = [room.mbench(), "calibrate", path, "--on", "cuda", "--ranks", "1", "--launcher", "local"]
    code, text = room.run([*argv, "--quick"] if room.left() < 100 else argv)
    if code is None:
        return "cut off", "its time was up", {}
    if code != 0 or not os.path.exists(path):
        return "failed", text.strip()[-300:] or f"exit code {code}", {}
    with open(path) as file:
        machine = json.load(file)
    spec = short_spec(room, "gpt-1.3b", fitting(room, "calibrate/sizes", short_spec(room, "gpt-1.3b", 8), 8))
    real, = room.sweep("calibrate/measured", spec)
    if real["outcome"] == "unsupported":
        spec["attention"] = "core"
        real, = room.sweep("calibrate/measured", spec)
    simulated, = room.sweep("calibrate/simulated", spec, f"sim:1x{path}")
    if real["outcome"] != "ok" or simulated["outcome"] != "ok":
        return "failed", f"the step is {real['outcome']}, simulated {simulated['outcome']}", {}
    times = [p["iteration_ms"]["median"] for p in (real, simulated)]
    error = (times[1] / times[0] - 1) * 100
    return "ok", f"machine file {machine.get('name', '')}; a step of gpt-1.3b {times[0]:.2f} ms, simulated {error:+.1f} %", {
        "details": {"error_percent": error}}
