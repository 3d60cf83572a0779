"""scripts/peer_torch.py against mbench: the same number of parameters, the same FLOPs, and a model that learns. Needs a Python with
torch; ends with 77 where there is none.

    python3 test/scripts/peer_torch_test.py PROGRAMS      the folder of mbench
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/peer_torch.py")
SIZES = {"layers": 3, "hidden": 48, "heads": 4, "ffn": 128, "vocab": 300, "positions": 40}
MBENCH = None


def run_peer(*more, **changes):
    sizes = {**SIZES, **changes}
    argv = [sys.executable, PEER, "--device", "cpu", "--no-compile", "--seq", "32", "--iterations", "6", "--warmup", "2"]
    for name, value in sizes.items():
        argv += ["--" + name, str(value)]
    done = subprocess.run([*argv, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stderr


class Peer(unittest.TestCase):
    def test_parameters_and_flops_are_those_of_mbench(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = {"model": {"family": "gpt", **SIZES}, "seq": 32, "precision": "bf16", "iterations": 1,
                    "sweep": {"micro_batch,global_batch": [[1, 1], [3, 3]]}}
            with open(os.path.join(folder, "s.json"), "w") as file:
                json.dump(spec, file)
            subprocess.run([MBENCH, "sweep", os.path.join(folder, "s.json"), "--on", "sim:1xH200-SXM5-141GB", "--out",
                            os.path.join(folder, "out"), "--quiet"], check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(folder, "out/results.json")) as file:
                own = json.load(file)["points"]
        code, told = run_peer("--micro-batch", "1", "3", "--peak-tflops", "2.5")
        self.assertEqual(code, 0, told)
        for p, r in zip(own, told["points"], strict=True):
            self.assertEqual((r["outcome"], r["micro_batch"], r["parameters"]), ("ok", p["micro_batch"], p["parameters"]))
            flops = p["tflops_per_device"] * 1e12 * p["iteration_ms"]["mean"] * 1e-3
            self.assertAlmostEqual(r["model_flops"] / flops, 1, places=9)
            self.assertAlmostEqual(r["mfu"], r["model_flops"] / (r["iteration_ms"]["median"] * 1e-3) / 2.5e12, places=12)
            self.assertEqual(len(r["iteration_ms"]["samples"]), 6)
            self.assertEqual(len(r["losses"]), 8)

    def test_a_llama_has_the_parameters_and_flops_of_mbench(self):
        sizes = {**SIZES, "kv_heads": 2}
        with tempfile.TemporaryDirectory() as folder:
            spec = {"model": {"family": "llama", **sizes}, "seq": 32, "precision": "bf16", "dropout": 0, "iterations": 1}
            with open(os.path.join(folder, "s.json"), "w") as file:
                json.dump(spec, file)
            subprocess.run([MBENCH, "sweep", os.path.join(folder, "s.json"), "--on", "sim:1xH200-SXM5-141GB", "--out",
                            os.path.join(folder, "out"), "--quiet"], check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(folder, "out/results.json")) as file:
                own = json.load(file)["points"][0]
        code, told = run_peer("--family", "llama", "--kv-heads", "2", "--recipe", "autocast")
        self.assertEqual(code, 0, told)
        row = told["points"][0]
        self.assertEqual(row["parameters"], own["parameters"])
        flops = own["tflops_per_device"] * 1e12 * own["iteration_ms"]["mean"] * 1e-3
        self.assertAlmostEqual(row["model_flops"] / flops, 1, places=9)

    def test_processes_train_one_model(self):
        code, told = run_peer("--processes", "2", "--recipe", "f32", "--batches", "1", "--learning-rate", "3e-3")
        self.assertEqual(code, 0, told)
        first, *_, last = told["points"][0]["losses"]
        self.assertAlmostEqual(first, math.log(384), delta=0.1)
        self.assertLess(last, first - 0.5)

    def test_it_learns_in_both_recipes_alike(self):
        losses = {}
        for recipe in ("master", "autocast"):
            code, told = run_peer("--recipe", recipe, "--batches", "1", "--learning-rate", "3e-3", "--micro-batch", "2")
            self.assertEqual(code, 0, told)
            losses[recipe] = told["points"][0]["losses"]
        for first, *_, last in losses.values():
            self.assertAlmostEqual(first, math.log(384), delta=0.1)  # the padded vocabulary, before anything is learnt
            self.assertLess(last, first - 0.5)
        for a, b in zip(losses["master"], losses["autocast"]):
            self.assertAlmostEqual(a, b, delta=0.03)

    def test_time_ends_it_after_the_first_row(self):
        code, told = run_peer("--micro-batch", "1", "2", "--seconds", "0")
        self.assertEqual([p["outcome"] for p in told["points"]], ["ok", "not run"])
        self.assertEqual(len(told["points"][0]["iteration_ms"]["samples"]), 1)
        self.assertEqual(told["best_micro_batch"], 1)

    def test_sizes_that_cannot_be_are_refused(self):
        self.assertEqual(run_peer(heads=5)[0], 2)
        self.assertEqual(run_peer(positions=16)[0], 2)


if __name__ == "__main__":
    if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        print("this Python has no torch")
        sys.exit(77)
    MBENCH = os.path.join(os.path.abspath(sys.argv.pop(1)), "mbench")
    unittest.main()
