"""The steps that must pass: devices, ops, attention, layouts, memory, repeat, sanitizer.

Each takes the room and returns (result, a sentence, {"details", "goals", "tables"} as far as it has them).
"""
import re
import shutil

from gpu_check import record
from gpu_check.room import CutOff

# Of a loss, relative; ten times that of a gradient norm. f32 differs by the order of sums alone.
TOLERANCE = {"f32": 1e-4, "bf16": 1e-2, "fp16": 2e-3}
FLASH = {"attention": "flash", "dropout": 0}  # on a GPU it draws no masks
# Of configs/gpu/layouts.json with flash and in the other precisions: one rank, and the ways ranks talk (TP, interleaved PP, all
# with SP and recompute). A rank needs one or two seconds to make its CUDA context, and the arithmetic is the same in every layout.
FEW = (0, 4, 9, 12)


def devices(room):
    (code, text), gpus = room.describe(), room.gpus()
    about = {"text": text.split("\nmachines to simulate")[0], "gpus": gpus}
    if room.missing_libraries:
        return "failed", "no such library here: " + ", ".join(room.missing_libraries), {"details": about}
    if room.device != "cuda":
        return ("ok" if code == 0 else "failed"), f"runs on {room.device}, as asked for: this checks no GPU", {"details": about}
    if code != 0 or not gpus:
        why = [line for line in text.splitlines() if line.startswith("cuda")]
        return "failed", "; ".join(why) or text.strip()[-200:], {"details": about}
    return "ok", "; ".join(gpus), {"details": about}


def failures(text):
    """Of what Catch2 printed until it was interrupted, which it reports as a failure of the case that it was in."""
    reports = re.split(r"^.*FAILED:$", text, flags=re.M)[1:]
    return sum("SIGINT" not in re.split(r"^={20,}$|^-{20,}$", report, maxsplit=1, flags=re.M)[0] for report in reports)


def tests_of(room, chosen):
    """The test cases of test_gpu that are chosen so."""
    if room.device != "cuda":
        return "not run", "needs a GPU", {}
    program = room.program("test_gpu")
    if not program:
        return "not run", f"no test_gpu in {room.programs}", {}
    code, text = room.run([program, chosen])
    if code is None:
        failed = failures(text)
        return ("failed" if failed else "cut off"), f"{failed} failures until its time was up", {}
    return ("ok" if code == 0 else "failed"), " ".join(text.strip("= \n").splitlines()[-1:]), {}


def ops(room):
    """Each op by a process of its own, and what is no op by one more."""
    program = room.program("test_gpu")
    if room.tiny or room.device != "cuda" or not program:
        return tests_of(room, "memory grows*,NCCL*")
    _, text = room.run([program, "[op-names]"], 20)
    names = re.findall(r"^op: (.+)$", text, re.M)
    groups = {"NCCL": [program, "[nccl]"], "the rest": [program, "~[cudnn]~[each-op]~[nccl]"],
              **{name: [program, "[each-op]", "-c", name] for name in names}}
    told = room.run_many(list(groups.values()))
    wrong, cut = [], []
    for (name, argv), (code, text) in zip(groups.items(), told):
        if code is None and not failures(text):
            cut.append(name)
        elif code != 0:
            where = room.backtrace(argv) if code is not None and (code < 0 or "SIGSEGV" in text) else None
            what = f"{failures(text)} failures" if failures(text) else f"exit {code}"
            wrong.append(f"{name}: {what}" + (f", in {where}" if where else ""))
    said = f"{len(told) - len(wrong) - len(cut)} of {len(told)} groups of tests passed"
    said += "".join(f"; {what}: {', '.join(some)}" for what, some in (("failed", wrong), ("cut off", cut)) if some)
    result = "failed" if wrong or not names else "cut off" if cut else "ok"
    return result, said, {"details": {"wrong": wrong, "cut off": cut}}


def attention(room):
    """What needs cuDNN's plans, each of which takes a second to compile."""
    return tests_of(room, "[cudnn]")


