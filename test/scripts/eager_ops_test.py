"""Framework torch-eager against scripts/count_eager_ops.py: what small ops move and call is what PyTorch's dispatcher counts. Needs a Python with
torch; ends with 77 where there is none.

    python3 test/scripts/eager_ops_test.py
"""
import json
import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


class EagerOps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        counted = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/count_eager_ops.py"), "--json"], stdout=subprocess.PIPE, check=True)
        cls.counted = {row["op"]: row for row in json.loads(counted.stdout)}
        with open(os.path.join(ROOT, "engine/framework/torch-eager.json")) as text:
            cls.framework = json.load(text)

    def check(self, entry, forms, own, own_f32, copies=(0, 0), copied=0):
        """An entry of the file: the mean of these forms in bytes, less the bytes of `copied` copies that the engine makes."""
        rows = [self.counted[form] for form in forms]
        self.assertEqual(entry["calls"], sum(row["calls"] for row in rows) - copied)
        mean = lambda key: sum(row[key] for row in rows) / len(rows)
        self.assertAlmostEqual(entry["traffic"], (mean("bytes") - copies[0]) / own, delta=0.02 * entry["traffic"])
        traffic_f32 = entry.get("traffic_f32", entry["traffic"])
        self.assertAlmostEqual(traffic_f32, (mean("bytes_f32") - copies[1]) / own_f32, delta=0.02 * traffic_f32)

    def test_small_ops_are_as_counted(self):
        ops = self.framework["unfused"]
        self.check(ops["rms_norm"], ["rms_norm"], 4, 8, (10, 8), 2)
        self.check(ops["rms_norm_grad"], ["rms_norm gradient"], 6, 12, (6, 0), 1)
        self.check(ops["swiglu"], ["swiglu"], 6, 12, (4, 8), 1)
        self.check(ops["swiglu_grad"], ["swiglu gradient"], 10, 20)
        rotary = self.framework["options"]["rotary"]["choices"]
        self.check(ops["rotary"], ["rotary halves", "rotary halves gradient"], 4, 8)
        for kind in ("complex", "matrix"):
            self.check(rotary[kind]["changes"]["unfused"]["rotary"], [f"rotary {kind}", f"rotary {kind} gradient"], 4, 8)
        for how in ("foreach", "for each tensor"):
            step = self.counted[f"adamw {how}"]
            self.assertEqual(ops["adam"]["traffic_f32"], step["traffic_f32"])
            self.assertAlmostEqual(ops["adam"]["calls"], step["calls_f32"], delta=1)

    def test_what_is_one_kernel_has_no_entry(self):
        for op in ("layer_norm", "gelu", "gelu_erf"):
            self.assertEqual(self.counted[op]["calls"], 1)
            self.assertNotIn({"gelu": "bias_gelu"}.get(op, op), self.framework["unfused"])


if __name__ == "__main__":
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit(77)
    unittest.main()
