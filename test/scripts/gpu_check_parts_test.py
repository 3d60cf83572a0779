"""The three parts of scripts/gpu-check on the fake GPU, from end to end: each goes on from the archive of the one before, on another folder
as on another machine, keeps to its clocks, and leaves an archive that says all of it.

    python3 test/scripts/gpu_check_parts_test.py PROGRAMS      the folder of the fake GPU's programs
"""
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from gpu_check import parts  # noqa: E402

PROGRAMS = None
# What needs a program that a machine without a GPU lacks (Nsight Compute, compute-sanitizer), or a GPU's own times.
LACKING = ("profile", "sanitizer", "calibrate")
SLACK = 5  # seconds that a step may need to end its programs


def environment():
    """mpirun as CTest has it, and no machine's own tools of CUDA, which know no fake GPU."""
    path = ":".join(f for f in os.environ["PATH"].split(":") if "cuda" not in f)
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Parts(unittest.TestCase):
    def check(self, part, out, deliver, *more):
        argv = [sys.executable, os.path.join(ROOT, "scripts/gpu-check"), "--" + part, "--tiny", "--programs", PROGRAMS, "--out", out,
                "--deliver", deliver, *more]
        begin = time.monotonic()
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
        return done.returncode, time.monotonic() - begin, done.stdout

    def read(self, deliver):
        """The steps and the summary of an archive, and the names in it."""
        with tarfile.open(os.path.join(deliver, "gpu-check.tar.gz")) as archive:
            steps = {s["step"]: s for s in json.load(archive.extractfile("gpu-check/results.json"))["steps"]}
            summary = archive.extractfile("gpu-check/summary.md").read().decode()
            return steps, summary, archive.getnames()

    def check_kernel_table(self, step):
        """Every row of the table on paper is an op that was timed, and all ops but these have a row."""
        if step["result"] != "ok":
            return
        with open(os.path.join(ROOT, "bench/kernels.json")) as file:
            on_paper = set(json.load(file)["ops"])
        timed = {op["op"]: op for op in step["details"]["ops"]}
        self.assertLessEqual(on_paper, set(timed))
        self.assertEqual({name for name, op in timed.items() if op["allowed"] is None},
                         {"copy", "bias_dropout_add, p 0.1", "cross_entropy_loss"})

    def test_each_part_goes_on_from_the_archive_of_the_one_before(self):
        resume, expected = [], set()
        with tempfile.TemporaryDirectory() as folder:
            for part, own in parts.PARTS.items():
                out, deliver = os.path.join(folder, part), os.path.join(folder, part + "-delivered")
                code, seconds, text = self.check(part, out, deliver, *resume)
                self.assertIn(code, (0, 3), text)
                self.assertLess(seconds, 60 * parts.MINUTES, text)
                self.assertEqual(sorted(os.listdir(deliver)), ["gpu-check.tar.gz", "summary.md"])
                steps, summary, names = self.read(deliver)
                expected |= set(own)
                self.assertEqual(set(steps), expected, text)
                self.assertEqual(summary, open(os.path.join(deliver, "summary.md")).read())
                self.assertIn("gpu-check/log.txt", names)
                for name, clock in own.items():
                    step = steps[name]
                    allowed = ("not run",) if name in LACKING else ("ok", "cut off")
                    self.assertIn(step["result"], allowed, f"{name}: {step['said']}\n{text}")
                    self.assertLessEqual(step["seconds"], clock + SLACK, name)
                    if step["result"] == "cut off":  # by its clock, on a machine that is busy
                        self.assertGreater(step["seconds"], clock / 3, f"{name}: {step['said']}\n{text}")
                    self.assertEqual((step["part"], step["clock"]), (part, clock))
                    self.assertIn("no measurement", step["program"])
                    print(f"{part} {name}: {step['seconds']} of {clock} s, {step['result']}", file=sys.stderr)
                resume = ["--resume", os.path.join(deliver, "gpu-check.tar.gz")]
            self.assertEqual(expected, set(parts.STEPS))
            self.check_kernel_table(steps["kernels"])
            # The last part again: what ended well is not run again.
            code, seconds, text = self.check(part, out, deliver)
            again, _, _ = self.read(deliver)
            for name in own:
                if name != "devices" and steps[name]["result"] == "ok":
                    self.assertEqual(again[name], steps[name])
                    self.assertIn(f"{name}\n  ok before", text)


if __name__ == "__main__":
    PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main(warnings="ignore")