def framework_of(p):
    """In one line: megatron-2022, host mbench."""
    framework = p["framework"]
    return framework if isinstance(framework, str) else ", ".join(v if k == "preset" else f"{k} {v}" for k, v in framework.items())


def label(p):
    words = [f"{axis} {p[axis]}" for axis in ("tp", "pp", "dp") if p[axis] > 1] or ["1 rank"]
    words += ["sp"] * p["sequence_parallel"] + [p["recompute"]] * (p["recompute"] != "none")
    words += [p["schedule"]] * (p["pp"] > 1) + ["flash"] * (p["attention"] == "flash")
    return " ".join([*words, framework_of(p), p["precision"]])


def over_precisions(spec, precisions):
    """A spec that sweeps over these alone."""
    return {**{k: v for k, v in spec.items() if k != "precision"}, "sweep": {"precision": precisions}}


def rows_for(room, spec):
    """The rows of its sweep that the launcher can start: without an MPI those of one rank."""
    (key, rows), = spec["sweep"].items()
    if room.launcher == "local":
        rows = [r for r in rows if r[0] * r[1] * r[2] == 1]
    return key, rows


def far_from(p, reference, tolerance):
    """The largest error as a part of what is allowed, and what is wrong, if anything."""
    worst, wrong = 0.0, None
    for field, times in (("losses", 1), ("gradient_norms", 10)):
        for got, expected in zip(p[field], reference[field], strict=True):
            error = abs(got - expected) / (tolerance * times * abs(expected))
            worst = max(worst, error)
            if not error <= 1 and not wrong:  # NaN is wrong too
                wrong = f"{field} {got}, the CPU has {expected}"
    return worst, wrong


def says_sharing(room, p, gpus):
    """Ranks that share a GPU send their messages through the host, and the row must say so."""
    return room.device != "cuda" or p["world"] <= gpus or "shared by" in (p["device_name"] or "")


def layouts_spec(room):
    return room.spec("layouts", **({"seq": 16, "global_batch": 4, "iterations": 2} if room.tiny else {}))


def layouts(room):
    spec = layouts_spec(room)
    key, rows = rows_for(room, spec)
    few = [r for i, r in enumerate(spec["sweep"][key]) if i in FEW and r in rows]
    # (name, precision, what else differs, layouts); flash is held against core, with which it shares nothing but the result.
    plan = [("bf16", "bf16", {}, rows), ("flash", "bf16", FLASH, few), ("f32", "f32", {}, few), ("fp16", "fp16", {}, few)]
    if room.part:  # by what is most worth knowing in less time
        plan = [("bf16", "bf16", {}, few), *plan[1:2], ("bf16-rest", "bf16", {}, [r for r in rows if r not in few]), *plan[2:]]
    if room.tiny:
        plan = [(*plan[0][:3], few[:3]), (*plan[1][:3], few[:1]), (*plan[2][:3], few[:1])]
    precisions = list(dict.fromkeys(precision for name, precision, _, _ in plan if name != "flash"))
    reference = {p["precision"]: p for p in room.sweep("layouts/serial-cpu", over_precisions(spec, precisions), "cpu")}
    without_dropout = {**over_precisions(spec, ["bf16"]), "dropout": FLASH["dropout"]}
    reference["flash"], = room.sweep("layouts/serial-cpu-flash", without_dropout, "cpu")
    gpus = len(room.gpus())
    wrong, worst, ran, cut, no_flash = [], 0.0, 0, False, None
    for name, precision, other, chosen in plan:
        try:
            points = room.sweep(f"layouts/{name}", {**spec, **other, "precision": precision, "sweep": {key: chosen}},
                                launcher=room.launcher)
        except CutOff:
            cut = True
            break
        cut = cut or room.cut
        for p in points:
            if name == "flash" and p["outcome"] == "unsupported":
                no_flash = p["reason"]
                continue
            ran += 1
            if p["outcome"] != "ok":
                wrong.append(f"{label(p)}: {p['outcome']} ({p.get('reason') or ''})")
                continue
            error, why = far_from(p, reference["flash" if name == "flash" else precision], TOLERANCE[precision])
            worst = max(worst, error)
            if why:
                wrong.append(f"{label(p)}: {why}")
            if not says_sharing(room, p, gpus):
                wrong.append(f"{label(p)}: its row does not say that ranks share a GPU")
    said = f"{ran} layouts by {room.launcher}, {len(wrong)} wrong; largest error {worst:.2f} of the tolerance"
    if room.launcher == "local":
        said += f"; {room.why_local}: only layouts of one rank"
    if no_flash:
        said += f"; none with flash: {no_flash}"
    result = "failed" if wrong or not ran else "cut off" if cut else "ok"
    return result, "; ".join([said, *wrong[:5]]), {"details": {"layouts": ran, "wrong": wrong, "worst": worst}}


