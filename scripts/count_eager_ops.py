#!/usr/bin/env python3
"""How many kernels PyTorch runs without torch.compile for what mbench's engine has one op for, and how many bytes they move.

    scripts/count_eager_ops.py [--json]

Needs torch, and a processor is enough. Each form is written as public models have it and run forward and backward. Every op of PyTorch's
dispatcher that is no view is one kernel, and each tensor that it reads or writes counts once. A tensor that is broadcast counts with the bytes that lie
in memory. `traffic` is these bytes over those of the engine's op (cost() in engine/ops), in 16 bits and in f32. It stands in `unfused` of a framework's
file (engine/framework/README.md).
"""
import argparse
import json
import sys

try:
    import torch
    import torch.nn.functional as F
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    sys.exit("count_eager_ops.py needs torch: pip install torch")

ROWS, WIDTH, HEADS, HEAD = 2048, 1024, 8, 128


def bytes_in_memory(t):
    count = 1
    for size, stride in zip(t.shape, t.stride()):
        count *= size if stride != 0 else 1
    return count * t.element_size()


def tensors_of(tree):
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


class Counter(TorchDispatchMode):
    """Kernels and bytes of what runs within it."""

    FREE = {"detach", "empty", "empty_like", "new_empty", "empty_strided", "alias", "lift_fresh", "_reshape_alias", "_unsafe_view",
            "_local_scalar_dense", "_record_function_enter_new", "_record_function_exit"}
    FILLS = {"zeros", "zeros_like", "fill_", "zero_", "new_zeros", "ones_like", "scalar_tensor", "full_like"}

    def __init__(self):
        super().__init__()
        self.calls, self.bytes, self.ops = 0, 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if func.is_view or name in self.FREE:
            return out
        read, written = tensors_of((args, kwargs)), tensors_of(out)
        if name in self.FILLS:
            read = []
        if name.startswith("_foreach") and name.endswith("_"):  # lists, the first of which is written in place
            written = tensors_of(args[0])
        self.calls += 1
        self.bytes += sum(map(bytes_in_memory, read)) + sum(map(bytes_in_memory, written))
        self.ops.append(name)
        return out


def count(make, dtype):
    """(forward, backward) of make(dtype), which gives a function and the tensors that it takes."""
    function, leaves = make(dtype)
    with Counter() as forward:
        y = function(*leaves)
    gradient = torch.ones_like(y)
    with Counter() as backward:
        torch.autograd.grad(y, leaves, gradient)
    return forward, backward


def leaf(*shape, dtype):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def rms_norm(dtype):
    """Hugging Face's LlamaRMSNorm, and foundation-model-stack's LayerNormParameterized with use_high_precision_pow."""
    def function(x, weight):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return weight * wide.to(x.dtype)
    return function, (leaf(ROWS, WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype))


def layer_norm(dtype):
    leaves = leaf(ROWS, WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype)
    return (lambda x, weight, bias: F.layer_norm(x, (WIDTH,), weight, bias)), leaves


def rotary_halves(dtype):
    """Queries or keys, of whose heads the halves are turned (Hugging Face's rotate_half)."""
    table = torch.randn(1, 1, ROWS, HEAD, dtype=dtype)
    def function(x):
        first, second = x[..., : HEAD // 2], x[..., HEAD // 2:]
        return x * table + torch.cat((-second, first), dim=-1) * table
    return function, (leaf(1, HEADS, ROWS, HEAD, dtype=dtype),)


def rotary_complex(dtype):
    """As complex numbers in f32 (Meta's LLaMA, torchtitan)."""
    turn = torch.randn(1, ROWS, 1, HEAD // 2, dtype=torch.complex64)
    def function(x):
        pairs = torch.view_as_complex(x.float().reshape(1, ROWS, HEADS, HEAD // 2, 2))
        return torch.view_as_real(pairs * turn).flatten(3).type_as(x)
    return function, (leaf(1, ROWS, HEADS, HEAD, dtype=dtype),)


def rotary_matrix(dtype):
    """By matrices of 2 x 2 in f32 (foundation-model-stack)."""
    turn = torch.randn(1, ROWS, HEAD // 2, 2, 2)
    def function(x):
        pairs = x.float().view(1, ROWS, HEADS, HEAD // 2, 2)
        return turn[:, :, None].mul(pairs.unsqueeze(-2)).sum(5).flatten(3).type_as(x)
    return function, (leaf(1, ROWS, HEADS, HEAD, dtype=dtype),)


def swiglu(dtype):
    return (lambda gate, up: F.silu(gate) * up), (leaf(ROWS, WIDTH, dtype=dtype), leaf(ROWS, WIDTH, dtype=dtype))


def gelu(dtype):
    return (lambda x: F.gelu(x, approximate="tanh")), (leaf(ROWS, WIDTH, dtype=dtype),)


def gelu_erf(dtype):
    return F.gelu, (leaf(ROWS, WIDTH, dtype=dtype),)


def adamw(foreach):
    weight = torch.nn.Parameter(torch.randn(ROWS, WIDTH))
    optimizer = torch.optim.AdamW([weight], lr=1e-4, foreach=foreach)
    weight.grad = torch.randn_like(weight)
    optimizer.step()
    with Counter() as step:
        optimizer.step()
    return step


# What is counted, and the tensors that the engine's op reads and writes, each as large as the norm's rows: forward, backward.
FORMS = {
    "rms_norm": (rms_norm, 2, 3),
    "layer_norm": (layer_norm, 2, 3),
    "rotary halves": (rotary_halves, 2, 2),
    "rotary complex": (rotary_complex, 2, 2),
    "rotary matrix": (rotary_matrix, 2, 2),
    "swiglu": (swiglu, 3, 5),
    "gelu": (gelu, 2, 3),
    "gelu_erf": (gelu_erf, 2, 3),
}
ADAMW_BYTES = 28  # weight, gradient and two moments read, all but the gradient written


def row_of(name, by_dtype, own):
    row = {"op": name}
    for dtype, counted in by_dtype.items():
        size = torch.empty(0, dtype=dtype).element_size()
        suffix = "" if size == 2 else "_f32"
        of_element = counted.bytes / (ROWS * WIDTH)
        row["calls" + suffix], row["bytes" + suffix] = counted.calls, round(of_element, 2)
        row["traffic" + suffix] = round(of_element / (own * size), 2)
        row["ops" + suffix] = counted.ops
    return row


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="as JSON, with PyTorch's names of the ops")
    as_json = options.parse_args().json
    rows = []
    for name, (make, *own) in FORMS.items():
        by_dtype = {dtype: count(make, dtype) for dtype in (torch.bfloat16, torch.float32)}
        for i, which in enumerate(("", " gradient")):
            rows.append(row_of(name + which, {dtype: counted[i] for dtype, counted in by_dtype.items()}, own[i]))
    for how, foreach in (("foreach", True), ("for each tensor", False)):
        rows.append(row_of(f"adamw {how}", {torch.float32: adamw(foreach)}, ADAMW_BYTES / 4))
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(f"PyTorch {torch.__version__}: kernels, bytes an element and traffic over the engine's op, in 16 bits and in f32")
    for row in rows:
        columns = ("calls", "bytes", "traffic", "calls_f32", "bytes_f32", "traffic_f32")
        print(f"{row['op']:24} " + "  ".join(f"{row.get(key, '-'):>6}" for key in columns))


if __name__ == "__main__":
    main()
