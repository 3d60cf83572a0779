"""Where a pack finds its libraries: its own beside it, CUDA's on the machine (a toolkit, or a Python that has PyTorch)."""
import glob
import os
import re
import shutil
import subprocess

TOOLKITS = ("/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/cuda/targets/*/lib", "/usr/local/cuda-*/lib64",
            "/usr/local/cuda-*/targets/*/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")


def python_folders(python):
    """The lib folders of NVIDIA's packages of a Python: nvidia/cu13/lib, nvidia/cudnn/lib, nvidia/nccl/lib, nvidia/cublas/lib ..."""
    ask = "import importlib.util as u; s = u.find_spec('nvidia'); print('\\n'.join(s.submodule_search_locations or ()) if s else '')"
    told = subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [f for root in told.stdout.split("\n") if root for f in sorted(glob.glob(os.path.join(root, "*", "lib")))]


def toolkit_folders():
    return [folder for pattern in TOOLKITS for folder in sorted(glob.glob(pattern))]


def unresolved(program, environment):
    """What a program needs and does not find: names of libraries, and whether one that it finds is too old."""
    told = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    names = {line.split()[0] for line in told.stdout.splitlines() if "=> not found" in line}
    return names, re.search(r"version `[^']*' not found", told.stdout) is not None


def folders_for(names, folders):
    """For each name the first folder that has it, without repeats; and the names that none has."""
    chosen, missing = [], []
    for name in names:
        home = next((f for f in folders if os.path.exists(os.path.join(f, name))), None)
        if home is None:
            missing.append(name)
        elif home not in chosen:
            chosen.append(home)
    return chosen, missing


def environment_of_pack(folder, environment, python):
    """The environment in which a pack's programs run, and the libraries that they miss even so."""
    env, bin_, lib = dict(environment), os.path.join(folder, "bin"), os.path.join(folder, "lib")
    before, compiler = environment.get("LD_LIBRARY_PATH"), os.path.join(lib, "gcc")
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [lib, before]))
    env["PATH"] = bin_ + ":" + environment.get("PATH", "/usr/bin:/bin")
    names, old = set(), False
    for program in glob.glob(os.path.join(bin_, "*")) if shutil.which("ldd") else []:
        lacks, too_old = unresolved(program, env)
        names, old = names | lacks, old or too_old
    # Python's first: then mbench and PyTorch are measured with the same cuBLAS and cuDNN. Its other folders hold what
    # these load while they run (cuDNN's engines, NVRTC).
    of_python = python_folders(python)
    chosen, missing = folders_for(sorted(names), of_python + toolkit_folders() + [compiler])
    if old and compiler not in chosen:
        chosen.append(compiler)
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [lib, *chosen, *(f for f in of_python if f not in chosen), before]))
    if not os.path.exists(os.path.join(bin_, "mpirun")):
        return env, missing
    # Open MPI from where it was unpacked: ranks of this machine alone, without ssh or a batch system.
    env["OPAL_BINDIR"], env["OPAL_LIBDIR"], env["OPAL_PKGLIBDIR"] = bin_, lib, os.path.join(lib, "openmpi")
    env["OPAL_PKGDATADIR"] = os.path.join(folder, "share/openmpi")
    env["PMIX_PKGDATADIR"] = os.path.join(folder, "share/pmix")
    env["OMPI_MCA_plm"] = "isolated"
    env["OMPI_MCA_oob_tcp_if_include"] = "lo"  # a machine without a network may know no other name or interface
    env["OMPI_MCA_btl"] = "self,vader"
    env["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"  # a container may forbid reading another process's memory
    env["PMIX_MCA_pcompress_base_silence_warning"] = "1"
    return env, missing
