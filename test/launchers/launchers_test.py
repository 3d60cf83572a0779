"""Real launchers: launchers_test.py BUILD_DIR mpirun|mpiexec|other_mpi|slurm. Starts the quickstart and a layout of 8 ranks with the launcher
as it is installed here, and holds its losses to those of the layouts. Skipped (77) with a message where it is not installed.

mpirun, mpiexec: of the MPI that mbench is built with. other_mpi: the same program linked with a second MPI (mbench_other_mpi), and that
each of the two is refused the other's launcher. slurm: a Slurm of one node, started here as a user would find it, with no PMI by
default; from the login shell, inside an allocation and inside a step."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import slurm

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
MBENCH = BUILD / "mbench"
OTHER = BUILD / "test" / "launchers" / "mbench_other_mpi"
# Two steps tell whether ranks start, talk and agree; what they take is not asked. The other sequence length is the same layouts.
SHORT = ["--set", "iterations=2", "--set", "warmup=0", "--filter", "seq=128"]
EIGHT = {"name": "eight", "model": "gpt-bytes-tiny", "seq": 32, "global_batch": 4, "iterations": 3, "warmup": 0,
         "sweep": {"tp,pp,dp": [[1, 1, 1], [2, 2, 2], [1, 2, 4], [2, 1, 4]]}}


def mbench(*arguments, program=MBENCH, env=None, prefix=(), cwd=None):
    return subprocess.run([*prefix, program, *arguments], capture_output=True, text=True, timeout=400, cwd=cwd,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **(env or {})})


def mpi_of(program):
    """"Open MPI v4.1.4": what the program is linked with."""
    said = mbench("--version", program=program).stdout
    return next(line for line in said.splitlines() if "MPI" in line or "MPICH" in line)


class Launched(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mbench-launchers-")
        self.room = pathlib.Path(self.folder.name)
        (self.room / "eight.json").write_text(json.dumps(EIGHT))

    def tearDown(self):
        self.folder.cleanup()

    def sweep(self, spec, points, *options, **how):
        out = self.room / "out"
        shutil.rmtree(out, ignore_errors=True)
        said = mbench("sweep", spec, "--out", out, "--on", "cpu", "--quiet", *options, **how)
        self.assertEqual(said.returncode, 0, f"{said.stdout[-3000:]}\n{said.stderr[-3000:]}")
        results = json.loads((out / "results.json").read_text())
        self.assertEqual([row["outcome"] for row in results["points"]], ["ok"] * points)
        return results

    def starts(self, launcher, *options, **how):
        """The quickstart, shortened, and a layout of eight ranks; `launcher`: how the results must name what started them."""
        for name in ("quickstart", "quickstart-pipeline"):
            results = self.sweep(ROOT / "configs" / f"{name}.json", 5, *SHORT, *options, **how)
            self.assertIn(launcher, results["environment"]["launcher"])
        results = self.sweep(self.room / "eight.json", 4, *options, **how)
        self.assertEqual([len(row["hosts"][0]["ranks"]) for row in results["points"]], [1, 8, 8, 8])
        return results

    def refused(self, launcher, text, **how):
        said = mbench("sweep", self.room / "eight.json", "--out", self.room / "refused", "--launcher", launcher, **how)
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn("starts programs of another MPI", said.stderr)
        self.assertIn(text, said.stderr)
        self.assertFalse((self.room / "refused").exists())


def launcher_of(program, *names):
    """The first of the names on PATH that this program takes, and the refusal of the last that it does not."""
    refusal = f"none of {', '.join(names)} is installed"
    for name in names:
        if not shutil.which(name):
            continue
        said = mbench("sweep", ROOT / "configs" / "quickstart.json", "--dry-run", "--launcher", name, program=program)
        if said.returncode == 0:
            return name, ""
        refusal = said.stderr.strip()
    return None, refusal


class Mpirun(Launched):
    names = ("mpirun", "mpirun.openmpi", "mpirun.mpich")

    def test_it_starts_the_quickstart_and_eight_ranks(self):
        name, why = launcher_of(MBENCH, *self.names)
        if name is None:
            self.skipTest(why)
        results = self.starts(name, "--launcher", name)
        print(f"{results['environment']['launcher']}; {mpi_of(MBENCH)}")


class Mpiexec(Launched):
    names = ("mpiexec", "mpiexec.openmpi", "mpiexec.hydra", "mpiexec.mpich")

    def test_it_starts_eight_ranks(self):
        name, why = launcher_of(MBENCH, *self.names)
        if name is None:
            self.skipTest(why)
        results = self.sweep(self.room / "eight.json", 4, "--launcher", name)
        print(f"{results['environment']['launcher']}; {mpi_of(MBENCH)}")


class OtherMpi(Launched):
    names = Mpirun.names

    def test_the_same_program_with_another_mpi_starts_by_its_own_launcher_alone(self):
        if not OTHER.exists():
            self.skipTest("no second MPI was found when this was configured (mpicc.mpich or mpicc.openmpi beside mpicc), or CUDA is compiled, with which it is not built")
        mine, other = (launcher_of(program, *self.names) for program in (MBENCH, OTHER))
        if mine[0] is None or other[0] is None:
            self.skipTest(mine[1] or other[1])
        results = self.starts(other[0], "--launcher", other[0], program=OTHER)
        print(f"{results['environment']['launcher']}; {mpi_of(OTHER)}")
        self.refused(mine[0], "need --launcher", program=OTHER)
        self.refused(other[0], "need --launcher", program=MBENCH)


class Slurm(Launched):
    def test_a_stock_slurm_starts(self):
        why = slurm.why_not()
        if why:
            self.skipTest(why)
        with slurm.Slurm(cpus=8) as cluster:
            print(cluster.version())
            env = cluster.env
            allocation = ["salloc", "--quiet", "-N1", "-n8"]
            # A PMI that its library is missing for is seen at the start: then mpirun starts the ranks of an allocation.
            asked = mbench("sweep", self.room / "eight.json", "--dry-run", "--launcher", "srun", env=cluster.env)
            launcher = "srun"
            if asked.returncode != 0:
                print(asked.stderr.strip())
                self.assertIn("need --launcher mpirun", asked.stderr)
                launcher = "mpirun"
            else:  # from a login shell, as a job of its own
                self.sweep(self.room / "eight.json", 4, "--launcher", "srun", env=cluster.env)
            results = self.starts(launcher, env=cluster.env, prefix=allocation)
            print(f"{results['environment']['launcher']}; {mpi_of(MBENCH)}")
            # A shell that is itself a step, as srun --pty bash gives.
            self.sweep(self.room / "eight.json", 4, env=cluster.env, prefix=[*allocation, "srun", "-n1", "--mpi=none"])


if __name__ == "__main__":
    case = {"mpirun": Mpirun, "mpiexec": Mpiexec, "other_mpi": OtherMpi, "slurm": Slurm}[sys.argv[2]]
    outcome = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    if outcome.skipped:
        print(f"skipped: {outcome.skipped[0][1]}")
        sys.exit(77)
    sys.exit(not outcome.wasSuccessful())
