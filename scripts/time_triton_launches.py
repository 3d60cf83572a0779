#!/usr/bin/env python3
"""How long Triton's launches of a Mamba-2 mixer take the host, in small ops of PyTorch's.

    scripts/time_triton_launches.py MAMBA [--json]

MAMBA is a checkout of state-spaces/mamba, whose functions run forward and backward on this processor; no GPU is needed. Triton's own code runs up to the launch: the
autotuner looks its choice up, arguments are bound and the kernel is found. What would compile and launch a kernel does nothing. The least of many
launches counts for each kernel.

Hosts differ, so a kernel of 19 arguments that does nothing is timed too. It takes 9.1 us of Python on a GB200: 12.5 us with its launch,
which alone takes 3.4 (meta-pytorch/tritonbench, pull request 1005). With that ratio and the host's speed of GB200-NVL72.json follow times on the
reference host of engine/framework, and calls of `host_us.call` of megatron-core.
"""
import argparse
import collections
import contextlib
import json
import pathlib
import sys
import time
import types

try:
    import torch
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.runtime import autotuner, driver, jit
except ImportError:
    sys.exit("time_triton_launches.py needs torch, triton, einops and packaging: pip install torch einops packaging")

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROUNDS = 60
PYTHON_ON_GB200_US = 12.5 - 3.4
# Sizes of Megatron-LM's functional test of a hybrid; a launch does not take longer for larger tensors.
BATCH, SEQ, HEADS, HEAD, GROUPS, STATE, CHUNK = 1, 128, 32, 64, 8, 128, 128


class NoGpu:
    """What Triton asks a driver for before it launches."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_benchmarker(self):
        return lambda *args, **kwargs: [1.0, 1.0, 1.0]


class NoKernel:
    function, packed_metadata = 0, ()

    def launch_metadata(self, *args):
        return None

    def run(self, *args):
        return None


class Launches:
    """Times of the outermost run() of each kernel: of an autotuner, of heuristics or of the kernel itself."""

    def __init__(self):
        self.times, self.within = collections.defaultdict(list), False

    def watch(self, kind):
        inner = kind.run

        def run(kernel, *args, **kwargs):
            if self.within:
                return inner(kernel, *args, **kwargs)
            self.within, begin = True, time.perf_counter()
            try:
                return inner(kernel, *args, **kwargs)
            finally:
                self.times[name_of(kernel)].append(time.perf_counter() - begin)
                self.within = False

        kind.run = run

    def least_us(self, rounds):
        """[(kernel, launches of a round, us of each)]"""
        return [(name, len(t) // rounds, min(t) * 1e6) for name, t in self.times.items()]


def name_of(kernel):
    while not isinstance(kernel, jit.JITFunction):
        kernel = kernel.fn
    return kernel.fn.__name__


def no_compile(kernel, key, *args, **kwargs):
    kernel.device_caches[0][0][key] = NoKernel()
    return kernel.device_caches[0][0][key]


def without_gpu():
    driver.set_active(NoGpu())
    jit.JITFunction._do_compile = no_compile
    autotuner.Autotuner._bench = lambda self, *args, config, **kwargs: [1.0, 1.0, 1.0]
    torch.cuda.device = lambda *args, **kwargs: contextlib.nullcontext()
    torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(multi_processor_count=132)


def mixer_of(folder):
    """mamba_split_conv1d_scan_combined; the convolution, which is CUDA's and not Triton's, is left out."""
    package = types.ModuleType("mamba_ssm")
    package.__path__ = [str(folder / "mamba_ssm")]
    conv, functions = types.ModuleType("causal_conv1d"), types.ModuleType("causal_conv1d.cpp_functions")
    conv.causal_conv1d_fn = None
    functions.causal_conv1d_update_function = None
    functions.causal_conv1d_fwd_function = lambda x, *args: x
    functions.causal_conv1d_bwd_function = lambda x, w, bias, dout, *args: (dout, torch.zeros_like(w), torch.zeros_like(bias), None)
    sys.modules.update({"mamba_ssm": package, "causal_conv1d": conv, "causal_conv1d.cpp_functions": functions})
    from mamba_ssm.ops.triton.ssd_combined import mamba_split_conv1d_scan_combined
    return mamba_split_conv1d_scan_combined


def time_mixer(mixer):
    """Launches of forward and of forward and backward."""
    inner = HEADS * HEAD
    channels = inner + 2 * GROUPS * STATE

    def weight(*shape, dtype=torch.bfloat16):
        return torch.ones(shape, dtype=dtype, requires_grad=True)

    made = weight(BATCH, SEQ, inner + channels + HEADS)
    conv, conv_bias = weight(channels, 4), weight(channels)
    bias, decay, skip = (weight(HEADS, dtype=torch.float32) for _ in range(3))
    launches = Launches()
    for kind in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
        launches.watch(kind)
    forward = {}
    for i in range(ROUNDS + 3):
        if i == 3:  # caches are filled
            launches.times.clear()
        y = mixer(made, conv, conv_bias, bias, decay, D=skip, chunk_size=CHUNK, activation="silu", headdim=HEAD, ngroups=GROUPS,
                  norm_before_gate=False)
        if i == 3:
            forward = {name: len(t) for name, t in launches.times.items()}
        y.backward(torch.ones_like(y))
    return forward, launches.least_us(ROUNDS)


@triton.jit
def nothing(t1, t2, t3, t4, t5, i1, i2, i3, i4, i5, i6, i7, i8, i9, c1: tl.constexpr, c2: tl.constexpr, c3: tl.constexpr, c4: tl.constexpr,
            c5: tl.constexpr):
    pass


def time_nothing():
    tensors = [torch.zeros(1) for _ in range(5)]
    times = []
    for _ in range(5000):
        begin = time.perf_counter()
        nothing[1, ](*tensors, *range(1, 10), c1=32, c2=32, c3=32, c4=32, c5=32)
        times.append(time.perf_counter() - begin)
    return min(times) * 1e6


def figure(path, *keys):
    value = json.loads((ROOT / path).read_text())
    for key in keys:
        value = value[key]
    return value["value"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mamba", type=pathlib.Path, help="a checkout of state-spaces/mamba")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if not (args.mamba / "mamba_ssm/ops/triton/ssd_combined.py").exists():
        sys.exit(f"{args.mamba} has no mamba_ssm/ops/triton/ssd_combined.py, need a checkout of state-spaces/mamba")
    torch.set_num_threads(1)
    without_gpu()
    forward, launches = time_mixer(mixer_of(args.mamba))
    call = figure("engine/framework/megatron-core.json", "host_us", "call")
    ratio = PYTHON_ON_GB200_US / time_nothing() * figure("engine/sim/machines/GB200-NVL72.json", "host", "speed")
    rows = [{"kernel": name, "forward": forward.get(name, 0), "backward": count - forward.get(name, 0), "us": round(us * ratio, 1)}
            for name, count, us in sorted(launches)]

    def extra(way):
        return round(sum(r[way] * (r["us"] / call - 1) for r in rows))

    totals = {"state_scan": extra("forward"), "state_scan_grad": extra("backward") - extra("forward")}
    if args.json:
        return print(json.dumps({"kernels": rows, "extra_calls": totals}, indent=1))
    print("us of the reference host for each launch, as often forward and backward")
    for r in rows:
        print(f"{r['kernel']:40} {r['us']:7.1f}  {r['forward']}  {r['backward']}")
    print(f"calls of {call} us on top of one for each: state_scan {totals['state_scan']}, state_scan_grad {totals['state_scan_grad']} "
          "without the scan's forward, which runs again")


if __name__ == "__main__":
    main()
