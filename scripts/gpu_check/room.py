"""What the steps share: the programs, the time that is left, commands with a time limit, and sweeps."""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

from gpu_check import libraries

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIMULATED = "H200-SXM5-141GB"  # whose allocator figure is held against the GPU's; it is the same on every machine
TOOLKITS = ("/usr/local/cuda/bin", "/usr/local/cuda-*/bin")  # where compute-sanitizer and ncu are, if not in PATH
POINT = 100  # seconds after which a point that is still running hangs
PROBE = 10  # seconds within which mpirun must start two ranks
DEBUG = 30  # seconds that a program which crashed gets once more, in a debugger
FRAMES = 24  # of its stack
GRACE = 12  # seconds that a command gets to write down what it has, once its time is up


def toolkit_programs(environment):
    """Folders of CUDA's tools."""
    of_home = [os.path.join(environment[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    return of_home + [folder for pattern in TOOLKITS for folder in sorted(glob.glob(pattern))]


class CutOff(Exception):
    """A command was ended because its time was up."""


class Room:
    def __init__(self, options):
        self.out = os.path.abspath(options.out)
        os.makedirs(self.out, exist_ok=True)
        self.log = open(os.path.join(self.out, "log.txt"), "a" if options.only is not None or getattr(options, "part", None) else "w")
        self.device, self.tiny, self.python = options.device, options.tiny, options.python
        self.part = getattr(options, "part", None)  # first, second or third, of three short calls
        self.programs = options.programs and os.path.abspath(options.programs)
        self.own_environment = dict(os.environ)  # PyTorch runs in it: it brings its libraries along
        self.environment, self.missing_libraries = dict(os.environ), []
        if self.programs and os.path.isdir(os.path.join(self.programs, "lib")):
            self.environment, self.missing_libraries = libraries.environment_of_pack(self.programs, os.environ,
                                                                                       self.python)
        elif self.device == "cuda":  # cuDNN, which is loaded when it is first used, may be with PyTorch alone
            self.environment["LD_LIBRARY_PATH"] = ":".join(
                filter(None, [os.environ.get("LD_LIBRARY_PATH"), *libraries.python_folders(self.python)]))
        self.environment["PATH"] = ":".join([self.environment.get("PATH", "/usr/bin:/bin"), *toolkit_programs(self.environment)])
        self.environment["OMPI_ALLOW_RUN_AS_ROOT"] = self.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        if self.tiny:
            self.environment["OMP_WAIT_POLICY"] = "passive"  # threads of small models would only spin
        self.chosen_launcher, self.why_local = None, "no MPI launcher here"
        self.watcher = None
        self.deadline = self.step_deadline = time.monotonic() + 86400
        self.cut, self.described = False, None  # whether the last sweep was cut off; what `mbench devices` said

    @property
    def launcher(self):
        """mpirun where it starts two ranks, which is tried once; else local, and why_local says why."""
        if self.chosen_launcher is None:
            self.chosen_launcher = "mpirun" if self.can_start_ranks() else "local"
        return self.chosen_launcher

    @launcher.setter
    def launcher(self, name):
        self.chosen_launcher = name

    def can_start_ranks(self):
        mpirun = shutil.which("mpirun", path=self.environment.get("PATH"))
        if not mpirun:
            return False
        environment = {**self.environment, "OMPI_MCA_rmaps_base_oversubscribe": "1",
                       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
        try:
            child = subprocess.Popen([mpirun, "-np", "2", "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     errors="replace", env=environment, start_new_session=True)
        except OSError as error:
            self.why_local = f"{mpirun} does not start: {error}"
            return False
        try:
            text, _ = child.communicate(timeout=PROBE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            self.why_local = f"{mpirun} did not start two ranks in {PROBE} s"
            return False
        if child.returncode != 0:
            self.why_local = f"{mpirun} does not start two ranks: {' '.join(text.split())[-200:]}"
        return child.returncode == 0

    def watch(self):
        """Logs clock, power and temperature once a second until unwatch(). It keeps the driver's state too, which without persistence
        mode is made anew for every process that is the only one on a GPU."""
        smi = shutil.which("nvidia-smi", path=self.environment.get("PATH"))
        if self.device != "cuda" or not smi or self.watcher:
            return
        with open(os.path.join(self.out, "dmon.txt"), "a") as out:
            self.watcher = subprocess.Popen([smi, "dmon", "-s", "pucm", "-d", "1", "-o", "T"], stdout=out, stderr=subprocess.STDOUT)

    def unwatch(self):
        if self.watcher:
            self.watcher.terminate()
            self.watcher.wait()
            self.watcher = None

    def gpu_gib(self):
        """Memory of the first GPU as `mbench devices` has it; nothing without one."""
        found = re.search(r", ([\d.]+) GiB", (self.gpus() or [""])[0])
        return float(found.group(1)) if found else None

    def program(self, name):
        """A program's path, of a pack or of a build folder; nothing where it is not there."""
        base = self.programs or os.path.join(ROOT, "build/gpu")
        for folder in ("bin", "", "test", "bench"):
            path = os.path.join(base, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return None

    def mbench(self):
        path = self.program("mbench")
        if not path:
            raise RuntimeError(f"no mbench in {self.programs or 'build/gpu'}")
        return path

    def describe(self):
        """Exit code and output of `mbench devices`, asked once."""
        if self.described is None:
            self.described = self.run([self.mbench(), "devices"], 60)
        return self.described

    def gpus(self):
        return re.findall(r"^cuda +(\d.*)", self.describe()[1], re.M)

    def left(self):
        return min(self.deadline, self.step_deadline) - time.monotonic()

    def run(self, argv, seconds=None, own_environment=False):
        """Exit code and output; both go to the log. One that is not done in time is interrupted, later killed, and has code
        None."""
        limit = self.left() - GRACE if seconds is None else min(seconds, self.left() - GRACE)
        if limit <= 0:
            raise CutOff("no time left for " + os.path.basename(argv[0]))
        print("  " + " ".join(argv), flush=True)
        self.log.write(f"\n$ {' '.join(argv)}\n")
        self.log.flush()
        begin, cut = time.monotonic(), False
        try:
            child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                     env=self.own_environment if own_environment else self.environment, cwd=ROOT,
                                     start_new_session=True)
        except OSError as error:
            self.log.write(f"{error}\n[exit 127]\n")
            return 127, str(error)
        try:
            text, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            cut, text = True, self.end(child)
        code = None if cut else child.returncode
        said = "cut off" if cut else f"exit {code}"
        self.log.write(f"{text}[{said} after {time.monotonic() - begin:.1f} s]\n")
        self.log.flush()
        return code, text

    def backtrace(self, argv):
        """Runs a program that crashed once more, in a debugger: its stack goes to the log. The innermost functions that have names."""
        debugger = next(filter(None, (shutil.which(name, path=self.environment.get("PATH")) for name in ("cuda-gdb", "gdb"))), None)
        if not debugger or self.left() < DEBUG + GRACE:
            return None
        _, text = self.run([debugger, "-batch", "-ex", "set pagination off", "-ex", "run", "-ex", f"bt {FRAMES}", "-ex",
                            f"thread apply all bt {FRAMES // 2}", "--args", *argv], DEBUG)
        names = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([\w:~]+)", text, re.M)
        return " < ".join(names[:4]) or None

    def run_many(self, jobs, at_once=None):
        """Exit code and output of each command, several of them at a time, in the order of `jobs`; code None for one that was cut off or
        never began. A fault on the GPU ends the one process that made it, and hides nothing of the others."""
        at_once = at_once or max(2, (os.cpu_count() or 2) // 2)
        # Threads that spin while others wait for a core would take most of the time.
        environment = {**self.environment, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 2) // at_once)), "OMP_WAIT_POLICY": "passive"}
        until = time.monotonic() + self.left() - GRACE
        print(f"  {len(jobs)} commands, {at_once} at a time", flush=True)

        def one(argv):
            begin = time.monotonic()
            if begin >= until:
                return None, ""
            try:
                child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
                                         cwd=ROOT, start_new_session=True)
            except OSError as error:
                return 127, str(error)
            try:
                text, _ = child.communicate(timeout=until - begin)
                code = child.returncode
            except subprocess.TimeoutExpired:
                code, text = None, self.end(child)
            said = "cut off" if code is None else f"exit {code}"
            self.log.write(f"\n$ {' '.join(argv)}\n{text}[{said} after {time.monotonic() - begin:.1f} s]\n")
            return code, text

        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            told = list(pool.map(one, jobs))
        self.log.flush()
        return told

    @staticmethod
    def end(child):
        """Ends a command and all of its group; what it said until then."""
        for number, wait in ((signal.SIGINT, GRACE - 4), (signal.SIGKILL, None)):
            try:
                os.killpg(child.pid, number)
            except ProcessLookupError:
                pass
            try:
                return child.communicate(timeout=wait)[0]
            except subprocess.TimeoutExpired:
                continue
        return ""

    def spec(self, name, **changes):
        """A spec of configs/gpu, with other values for some keys."""
        with open(os.path.join(ROOT, "configs/gpu", name + ".json")) as file:
            return {**json.load(file), **changes}

    def sweep(self, name, spec, device=None, launcher="local"):
        """The points of a sweep, as far as it came: self.cut says whether its time was up. One point may not take all of it."""
        folder, path = os.path.join(self.out, name), os.path.join(self.out, name + ".json")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            json.dump(spec, out, indent=1)
        code, text = self.run([self.mbench(), "sweep", path, "--on", device or self.device, "--out", folder, "--launcher",
                               launcher, "--timeout", str(POINT), "--quiet"])
        results = os.path.join(folder, "results.json")
        if not os.path.exists(results):
            if code is None:
                raise CutOff(f"the sweep {name} was cut off before its first point")
            raise RuntimeError(f"the sweep {name} ended with code {code}: {text.strip()[-300:]}")
        with open(results) as file:
            points = json.load(file)["points"]
        self.cut = code is None
        return points

    def simulate(self, name, spec, ranks=1):
        return self.sweep(name, spec, f"sim:{ranks}x{SIMULATED}")
