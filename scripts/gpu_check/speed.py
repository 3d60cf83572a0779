"""The steps that measure whole training steps: smoke, pace, launch, mfu, strategies. A goal that is not met fails none of them; a point that
is wrong does."""
import json
import math
import os
import re
import time

from gpu_check import peer, record
from gpu_check.correctness import compare_with_simulator
from gpu_check.room import CutOff

GOAL_MFU = {"gpt2-345m": 0.47, "gpt-1.3b": 0.52, "llama-3-8b-layers": 0.58}  # with 8 micro batches a step, or 1
GOAL_OTHER, GOAL_RATIO, GOAL_LAUNCH_NS = 0.40, 1.0, 3000
# The models, and their weight in sharing out the step's time: a larger one takes longer to start, in PyTorch above all.
HEADLINE = (("gpt2-345m", 26), ("gpt-1.3b", 28), ("llama-3-8b-layers", 26))
LARGER = (("gpt-6.7b", 30), ("gpt-2.7b", 20))  # the first of them that fits, where there is time
FIGURES = ["time (ms)", "tokens/s", "MFU", "peak (MiB)", "with libraries (MiB)", "power (W)", "busy (%)", "clock (MHz)", "held down by"]
HEADER = ["model", "attention", "by", "recompute", "micro batch", *FIGURES]
ACCUMULATED = 8  # micro batches of the steps that published figures are of
SECOND_RECIPE = 50  # seconds for PyTorch's other recipe
OF_MBENCH = 0.45  # of a model's time, the rest is for PyTorch
TINY = {"model": {"family": "gpt", "layers": 2, "hidden": 64, "heads": 4, "ffn": 256, "vocab": 250, "positions": 64},
        "seq": 64, "iterations": 2, "warmup": 1, "sweep": {"micro_batch,global_batch": [[1, 1], [2, 2]]}}


def launch(room):
    program = room.program("launch_bench")
    if not program:
        return "not run", f"no launch_bench in {room.programs}", {}
    on_gpu = room.device == "cuda"
    code, text = room.run([program, "--device", "cuda" if on_gpu else "counting", *(["--batches", "1", "--launches", "2", "--steps", "1"] if room.tiny else [])])
    if code is None:
        return "cut off", "its time was up", {}
    if code != 0:
        where = room.backtrace([program, "--device", "cuda" if on_gpu else "counting", "--batches", "5"]) if code < 0 else None
        return "failed", text.strip()[-300:] or f"exit {code}, in {where}", {}
    told = json.loads(text[text.index("{"):])
    os.makedirs(os.path.join(room.out, "measured"), exist_ok=True)
    with open(os.path.join(room.out, "measured/launch.json"), "w") as out:
        json.dump(told, out, indent=1)
    number = lambda x: "n/a" if x is None else f"{x:.0f}"
    rows = [(k["name"], k["kernels"], number(k["ns"]), k["raw"], number(k["raw_ns"]), number(k["overhead_ns"]))
            for k in told["kinds"]]
    steps = [(s["framework"], s["ops"], number(s["ns_per_op"])) for s in told["steps"]]
    median = told["median_overhead_ns"]
    real = on_gpu and not room.tiny
    goals = [record.goal("median overhead of the engine's host code per kernel launch", f"< {GOAL_LAUNCH_NS} ns",
                         "n/a" if median is None else f"{median:.0f} ns", median < GOAL_LAUNCH_NS if real else None)]
    said = (f"median {median:.0f} ns over a bare launch" if median is not None else
            f"median {told['median_ns']:.0f} ns in the front alone, on a device that only counts")
    return "ok", said, {"goals": goals, "details": told, "tables": [
        record.table("Host time of a launch, ns", ["op", "kernels", "engine", "bare call", "bare", "overhead"], rows),
        record.table("Host time of whole steps of a tiny model, waits included", ["framework", "ops", "ns an op"], steps)]}


ROOM_GIB = 1.5  # of a GPU, for contexts, kernels and what libraries take beside what a simulation counts