MEMORY = ("peak_memory_mib", "peak_memory_by_rank_mib", "memory_anatomy_mib", "reserved_memory_mib")


def memory_differences(p, other):
    """The figures of two rows of one point that are not equal to the byte."""
    if other["outcome"] != "ok":
        return [f"the other is {other['outcome']}: {other.get('reason') or ''}"]
    return [f"{field} {p[field]} and {other[field]}" for field in MEMORY if p[field] != other[field]]


def configuration(p):
    """What tells the points of one sweep apart, the same on every device."""
    return framework_of(p), *(p[key] for key in ("seq", "micro_batch", "global_batch", "tp", "pp", "dp", "sequence_parallel",
                                                 "recompute", "strategy", "schedule", "virtual_stages", "precision", "attention"))


def compare_with_simulator(room, name, spec, points):
    """Of points that ran: how many there are, and which of them have another memory than the simulator counts."""
    simulated = {configuration(p): p for p in room.simulate(name, spec)}
    ran = [p for p in points if p["outcome"] == "ok"]
    different = [f"{label(p)} micro batch {p['micro_batch']}: {'; '.join(d)}" for p in ran
                 if (d := memory_differences(p, simulated[configuration(p)]))]
    return len(ran), different


def memory(room):
    spec = room.spec("memory")
    if room.tiny:
        spec = {**spec, "model": "gpt-bytes-tiny", "seq": 64, "iterations": 1, "warmup": 1}
    key, rows = rows_for(room, spec)
    spec["sweep"] = {key: rows[:3] if room.tiny else rows}
    measured = room.sweep("memory/measured", spec, launcher=room.launcher)
    cut = room.cut
    on_cpu = measured if room.device == "cpu" else room.sweep("memory/cpu", spec, "cpu", room.launcher)
    simulated = room.simulate("memory/simulated", spec, 8)
    wrong, table, equal, compared, real = [], [], 0, 0, room.device == "cuda" and not room.tiny
    for p, cpu, sim in zip(measured, on_cpu, simulated):
        name = label(p)
        if p["outcome"] == "unsupported" and p["attention"] == "flash":
            table.append((name, "unsupported", p["reason"], "", ""))
            continue
        if p["outcome"] != "ok":
            wrong.append(f"{name}: {p['outcome']} ({p.get('reason') or ''})")
            continue
        different = [f"{name}: {room.device} and {where}: {d}" for where, other in (("cpu", cpu), ("simulator", sim))
                     for d in memory_differences(p, other)]
        wrong += different
        equal, compared = equal + (not different), compared + 1
        by_category = ", ".join(f"{k} {v:.2f}" for k, v in p["memory_anatomy_mib"].items() if v)
        table.append((name, "equal" if not different else "differs", f"{p['peak_memory_mib']:.3f}",
                      f"{p['reserved_memory_mib']:.0f}", by_category))
    result = "failed" if wrong or not equal else "cut off" if cut or room.cut else "ok"
    said = (f"{equal} points: peak in all, by category and by rank, and reserved memory equal on {room.device}, CPU "
            "and simulator")
    goals = [record.goal(f"peak memory of a point on {room.device} is the CPU's and the simulator's", "equal to the byte",
                         f"{equal} of {compared} points", not wrong and equal > 0 if real else None)]
    return result, "; ".join([said, *wrong[:5]]), {"goals": goals, "details": {"wrong": wrong}, "tables": [
        record.table("Peak memory in MiB", ["point", "", "peak", "reserved", "by category"], table)]}


