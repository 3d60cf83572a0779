"""How a step of LLaMA 3 70B scales from 64 to 512 H100, drawn: python examples/python/scaling.py [FILE.svg]

Needs `pip install .` and pandas; matplotlib where a plot is wanted."""

import sys

import mbench

SPEC = {
    "model": "llama-3-70b", "seq": 8192, "micro_batch": 1, "precision": "bf16", "attention": "flash",
    "tp": 8, "pp": 4, "sequence_parallel": True, "zero": 1, "virtual_stages": 5, "schedule": "interleaved",
}


def main() -> None:
    rows = []
    for devices in (64, 128, 256, 512):
        copies = devices // 32
        spec = {**SPEC, "sweep": {"dp,global_batch": [[copies, 64 * copies]]}}  # as many samples on each device
        rows += mbench.simulate(spec, on=f"{devices}xH100-SXM5-80GB", framework="megatron-core")
    table = mbench.frame(rows, ["iteration_ms", "mfu", "tokens_per_s", "communication_fraction"])
    print(table.to_string(index=False))
    if len(sys.argv) > 1:
        import matplotlib

        matplotlib.use("Agg")
        axes = table.plot(x="dp", y="mfu", marker="o", ylim=(0, 1), legend=False, xlabel="data-parallel copies of 32 H100", ylabel="MFU")
        axes.figure.savefig(sys.argv[1])


if __name__ == "__main__":
    main()
