#!/usr/bin/env python3
"""What torch.compile leaves of a layer's collectives, copies and GEMMs under tensor and sequence parallelism.

    scripts/count_compiled_collectives.py [--batch 1 2]

Compiles a layer of LLaMA's form, cut over 4 ranks by DTensor's ColwiseParallel and RowwiseParallel, and counts the calls in the forward and the
backward graph that AOTAutograd hands to Inductor: with the input gathered for each GEMM or once for a block, kept or recomputed. Then
it prints which tensors a compiled cross entropy keeps. No process but this one runs (PyTorch's fake process group), and no GPU is used.
Needs PyTorch 2.6 or later. What was counted so is in engine/framework/torchtitan.json.
"""
import argparse
import collections

import torch
import torch._inductor.decomposition
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as functional
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.testing._internal.distributed.fake_pg import FakeStore

HIDDEN, WIDE, SEQ, RANKS = 64, 128, 8, 4
COUNTED = {"all_gather_into_tensor": "gathers", "reduce_scatter_tensor": "scatters", "cat": "copies", "mm": "GEMMs"}


class Mixer(nn.Module):
    """Queries, keys and values; what is made of them is no matter here."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

    def forward(self, x):
        return self.wo(torch.sigmoid(self.wq(x)) * self.wk(x) * self.wv(x))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(HIDDEN, WIDE, bias=False) for _ in range(2))
        self.w2 = nn.Linear(WIDE, HIDDEN, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.mixer, self.mlp = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN), Mixer(), Mlp()

    def forward(self, x):
        x = x + self.mixer(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def cut(layer, mesh, each_gathers):
    column = ColwiseParallel(input_layouts=Shard(1)) if each_gathers else ColwiseParallel()
    plan = {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
    for name in ("mixer.wq", "mixer.wk", "mixer.wv", "mlp.w1", "mlp.w3"):
        plan[name] = column
    for name in ("mixer.wo", "mlp.w2"):
        plan[name] = RowwiseParallel(output_layouts=Shard(1))
    if not each_gathers:
        for name in ("mixer", "mlp"):
            plan[name] = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    return parallelize_module(layer, mesh, plan)


def compiled(function, seen):
    """The function, whose graphs give `seen` what they call, take and return."""

    def note(which):
        def compiler(graph, inputs):
            calls = collections.Counter()
            for node in graph.graph.nodes:
                name = str(node.target).split(".")
                if node.op == "call_function" and len(name) > 1 and name[-2] in COUNTED:
                    calls[COUNTED[name[-2]]] += 1
            returned = next(n for n in graph.graph.nodes if n.op == "output").args[0]
            seen[which] = (calls, [r.meta["val"] for r in returned if hasattr(getattr(r, "meta", {}).get("val"), "dtype")])
            return graph
        return compiler

    backend = aot_autograd(fw_compiler=note("forward"), bw_compiler=note("backward"),
                           decompositions=torch._inductor.decomposition.select_decomp_table(),
                           partition_fn=min_cut_rematerialization_partition)
    torch._dynamo.reset()
    return torch.compile(function, backend=backend)


def count(mesh, batch, each_gathers, recompute):
    layer = cut(Layer(), mesh, each_gathers)
    seen = {}
    x = torch.randn(batch, SEQ // RANKS, HIDDEN, requires_grad=True)
    compiled(checkpoint_wrapper(layer) if recompute else layer, seen)(x).sum().backward()
    return {which: calls for which, (calls, _) in seen.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    mesh = init_device_mesh("cpu", (RANKS,))
    print(f"PyTorch {torch.__version__}. Of a layer: {', '.join(COUNTED.values())} in forward and in backward")
    for each_gathers in (False, True):
        for recompute in (False, True):
            for batch in options.batch:
                calls = count(mesh, batch, each_gathers, recompute)
                print(f"  {'each GEMM' if each_gathers else 'block':9} gathers, {'recomputed' if recompute else 'kept':10}, batch {batch}: " +
                      "; ".join(f"{which} " + ", ".join(f"{c[w]} {w}" for w in COUNTED.values()) for which, c in calls.items()))
    seen = {}
    logits = torch.randn(2, 16, 1000, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, 1000, (2, 16))
    compiled(lambda p, t: functional.cross_entropy(p.flatten(0, 1).float(), t.flatten(0, 1)), seen)(logits, labels).backward()
    for which, (_, returned) in seen.items():
        print(f"  cross entropy, {which} returns and keeps: " + ", ".join(f"{list(t.shape)} {t.dtype}" for t in returned))


if __name__ == "__main__":
    main()
