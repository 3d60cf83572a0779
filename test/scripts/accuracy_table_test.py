"""The tables of errors by GPU and framework: each published run is in one group, and each name of a group is that of a run: accuracy_table_test.py."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import unittest
from fnmatch import fnmatch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def script():
    loader = importlib.machinery.SourceFileLoader("accuracy_table", str(ROOT / "scripts/accuracy-table"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("accuracy_table", loader))
    loader.exec_module(module)
    return module


table = script()
SPECS = [json.loads(path.read_text()) for path in sorted((ROOT / "configs/published/modern").glob("*.json"))]
RUNS = [spec for spec in SPECS if spec["name"].split("-")[0] not in table.published_errors.ORDERED]
SMALL = table.published_errors.small_runs(ROOT / "configs/published/modern")


def row(name, kind="time", published=100, simulated=110, half="fit"):
    return table.Row(f"{kind} {half} {published} {simulated} +0% {name}")


class Groups(unittest.TestCase):
    def test_each_run_is_in_one(self):
        self.assertEqual([s["name"] for s in RUNS if len(table.groups_of(row(s["name"]), SMALL)) != 1], [])

    def test_each_name_is_that_of_a_run_on_its_gpu(self):
        for gpu, _, names in table.GROUPS:
            for pattern in names:
                found = [s for s in RUNS if (s["name"] in SMALL if pattern == table.SMALL else fnmatch(s["name"], pattern))]
                self.assertTrue(found, pattern)
                self.assertEqual([s["name"] for s in found if not any(g in s["published"]["machine"] for g in gpu.split(", "))], [])

    def test_a_run_in_none_is_named(self):
        with self.assertRaises(SystemExit) as said, contextlib.redirect_stdout(io.StringIO()):
            table.table([row("nobody-has-this-1")], SMALL)
        self.assertIn("nobody-has-this-1", str(said.exception))


class Lines(unittest.TestCase):
    def test_means_and_largest(self):
        lines = table.table([row("dgxc-a"), row("dgxc-b", simulated=80, half="held")], SMALL)
        self.assertTrue(lines[2].endswith("| 15.0, 20 (2) | 20.0, 20 (1) |"), lines[2])

    def test_the_summary_is_of_the_half_held_back(self):
        rows = [row("dgxc-a", simulated=150), row("dgxc-b", half="held"), row("dgxc-b", "allocated", simulated=99, half="held")]
        self.assertEqual(table.summary(rows, SMALL)[0],
                         "| of 2 runs of 2023 to 2026, the half that nothing was fitted to | 1.00 %, 1.0 % | 10.0 %, 10 % |")


if __name__ == "__main__":
    unittest.main()
