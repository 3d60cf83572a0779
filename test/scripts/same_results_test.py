"""scripts/same-results: that it finds what differs, and says same of one binary and itself.

    python3 test/scripts/same_results_test.py PROGRAMS      the folder of mbench
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import unittest
import unittest.mock

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("same_results", os.path.join(SCRIPTS, "same-results"))
same_results = importlib.util.module_from_spec(importlib.util.spec_from_loader("same_results", loader))
loader.exec_module(same_results)

PROGRAMS = None

# Stands in for an mbench that computes something else: it runs the real one, then edits what that wrote.
EDITING = """#!/usr/bin/env python3
import json, math, os, subprocess, sys
done = subprocess.run([{binary!r}] + sys.argv[1:], capture_output=True, text=True)
first = os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0"
simulated = "OMPI_COMM_WORLD_RANK" not in os.environ
printed = done.stdout
if "--result" in sys.argv and first:
    path = sys.argv[sys.argv.index("--result") + 1]
    row = json.load(open(path))
    {edit_row}
    json.dump(row, open(path, "w"))
if sys.argv[1] == "plan":
    {edit_plan}
sys.stdout.write(printed)
sys.exit({code})
"""


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


# Stands in for test_mpi: it says that it has the case, and writes rows of two layouts.
RECORDING = """#!/usr/bin/env python3
import json, os, sys
if "--list-tests" in sys.argv:
    print("  the rows of all layouts")
elif os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
    with open(sys.argv[sys.argv.index("--record") + 1], "w") as file:
        for name, loss in {rows!r}.items():
            row = {{"outcome": "ok", "losses": [loss], "peak_memory_by_rank_mib": [1.0]}}
            file.write(json.dumps({{"name": name, "row": row}}) + "\\n")
"""


class SameResults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.binary = os.path.join(PROGRAMS, "mbench")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def compare(self, old, new, *more, only="^tp2$"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = same_results.main([old, new, "--keep", os.path.join(self.folder, "kept"), "--only", only, *more])
        return code, out.getvalue()

    def editing(self, name, edit_row="pass", edit_plan="pass", code="done.returncode"):
        return script(self.folder, name, EDITING.format(binary=self.binary, edit_row=edit_row, edit_plan=edit_plan, code=code))

    def test_every_point_is_in_it(self):
        points = dict(same_results.all_points())
        self.assertEqual(len([name for name in points if name.startswith("quickstart")]), 20)
        self.assertGreaterEqual(len(points), 70)
        self.assertEqual(points["bert tp2"]["model"]["family"], "bert")
        self.assertEqual(points["bert tp2"]["model"]["layers"], 8)
        data = points["quickstart-pipeline tp=2 pp=2 seq=256 strategy=full"]["data"]
        self.assertTrue(os.path.exists(data.split(":")[1]), data)

    def build_that_records(self, name, rows):
        folder = os.path.join(self.folder, name)
        os.makedirs(os.path.join(folder, "test"))
        os.symlink(self.binary, os.path.join(folder, "mbench"))
        script(os.path.join(folder, "test"), "test_mpi", RECORDING.format(rows=rows))
        return folder

    def test_rows_that_a_test_program_recorded_are_compared_in_one_job(self):
        points = {name: point for name, point in same_results.all_points() if name in ("tp2", "tp4")}
        old = self.build_that_records("recorded-old", {"tp2": 1.5, "tp4": 2.5})
        new = self.build_that_records("recorded-new", {"tp2": 1.5, "tp4": 2.25})
        with unittest.mock.patch.object(same_results, "all_points", lambda: points.items()):
            code, said = self.compare(old, new, only="")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"tp2 +same")
        self.assertRegex(said, r"tp4 +differs +trained.losses\[0\] OLD 2.5 NEW 2.25")

    def test_a_binary_and_itself_are_the_same(self):
        code, said = self.compare(PROGRAMS, self.binary, only="^tp2$|tp=2 pp=1 seq=128 strategy=selective")
        self.assertEqual(code, 0, said)
        self.assertIn("2 points: 2 same, 0 differ", said)

    def test_another_seed_is_found(self):
        code, said = self.compare(self.binary, self.binary, "--new-set", "seed=2")
        self.assertEqual(code, 1, said)
        self.assertIn("trained.losses[0]", said)
        self.assertIn("trained.gradient_norms[0]", said)
        self.assertNotIn("mib", said)  # memory is the same

    def test_one_bit_and_one_byte_are_found(self):
        edits = {"losses": 'row["losses"] and row["losses"].__setitem__(2, math.nextafter(row["losses"][2], 9))',
                 "gradient_norms": 'row["gradient_norms"] and row["gradient_norms"].__setitem__(0, '
                                   'math.nextafter(row["gradient_norms"][0], 9))',
                 "peak_memory_by_rank_mib": 'simulated or row["peak_memory_by_rank_mib"].__setitem__(1, 0.1)',
                 "memory_anatomy_mib.weights": 'simulated or row["memory_anatomy_mib"].update(weights=0.1)',
                 "reserved_memory_mib": 'simulated or row.update(reserved_memory_mib=4.1)'}
        for i, (measure, edit) in enumerate(edits.items()):
            code, said = self.compare(self.binary, self.editing(f"row{i}", edit_row=edit))
            self.assertEqual(code, 1, measure)
            line = said.splitlines()[0]
            self.assertIn("trained." + measure, line)
            self.assertEqual(line.count(" OLD "), 1, line)  # and nothing else

    def test_a_simulation_and_a_plan_that_differ_are_found(self):
        edit = 'simulated and row["iteration_ms"].update(mean=math.nextafter(row["iteration_ms"]["mean"], 9e9))'
        code, said = self.compare(self.binary, self.editing("time", edit_row=edit))
        self.assertEqual(code, 1)
        self.assertIn("simulated.iteration_ms.mean OLD", said)
        new = self.editing("plan", edit_plan='printed = printed.rstrip()[:-1] + "9\\n"')
        code, said = self.compare(self.binary, new)
        self.assertEqual(code, 1)
        self.assertIn('plan[0].reserved OLD', said)

    def test_what_does_not_run_is_no_agreement(self):
        failing = self.editing("failing", code="3")
        code, said = self.compare(self.binary, failing)
        self.assertEqual(code, 1)
        self.assertIn("OLD ran; NEW failed: exit code 3", said)
        code, said = self.compare(failing, failing)
        self.assertEqual(code, 1)
        # A point that neither knows: nothing was compared.
        code, said = self.compare(self.binary, self.binary, "--new-set", "tp=3")
        self.assertEqual(code, 1)
        # One that OLD alone refuses counts apart; where there is no other, nothing was compared either.
        code, said = self.compare(self.editing("refusing", code="2"), self.binary)
        self.assertEqual(code, 1)
        self.assertIn("0 same, 0 differ, 1 that OLD does not know", said)

    def test_bad_usage(self):
        for arguments in (["/nowhere", self.binary], [self.binary, self.binary, "--only", "no such layout"]):
            with self.assertRaises(SystemExit) as raised, contextlib.redirect_stderr(io.StringIO()):
                same_results.main(arguments)
            self.assertEqual(raised.exception.code, 2)


if __name__ == "__main__":
    PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
