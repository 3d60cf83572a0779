#!/usr/bin/env python3
"""The training step that mbench measures, in PyTorch: what scripts/gpu-check holds mbench's speed against.

    scripts/peer_torch.py --layers 24 --hidden 1024 --heads 16 --vocab 50257 --seq 2048 --micro-batch 8 16

GPT-2 (--family gpt) as mbench builds it: pre-norm, tanh GELU, biases everywhere, learned positions, one table for embedding and logits,
its vocabulary padded to a multiple of 128. scaled_dot_product_attention, torch.compile, fused AdamW with weight decay on
matrices alone, clipping by the global norm, a step of one micro batch on synthetic tokens. Timed by CUDA events after
warm-up, without waiting between steps. Model FLOPs by mbench's formula: 6 per weight of every matrix product and token
(logits in, embedding look-up out) plus 12 * layers * hidden * seq a token.

--family llama: RMS norms, SwiGLU, rotary positions, no biases, logits with a table of their own; --kv-heads for grouped queries.

--accumulate N: a step of N micro batches, whose gradients are summed before the optimizer.

--attention cudnn: scaled_dot_product_attention by cuDNN alone, which PyTorch does not choose by itself on every GPU where it is the
faster one.

With --processes N the model is trained by that many processes under DistributedDataParallel over gloo (CPU): what mbench's dp is
held against; each has the cores' share of threads.

The precision (--recipe); the first two are what bf16 may mean:
  master    weights, activations and their gradients in bf16; f32 main weights, f32 gradients and f32 moments in the
            optimizer. This is mbench's bf16, and Megatron-LM's: 18 bytes a weight. The default.
  autocast  f32 weights under torch.autocast(bfloat16), as nanoGPT: matrix products in bf16, the residual stream in f32.
  f32       no bf16 at all: what mbench's f32 is held against on a CPU.

Compiled are one transformer layer, whose code all layers share, the embedding, and the head with its loss (--scope layers), or
the model as a whole (--scope model), which takes minutes for a deep one.

Prints one JSON object; with --out FILE it is also there after every micro batch. A micro batch that does not fit is an outcome.
"""
import argparse
import gc
import json
import math
import os
import socket
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

MIB = 2**20


def padded(vocab):
    return (vocab + 127) // 128 * 128


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.dropout = o.heads, o.dropout
        self.norm1, self.norm2 = nn.LayerNorm(o.hidden), nn.LayerNorm(o.hidden)
        self.qkv, self.proj = nn.Linear(o.hidden, 3 * o.hidden), nn.Linear(o.hidden, o.hidden)
        self.fc1, self.fc2 = nn.Linear(o.hidden, o.ffn), nn.Linear(o.ffn, o.hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
        p = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch, seq, hidden)
        x = x + F.dropout(self.proj(mixed), p, self.training)
        wide = F.gelu(self.fc1(self.norm2(x)), approximate="tanh")
        return x + F.dropout(self.fc2(wide), p, self.training)