def repeat(room):
    precisions = ["bf16"] if room.tiny else list(TOLERANCE)
    spec = over_precisions(layouts_spec(room), precisions)
    first, second = (room.sweep(f"repeat/{i}", spec) for i in (1, 2))
    same = [a["outcome"] == b["outcome"] == "ok" and a["losses"] == b["losses"]
            and a["gradient_norms"] == b["gradient_norms"] for a, b in zip(first, second)]
    said = ", ".join(f"{p['precision']} {'the same bits' if s else 'differs or failed'}" for p, s in zip(first, same))
    if len(same) < len(precisions) and all(same):
        return "cut off", said, {}
    return ("ok" if same and all(same) else "failed"), said, {}


# compute-sanitizer's tools, by what is most worth knowing, and the test cases that each is for. memcheck sees every access beyond
# what the device has mapped; tensors lie in one arena, so that it cannot see one tensor run into the next: the comparison with the
# CPU does. racecheck and synccheck are for kernels whose threads share memory. initcheck would report cuBLAS's own workspace.
SHARING = ("reductions", "softmax", "embedding", "cross entropy", "attention with kept")
TOOLS = (("memcheck", lambda name: "says what is missing" not in name),
         ("racecheck", lambda name: any(word in name for word in SHARING)),
         ("synccheck", lambda name: any(word in name for word in SHARING)),
         ("initcheck", lambda name: not any(word in name for word in ("products", "attention", "memory grows"))))
# In a part, which has two minutes for it: races first, then the accesses of the same kernels.
FEW_TOOLS = (TOOLS[1], ("memcheck", TOOLS[1][1]), TOOLS[3])


def test_cases(room, program):
    """Their names. Catch2 ends with the number of test cases or with 0."""
    _, text = room.run([program, "--list-test-names-only"])
    return [line.strip() for line in text.splitlines() if line.strip()]


def one_test(name):
    """A name as Catch2 takes it from a command line: commas and brackets would be more than a part of it."""
    return re.sub(r"([\\,\[\]])", r"\\\1", name)


def sanitizer(room):
    if room.device != "cuda":
        return "not run", "needs a GPU", {}
    program = room.program("test_gpu")
    if not program:
        return "not run", f"no test_gpu in {room.programs}", {}
    if not shutil.which("compute-sanitizer", path=room.environment.get("PATH")):
        return "not run", "compute-sanitizer is not installed", {}
    tools = FEW_TOOLS if room.part else TOOLS
    todo = [(tool, name) for tool, wanted in tools for name in test_cases(room, program) if wanted(name)]
    rows, bad, cut = [], 0, 0
    for tool, name in todo:
        try:
            code, text = room.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", program, one_test(name)])
        except CutOff:
            code, text = None, ""
        told = [line.strip("= ") for line in text.splitlines() if "SUMMARY" in line]
        if code is None:
            cut += 1
            rows.append((tool, name, "cut off" if text else "no time left"))
        else:
            bad += code != 0
            rows.append((tool, name, "ok" if code == 0 else "; ".join(told) or f"exit code {code}"))
    clean = {tool: sum(1 for r in rows if r[0] == tool and r[2] == "ok") for tool, _ in tools}
    total = {tool: sum(1 for r in rows if r[0] == tool) for tool, _ in tools}
    said = ", ".join(f"{tool}: {clean[tool]} of {total[tool]} test cases clean" for tool, _ in tools)
    result = "failed" if bad or not todo else "cut off" if cut else "ok"
    return result, said, {"tables": [record.table("compute-sanitizer", ["tool", "test case", ""], rows)]}