def sizes_of(spec):
    """Of a spec that sweeps over micro batches: (position of the micro batch in a row, the key, the rows)."""
    (key, rows), = spec["sweep"].items()
    return key.split(",").index("micro_batch"), key, rows


def need_gib(p):
    """What a simulated point takes of a GPU, what libraries hold with it."""
    return (p.get("device_memory_mib") or p.get("reserved_memory_mib") or p["peak_memory_mib"]) / 1024


def that_fit(room, name, spec):
    """The rows of its sweep that this GPU holds, by the simulator; all of them where there is no GPU to ask."""
    _, _, rows = sizes_of(spec)
    gib = room.gpu_gib()
    if gib is None or room.tiny:
        return rows
    points = room.simulate(name, spec)
    return [row for row, p in zip(rows, points) if p["outcome"] == "ok" and need_gib(p) <= gib - ROOM_GIB]


def fitting(room, name, spec, size):
    """The largest micro batch that this GPU holds, `size` at most; 1 where none is."""
    sizes = [size >> i for i in range(size.bit_length())]
    fit = that_fit(room, name, {**spec, "sweep": {"micro_batch,global_batch": [[s, s] for s in sizes]}})
    return fit[0][0] if fit else 1


def models_for(room):
    """(name, weight): those of which this GPU holds the smallest point, by the simulator."""
    def fits(name):
        spec = room.spec("mfu-" + name)
        (key, rows), = spec["sweep"].items()
        return bool(that_fit(room, f"sizes/{name}", {**spec, "sweep": {key: rows[:1]}}))
    chosen = [m for m in HEADLINE if fits(m[0])]
    if room.part is None:
        chosen += [m for m in LARGER if fits(m[0])][:1]
    return chosen or [HEADLINE[0]]


def smoke(room):
    """Whether a step of a real model runs at all, with flash attention or, where that does not, with core."""
    changes = {**TINY, "sweep": {"micro_batch,global_batch": [[1, 1]]}} if room.tiny else {"iterations": 5, "warmup": 2}
    spec = {k: v for k, v in {**room.spec("mfu-gpt2-345m"), **changes}.items() if k != "tables"}
    if not room.tiny:
        size = fitting(room, "smoke/sizes", spec, 8)
        spec["sweep"] = {"micro_batch,global_batch": [[size, size]]}
    rows, wrong, p = [], [], None
    for attention in ("flash", "core"):
        p, = room.sweep(f"smoke/{attention}", {**spec, "attention": attention})
        rows.append(["gpt2-345m", attention, "mbench", p["recompute"], p["micro_batch"], *figures(p)])
        if p["outcome"] == "ok":
            break
        if p["outcome"] != "unsupported":
            wrong.append(f"{attention}: {p['outcome']} ({p.get('reason') or ''})")
    if p["outcome"] != "ok":
        return "failed", "; ".join(wrong) or p.get("reason") or p["outcome"], {"details": {"wrong": wrong}}
    guess, first = math.log(spec["model"]["vocab"]), p["losses"][0]
    if abs(first - guess) > 0.1 * guess:
        wrong.append(f"the first loss is {first:.2f}, a model that knows nothing has {guess:.2f}")
    parts = {k: v for k, v in (p.get("time_anatomy_ms") or {}).items() if v}
    said = (f"attention {p['attention']}, {p['iteration_ms']['median']:.1f} ms a step, loss {first:.2f} at first and {p['losses'][-1]:.2f} "
            f"at last")
    tables = [record.table("One step: does it run", HEADER, rows)]
    if parts:
        tables.append(record.table("What a step is spent on (ms)", list(parts), [[f"{v:.2f}" for v in parts.values()]]))
    details = {"wrong": wrong, "time_anatomy_ms": parts}
    return ("failed" if wrong else "ok"), "; ".join([said, *wrong]), {"details": details, "tables": tables}


def pace(room):
    """Two models at one micro batch each beside PyTorch: the first ratio that is known."""
    if room.tiny:
        return in_turn(room, [(HEADLINE[0][0], 1, [[16, 16]])], peer.why_none(room), "pace")
    models = []
    for name, weight, size in (("gpt-1.3b", 55, 8), ("gpt2-345m", 45, 16)):
        size = fitting(room, f"pace/{name}-sizes", room.spec("mfu-" + name), size)
        models.append((name, weight, [[size, size]]))
    return in_turn(room, models, peer.why_none(room), "pace")