def turned(x, cos, sin):
    """x [batch, heads, seq, columns] turned by its positions: pairs (i, i + columns / 2)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class LlamaLayer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.kv_heads, self.width, self.dropout = o.heads, o.kv_heads, o.hidden // o.heads, o.dropout
        self.norm1, self.norm2 = nn.RMSNorm(o.hidden, eps=1e-5), nn.RMSNorm(o.hidden, eps=1e-5)
        self.qkv = nn.Linear(o.hidden, (o.heads + 2 * o.kv_heads) * self.width, bias=False)
        self.proj = nn.Linear(o.hidden, o.hidden, bias=False)
        self.fc1, self.fc2 = nn.Linear(o.hidden, 2 * o.ffn, bias=False), nn.Linear(o.ffn, o.hidden, bias=False)
        angles = torch.arange(o.seq)[:, None] * 10000.0 ** (-torch.arange(0, self.width, 2) / self.width)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        batch, seq, hidden = x.shape
        mixed = self.qkv(self.norm1(x)).view(batch, seq, -1, self.width).transpose(1, 2)
        q, k, v = mixed.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        cos, sin = self.cos[:seq].to(x.dtype), self.sin[:seq].to(x.dtype)
        q, k = turned(q, cos, sin).to(v.dtype), turned(k, cos, sin).to(v.dtype)
        p = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        mixed = mixed.transpose(1, 2).reshape(batch, seq, hidden)
        x = x + F.dropout(self.proj(mixed), p, self.training)
        gate, wide = self.fc1(self.norm2(x)).chunk(2, dim=-1)
        return x + F.dropout(self.fc2(F.silu(gate) * wide), p, self.training)


class Embedding(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.dropout = o.dropout
        self.word = nn.Parameter(torch.empty(padded(o.vocab), o.hidden))
        self.position = nn.Parameter(torch.empty(o.positions, o.hidden)) if o.family == "gpt" else None

    def forward(self, tokens):
        x = F.embedding(tokens, self.word)
        if self.position is not None:
            x = x + self.position[: tokens.shape[1]]
        return F.dropout(x, self.dropout, self.training)


class Head(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.norm = nn.LayerNorm(o.hidden) if o.family == "gpt" else nn.RMSNorm(o.hidden, eps=1e-5)
        self.word = nn.Parameter(torch.empty(padded(o.vocab), o.hidden)) if o.family == "llama" else None

    def forward(self, x, word, labels):
        word = word if self.word is None else self.word
        logits = F.linear(self.norm(x), word.to(x.dtype))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.reshape(-1))


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embedding, self.head = Embedding(o), Head(o)
        self.layers = nn.ModuleList((Layer if o.family == "gpt" else LlamaLayer)(o) for _ in range(o.layers))
        for name, p in self.named_parameters():
            if p.dim() > 1:  # what adds to the residual stream starts smaller, as in Megatron-LM
                residual = name.endswith(("proj.weight", "fc2.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * o.layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x, self.embedding.word, labels)


def build(o):
    """The model with its weights in the type that the recipe trains them in."""
    torch.manual_seed(o.seed)
    with torch.device(o.device):
        model = Model(o)
    return model.to(torch.bfloat16) if o.recipe == "master" else model


def compiled(model, o):
    if o.compile == "none":
        return model
    options = {"mode": o.compile, "fullgraph": True, "dynamic": False}
    if o.scope == "model":
        return torch.compile(model, **options)
    for part in (model.embedding, model.head, *model.layers):
        part.compile(**options)
    return model


class Optimizer:
    """AdamW over f32 weights; with bf16 weights over f32 copies of them, each gradient widened as soon as it is there."""

    def __init__(self, model, o):
        self.clip = o.clip_grad
        self.weights = list(model.parameters())
        self.narrow = any(w.dtype != torch.float32 for w in self.weights)
        self.main = [w.detach().float().requires_grad_() for w in self.weights] if self.narrow else self.weights
        if self.narrow:
            for weight, main in zip(self.weights, self.main):
                weight.register_post_accumulate_grad_hook(lambda w, main=main: self.widen(w, main))
        groups = [{"params": [m for m in self.main if m.dim() > 1], "weight_decay": o.weight_decay},
                  {"params": [m for m in self.main if m.dim() <= 1], "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=o.learning_rate, betas=(0.9, 0.999), eps=1e-8, fused=True)

    @staticmethod
    def widen(weight, main):
        main.grad = weight.grad.float() if main.grad is None else main.grad.add_(weight.grad)
        weight.grad = None

    @torch.no_grad()
    def step(self):
        if self.clip > 0:
            torch.nn.utils.clip_grad_norm_(self.main, self.clip, foreach=True)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        if self.narrow:
            torch._foreach_copy_(self.weights, self.main)


class Clock:
    """Marks of time: CUDA events where there is a GPU, else the wall clock."""

    def __init__(self, cuda):
        self.cuda, self.marks, self.cpu = cuda, [], []

    def mark(self):
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())
            self.cpu.append(time.process_time())

    def milliseconds(self):
        pairs = list(zip(self.marks, self.marks[1:]))
        if not self.cuda:
            return [(b - a) * 1e3 for a, b in pairs]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in pairs]


def batches_of(o, micro_batch):
    generator = torch.Generator().manual_seed(o.seed)
    host = [torch.randint(o.vocab, (micro_batch, o.seq + 1), generator=generator) for _ in range(o.batches)]
    return [b.pin_memory() for b in host] if o.device == "cuda" else host


def model_flops(o, micro_batch):
    """Of one step; engine/run/flops.h has the formula."""
    attention = 2 * o.hidden**2 + 2 * o.hidden * o.hidden * o.kv_heads // o.heads
    weights = o.layers * (attention + (2 if o.family == "gpt" else 3) * o.hidden * o.ffn) + o.hidden * o.vocab
    return micro_batch * o.seq * (6 * weights + 12 * o.layers * o.hidden * o.seq)


def train(model, optimizer, o, micro_batch, until):
    """The clock of its steps, losses, and how long it took until the first step was done."""
    cuda, data = o.device == "cuda", batches_of(o, micro_batch)
    clock, losses, begin, first = Clock(cuda), [], time.monotonic(), None
    enough = o.warmup + 1  # steps that are run however late it is
    for i in range(o.warmup + o.iterations):
        if i >= enough and time.monotonic() > until:
            break
        if i >= o.warmup and not clock.marks:
            clock.mark()
        sum_of_losses = 0.0
        for part in range(o.accumulate):
            tokens = data[(i * o.accumulate + part) % len(data)].to(o.device, non_blocking=True)
            with torch.autocast(o.device, torch.bfloat16, enabled=o.recipe == "autocast"):
                loss = model(tokens[:, :-1], tokens[:, 1:]) / o.accumulate
            loss.backward()
            sum_of_losses = sum_of_losses + loss.detach()
        optimizer.step()
        losses.append(sum_of_losses)
        if i >= o.warmup:
            clock.mark()
        if first is None:
            if cuda:
                torch.cuda.synchronize()
            first = time.monotonic() - begin
    return clock, [float(x) for x in losses], first


def measure(o, micro_batch, until):
    """One row: its figures, or why there are none."""
    row, cuda = {"micro_batch": micro_batch, "outcome": "ok"}, o.device == "cuda"
    torch._dynamo.reset()
    gc.collect()  # the last row's model
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        model = build(o)
        optimizer = Optimizer(model, o)
        row["parameters"] = sum(p.numel() for p in model.parameters())
        whole = compiled(model, o)
        if o.processes > 1:
            whole = nn.parallel.DistributedDataParallel(whole)
        clock, row["losses"], row["first_step_s"] = train(whole, optimizer, o, micro_batch, until)
        times = clock.milliseconds()
    except RuntimeError as error:  # torch.OutOfMemoryError, bare or as what a compilation failed with
        if "out of memory" not in str(error):
            raise
        return {**row, "outcome": "oom", "reason": str(error).splitlines()[0]}
    if not all(math.isfinite(x) for x in row["losses"]):
        return {**row, "outcome": "wrong", "reason": "a loss is not finite"}
    flops, median = model_flops(o, micro_batch * o.accumulate), statistics.median(times)
    row["iteration_ms"] = {"median": median, "mean": statistics.fmean(times), "min": min(times), "max": max(times),
                           "samples": times}
    if not cuda:  # of all threads: what a busy machine does not change
        row["cpu_ms"] = statistics.median((b - a) * 1e3 for a, b in zip(clock.cpu, clock.cpu[1:]))
    row["model_flops"] = flops
    row["tokens_per_s"] = micro_batch * o.accumulate * o.seq / (median * 1e-3)
    row["tflops_per_device"] = flops / (median * 1e-3) * 1e-12
    row["mfu"] = row["tflops_per_device"] / o.peak_tflops if o.peak_tflops else None
    row["peak_memory_mib"] = torch.cuda.max_memory_allocated() / MIB if cuda else None
    row["reserved_memory_mib"] = torch.cuda.max_memory_reserved() / MIB if cuda else None
    return row


def report(o, rows):
    ran = [r for r in rows if r["outcome"] == "ok"]
    text = json.dumps({
        "schema": "mbench.peer/1", "framework": f"PyTorch {torch.__version__}",
        "device": torch.cuda.get_device_name() if o.device == "cuda" else "cpu",
        "configuration": {k: v for k, v in vars(o).items() if k not in ("out", "seconds")},
        "points": rows, "best_micro_batch": max(ran, key=lambda r: r["tokens_per_s"])["micro_batch"] if ran else None,
    }, indent=1)
    if o.out:
        with open(o.out + ".part", "w") as file:
            file.write(text + "\n")
        os.replace(o.out + ".part", o.out)
    return text


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("layers", "hidden", "heads", "vocab", "seq"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--family", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--kv-heads", type=int, help="of family llama; default heads")
    parser.add_argument("--processes", type=int, default=1, help="data parallelism over so many, on a CPU")
    parser.add_argument("--ffn", type=int, help="default 4 x hidden")
    parser.add_argument("--positions", type=int, help="default seq")
    parser.add_argument("--micro-batch", type=int, nargs="+", default=[1], help="each is measured, in this order")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no further micro batch is begun after so long")
    parser.add_argument("--recipe", choices=["master", "autocast", "f32"], default="master")
    parser.add_argument("--attention", choices=["default", "cudnn"], default="default")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N", help="micro batches of a step")
    parser.add_argument("--compile", default="default", metavar="MODE",
                        help="a mode of torch.compile: default, max-autotune-no-cudagraphs, ...; or none")
    parser.add_argument("--no-compile", dest="compile", action="store_const", const="none")
    parser.add_argument("--scope", choices=["layers", "model"], default="layers")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--learning-rate", type=float, default=1.5e-4)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip-grad", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--batches", type=int, default=8, help="different batches of tokens, taken in turn")
    parser.add_argument("--peak-tflops", type=float, help="what MFU is held against")
    parser.add_argument("--out", metavar="FILE")
    o = parser.parse_args()
    o.ffn, o.positions, o.kv_heads = o.ffn or 4 * o.hidden, o.positions or o.seq, o.kv_heads or o.heads
    if o.family == "gpt" and o.kv_heads != o.heads:
        parser.error("--kv-heads is of --family llama")
    if o.heads % o.kv_heads:
        parser.error(f"--kv-heads {o.kv_heads} does not divide --heads {o.heads}")
    if o.processes > 1 and (o.device != "cpu" or o.recipe == "master"):
        parser.error("--processes is of --device cpu and --recipe f32 or autocast")  # master's gradients are widened by hooks
    if o.attention == "cudnn" and o.device != "cuda":
        parser.error("--attention cudnn is of --device cuda")
    if o.accumulate < 1:
        parser.error(f"--accumulate {o.accumulate}: need at least 1")
    if o.hidden % o.heads:
        parser.error(f"--heads {o.heads} does not divide --hidden {o.hidden}")
    if o.seq > o.positions:
        parser.error(f"--seq {o.seq} is more than --positions {o.positions}")
    if o.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU here for --device cuda")
    return o


def work(rank, o, port, texts):
    """A process of several; the first one's report counts."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // o.processes))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=o.processes)
    o.seed += rank  # other samples
    code, text = run(o)
    torch.distributed.destroy_process_group()
    if rank == 0:
        texts.put((code, text))


