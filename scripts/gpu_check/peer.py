"""The same training step in the machine's PyTorch, by scripts/peer_torch.py."""
import json
import os
import subprocess

from gpu_check.room import GRACE, ROOT, CutOff


def why_none(room):
    """Why there is no PyTorch to measure, or nothing."""
    ask = "import torch; print(torch.cuda.is_available())"
    try:
        told = subprocess.run([room.python, "-c", ask], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                              env=room.own_environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{room.python}: {error}"
    if told.returncode != 0:
        return f"{room.python} has no torch"
    if room.device == "cuda" and told.stdout.strip() != "True":
        return f"the torch of {room.python} sees no GPU"
    return None


def order_of(best, all_sizes):
    """mbench's best micro batch first, then its neighbours: PyTorch may keep less or more, and has a best of its own."""
    sizes = sorted(all_sizes)
    at = sizes.index(best)
    return [best] + [sizes[i] for i in (at + 1, at - 1) if 0 <= i < len(sizes)]


def measure(room, name, point, micro_batches, seconds, recipe="master", attention="default", accumulate=1):
    """Its report for a point of mbench's, at these micro batches; nothing where it had no time for one."""
    kind = "-".join([name, recipe] + [attention] * (attention != "default") + [f"x{accumulate}"] * (accumulate > 1))
    model, out = point["model"], os.path.join(room.out, "measured", f"peer-{kind}.json")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    if os.path.exists(out):
        os.remove(out)
    argv = [room.python, os.path.join(ROOT, "scripts/peer_torch.py"), "--recipe", recipe, "--device", room.device,
            "--attention", attention, "--accumulate", str(accumulate), "--family", model["family"]]
    if "kv_heads" in model:
        argv += ["--kv-heads", str(model["kv_heads"])]
    for key in ("layers", "hidden", "heads", "ffn", "vocab", "positions"):
        argv += ["--" + key, str(model[key])]
    argv += ["--seq", str(point["seq"]), "--dropout", str(point["dropout"]), "--iterations", str(point["iterations"]),
             "--warmup", str(point["warmup"]), "--out", out, "--micro-batch", *map(str, micro_batches)]
    argv += ["--seconds", str(max(1, round(seconds - GRACE)))]
    if point["peak_tflops"]:
        argv += ["--peak-tflops", str(point["peak_tflops"])]
    if room.tiny:
        argv.append("--no-compile")
    try:
        room.run(argv, seconds, own_environment=True)
    except CutOff:
        return None
    if not os.path.exists(out):
        return None
    with open(out) as file:
        return json.load(file)


def best_of(report):
    """The row with the most tokens a second; nothing where none ran."""
    ran = [r for r in (report or {}).get("points", []) if r["outcome"] == "ok"]
    return max(ran, key=lambda r: r["tokens_per_s"]) if ran else None