def best_of(points):
    ran = [p for p in points if p["outcome"] == "ok"]
    return max(ran, key=lambda p: p["tokens_per_s"]) if ran else None


def figures(p):
    if p["outcome"] != "ok":
        return [p["outcome"]] + [""] * 8
    mfu = "n/a" if p["mfu"] is None else f"{p['mfu'] * 100:.1f} %"
    whole = lambda key, times=1: "n/a" if p.get(key) is None else f"{p[key] * times:.0f}"
    # What PyTorch's allocator handed out has its libraries' workspaces in it.
    parts = [p.get("peak_memory_mib"), p.get("library_memory_mib")]
    both = "n/a" if None in parts else f"{sum(parts):.0f}"
    return [f"{p['iteration_ms']['median']:.2f}", f"{p['tokens_per_s']:.0f}", mfu, whole("peak_memory_mib"), both, whole("power_w"),
            whole("utilization", 100), whole("clock_mhz"), p.get("throttle_reasons") or "n/a"]


class Model:
    """One model: mbench's points, their memory against the simulator, and PyTorch's."""

    def __init__(self, room, name, until, why_no_peer, sizes=None, step="mfu"):
        """`sizes`: micro and global batches instead of the spec's."""
        self.room, self.name, self.until, self.why_no_peer = room, name, until, why_no_peer
        self.sizes, self.step = sizes, step
        self.rows, self.wrong, self.goals, self.cut = [], [], [], False
        self.best = self.best_peer = self.accumulated = None
        self.attention, self.where, self.why_no_flash = "flash", "", None

    def left(self):
        return self.until - time.monotonic()

    def sweep(self, spec, attention, kind=""):
        """Points of mbench in the first part of the model's time."""
        whole, begin = self.room.step_deadline, time.monotonic()
        self.room.step_deadline = min(whole, begin + max(30, self.left() * OF_MBENCH))
        try:
            points = self.room.sweep(f"{self.step}/{self.name}-{attention}{kind}", {**spec, "attention": attention})
            self.cut = self.cut or self.room.cut
        except CutOff:
            points, self.cut = [], True
        finally:
            self.room.step_deadline = whole
        for p in points:
            size = f"{ACCUMULATED} x {p['micro_batch']}" if kind else p["micro_batch"]
            self.rows.append([self.name, attention, "mbench", p["recompute"], size, *figures(p)])
            if p["outcome"] not in ("ok", "oom", "unsupported"):
                self.wrong.append(f"{self.name} {attention} micro batch {p['micro_batch']}: {p['outcome']} "
                                  f"({p.get('reason') or ''})")
        return points

    def check_memory(self, spec, attention, points):
        if not any(p["outcome"] == "ok" for p in points):
            return
        _, different = compare_with_simulator(self.room, f"{self.step}/{self.name}-{attention}-simulated",
                                              {**spec, "attention": attention}, points)
        self.wrong += different

    def run(self):
        spec = self.room.spec("mfu-" + self.name)
        if self.room.tiny:
            spec = {**spec, **TINY}
            spec.pop("tables")
        elif self.sizes:
            spec["sweep"] = {"micro_batch,global_batch": self.sizes}
        else:
            spec["sweep"] = self.largest(spec)
        points = self.sweep(spec, "flash")
        if points and all(p["outcome"] == "unsupported" for p in points):
            self.attention, self.why_no_flash = "core", points[0]["reason"]
            points = self.sweep(spec, "core")
        self.check_memory(spec, self.attention, points)
        self.best = best_of(points)
        if self.best:
            fitted = [p["micro_batch"] for p in points if p["outcome"] == "ok"]
            rising = self.best is points[-1] and self.best["micro_batch"] == max(fitted)
            self.where = f" at micro batch {self.best['micro_batch']}" + (", the largest tried" if rising else "")
        if self.best:
            self.run_peer(spec)
        if self.best and self.step == "mfu" and self.left() > 20:
            self.accumulate(spec)
        if (self.best and self.step == "mfu" and self.attention == "flash" and self.name == HEADLINE[0][0] and self.left() > 30
                and not self.room.part):
            b = self.best["micro_batch"]  # once, for comparison; it keeps more, and so a smaller one may be all that fits
            core = {**spec, "sweep": {"micro_batch,global_batch": [[m, m] for m in sorted({max(1, b // 4), max(1, b // 2)})]}}
            self.check_memory(core, "core", self.sweep(core, "core"))

    def largest(self, spec):
        """Its sweep without what this GPU does not hold; in a part the two largest of the rest, where speed still rises or no more."""
        _, key, rows = sizes_of(spec)
        rows = that_fit(self.room, f"{self.step}/{self.name}-sizes", spec) or rows[:1]
        return {key: rows[-2:] if self.room.part else rows}

    def accumulate(self, spec):
        """The best point with 8 micro batches a step, which the optimizer is shared by, and the faster PyTorch likewise."""
        b = self.best["micro_batch"]
        (key, swept), = spec["sweep"].items()
        fields = key.split(",")
        row = next(r for r in swept if r[fields.index("micro_batch")] == b and
                   ("recompute" not in fields or r[fields.index("recompute")] == self.best["recompute"]))
        row = [ACCUMULATED * b if f == "global_batch" else v for f, v in zip(fields, row)]
        points = self.sweep({**spec, "iterations": 3, "warmup": 1, "sweep": {key: [row]}}, self.attention, f"-x{ACCUMULATED}")
        self.accumulated = best_of(points)
        if self.best_peer and self.left() > SECOND_RECIPE * 0.8:
            point = {**self.best, "model": spec["model"], "iterations": 3, "warmup": 1}
            self.take_peer(point, self.best_peer["recipe"], [self.best_peer["micro_batch"]], self.left(), self.best_peer["attention"],
                           ACCUMULATED)

    def run_peer(self, spec):
        if self.why_no_peer:
            return
        (key, swept), = spec["sweep"].items()
        sizes = {r[key.split(",").index("micro_batch")] for r in swept}
        point = {**self.best, "model": spec["model"]}  # sizes, where a result may have a name alone
        order = peer.order_of(self.best["micro_batch"], sizes)
        # The recipe nearest to mbench's first; then the other usual one, where there is time for it, at what was best for
        # that: mbench is held against the faster.
        self.take_peer(point, "master", order, self.left() - (SECOND_RECIPE if self.left() > 3 * SECOND_RECIPE else 0))
        if self.best_peer and self.room.device == "cuda" and self.left() > SECOND_RECIPE * 0.6:
            self.take_peer(point, "master", [self.best_peer["micro_batch"]], self.left() / (2 if self.step == "mfu" else 1), "cudnn")
        if self.best_peer and self.step == "mfu" and self.left() > SECOND_RECIPE * 0.8:
            self.take_peer(point, "autocast", [self.best_peer["micro_batch"]], self.left() / 2)

    def take_peer(self, point, recipe, micro_batches, seconds, attention="default", accumulate=1):
        report = peer.measure(self.room, self.name, point, micro_batches, seconds, recipe, attention, accumulate)
        if report is None:
            self.cut = self.cut or (recipe, attention, accumulate) == ("master", "default", 1)
            return
        for r in report["points"]:
            row = {**r, "mfu": r.get("mfu"), "peak_memory_mib": r.get("peak_memory_mib")}
            row["library_memory_mib"] = 0 if row["peak_memory_mib"] is not None else None  # they are in its peak
            size = r["micro_batch"] if accumulate == 1 else f"{accumulate} x {r['micro_batch']}"
            self.rows.append([self.name, f"sdpa {attention}", f"{report['framework']} {recipe}", "none", size, *figures(row)])
        best = peer.best_of(report)
        if not best or accumulate > 1:
            return
        if best["parameters"] != self.best["parameters"]:
            self.wrong.append(f"{self.name}: {self.best['parameters']} parameters, PyTorch's has {best['parameters']}")
        if not self.best_peer or best["tokens_per_s"] > self.best_peer["tokens_per_s"]:
            self.best_peer = {**best, "recipe": recipe, "attention": attention}

    def judge(self):
        """Goals; they are of flash attention in bf16 on a GPU."""
        real = self.best and self.attention == "flash" and self.room.device == "cuda" and not self.room.tiny
        ratio = self.best["tokens_per_s"] / self.best_peer["tokens_per_s"] if self.best and self.best_peer else None
        of = "" if self.attention == "flash" else f" (attention core, since flash is unsupported: {self.why_no_flash})"
        shares = [p["mfu"] for p in (self.best, self.accumulated) if p and p["mfu"] is not None]
        got = f"{max(shares) * 100:.1f} %{of}" if shares else "n/a"
        told = f"{ratio:.2f}{of}" if ratio else f"n/a ({self.why_no_peer or 'not measured'})"
        wanted = GOAL_MFU.get(self.name, GOAL_OTHER)
        self.goals = [record.goal(f"{self.name}: MFU", f">= {wanted * 100:.0f} %", got, max(shares) >= wanted if real and shares else None),
                      record.goal(f"{self.name}: speed over PyTorch", f"> {GOAL_RATIO}", told,
                                  ratio > GOAL_RATIO if real and ratio else None)]
        return f"{self.name} {got}{self.where}, {told} x PyTorch"


def mfu(room):
    models = [(name, weight, None) for name, weight in (HEADLINE[:1] if room.tiny else models_for(room))]
    return in_turn(room, models, peer.why_none(room), "mfu")


def in_turn(room, models, why, step):
    """Models, each in its share of the time that is left."""
    rows, wrong, goals, said, cut = [], [], [], [], False
    for i, (name, share, sizes) in enumerate(models):
        rest = sum(s for _, s, _ in models[i:])
        if room.left() < (20 if room.tiny else 45):
            cut = True
            said.append(f"{name} no time left")
            continue
        model = Model(room, name, time.monotonic() + room.left() * share / rest, why, sizes, step)
        model.run()
        said.append(model.judge())
        rows, wrong, goals = rows + model.rows, wrong + model.wrong, goals + model.goals
        cut = cut or model.cut
    result = "failed" if wrong else "cut off" if cut or not rows else "ok"
    return result, "; ".join([*said, *wrong[:5]]), {
        "goals": goals, "details": {"wrong": wrong, "rows": rows},
        "tables": [record.table("Model FLOPs utilisation: bf16, one GPU", HEADER, rows)]}


def strategies(room):
    spec = room.spec("strategies-345m")
    if room.part:
        spec["sweep"] = {**spec["sweep"], "seq": [2048, 512]}  # the ends first, and no more
    if room.tiny:
        spec = {**spec, "model": "gpt-bytes-tiny", "iterations": 2, "warmup": 1, "micro_batch": 1, "global_batch": 1,
                "sweep": {"seq": [64], "strategy": ["baseline", "full"]}}
    points = room.sweep("strategies/345m", spec)
    cut = room.cut
    wrong = [f"seq {p['seq']} {p['strategy']}: {p['outcome']} ({p.get('reason') or ''})" for p in points
             if p["outcome"] not in ("ok", "oom")]
    equal, different = compare_with_simulator(room, "strategies/345m-simulated", spec, points)
    code, text = room.run([room.mbench(), "report", os.path.join(room.out, "strategies/345m/results.json")])
    ran = sum(1 for p in points if p["outcome"] == "ok")
    said = f"{ran} of {len(points)} points ran; the memory of {equal - len(different)} of {equal} is the simulator's to the byte"
    wrong += different + ([] if code == 0 else [f"mbench report ended with code {code}"])
    result = "failed" if wrong else "cut off" if cut or not ran else "ok"
    return result, "; ".join([said, *wrong[:5]]), {"details": {"wrong": wrong}, "tables": [re.sub(r"^#", "###", text, flags=re.M)]}