def main():
    o = read_options()
    if o.processes == 1:
        code, text = run(o)
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = torch.multiprocessing.get_context("spawn")
        texts = context.SimpleQueue()
        torch.multiprocessing.spawn(work, (o, port, texts), o.processes)
        code, text = texts.get()
    print(text)
    return code


def run(o):
    """The exit code and the report."""
    rows = []
    until = time.monotonic() + o.seconds
    # Of what is left in f32; bf16 products do not change.
    torch.set_float32_matmul_precision("highest" if o.recipe == "f32" else "high")
    if o.attention == "cudnn":  # and no other, which it would fall back to
        torch.backends.cuda.enable_cudnn_sdp(True)
        for other in ("flash", "mem_efficient", "math"):
            getattr(torch.backends.cuda, f"enable_{other}_sdp")(False)
    text = report(o, rows)
    for micro_batch in o.micro_batch:
        if rows and time.monotonic() > until:
            rows.append({"micro_batch": micro_batch, "outcome": "not run", "reason": "no time left"})
        elif any(r["outcome"] == "oom" and r["micro_batch"] <= micro_batch for r in rows):
            rows.append({"micro_batch": micro_batch, "outcome": "not run", "reason": "a smaller one did not fit"})
        else:
            rows.append(measure(o, micro_batch, until))
        text = report(o, rows)
    return (0 if any(r["outcome"] == "ok" for r in rows) else 1), text


if __name__ == "__main__":
    sys.exit(main())
