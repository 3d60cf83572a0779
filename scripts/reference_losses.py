#!/usr/bin/env python3
"""Losses and gradient norms of a point by Hugging Face transformers on the CPU, to lay beside those of `mbench run`.

    scripts/reference_losses.py POINT.json                          a table of the steps, warm-up included
    scripts/reference_losses.py POINT.json --against RESULT.json    beside those of mbench run POINT.json --result RESULT.json
    scripts/reference_losses.py POINT.json --out FILE               JSON, with the names of mbench's result file
    ... --f64                                                       whose rounding it is, where two f32 runs drift apart
    ... --config config.json                                        by the class of the config.json that POINT was imported from

The model is the class of transformers that is made of its parts (fixtures/transformers_models.py), in f32, with the initial
values and the data that mbench draws; what transformers has no class for is refused. Neither dropout (transformers draws other
masks) nor other precisions can be compared. Fields of the layout move mbench's numbers by rounding alone and are not read.

Adapters are peft's. Needs torch, transformers (5 or newer), numpy, and peft for adapters; mbench needs none of them.
Exit codes: 0 done, and within the tolerance; 1 --against differs by more; 2 bad usage, or what cannot be compared.
"""
import argparse
import importlib.util
import json
import math
import os
import sys

from fixtures import spec
from fixtures.spec import Refused


def read_json(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError) as e:
        raise Refused(f"{path}: cannot be read, got {e}, need a JSON file") from e


def check_comparable(point):
    for key, need in [("dropout", 0), ("precision", "f32")]:
        if point[key] != need:
            raise Refused(f"$.{key}: cannot be compared, got {json.dumps(point[key])}, need {json.dumps(need)}")
    if point["optimizer"] not in ("adamw", "muon"):
        raise Refused(f"$.optimizer: cannot be compared, got {json.dumps(point['optimizer'])}, need adamw or muon")
    data = point["data"]
    if data == "synthetic":
        return
    path = data.removeprefix("text:")
    if path == data:
        raise Refused(f"$.data: not drawn here, got {data}, need synthetic or text:FILE")
    if not os.path.isfile(path) or os.path.getsize(path) <= point["seq"]:
        raise Refused(f"$.data: no sample in it, got {path}, need a file of more than {point['seq']} bytes")


def of_same_point(result, point, path):
    """mbench's losses and norms, of that point and no other."""
    if result.get("outcome") != "ok":
        raise Refused(f"{path}: nothing to compare, got outcome {json.dumps(result.get('outcome'))}, need \"ok\"")
    own = spec.read_point({key: result[key] for key in ["model", *spec.POINT] if key in result})
    for key, need in point.items():
        if own[key] != need:
            raise Refused(f"{path}: another point, got {key} {json.dumps(own[key])}, need {json.dumps(need)}")
    return result["losses"], result["gradient_norms"]


def relative(a, b):
    return abs(a - b) / max(abs(a), abs(b), 1e-30)


def compared(losses, norms, own, tolerance):
    """Prints the table of both; the exit code."""
    if [len(x) for x in own] != [len(losses), len(norms)]:
        raise Refused(f"result: another number of steps, got {len(own[0])}, need {len(losses)}")
    print("| step | reference loss | mbench loss | difference | reference norm | mbench norm | difference |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    worst = 0.0
    for i, (loss, norm, own_loss, own_norm) in enumerate(zip(losses, norms, *own)):
        by = relative(loss, own_loss), relative(norm, own_norm)
        worst = max(worst, *(math.inf if math.isnan(x) else x for x in by))
        print(f"| {i + 1} | {loss:.7f} | {own_loss:.7f} | {by[0]:.1e} | {norm:.7f} | {own_norm:.7f} | {by[1]:.1e} |")
    print(f"\nlargest relative difference {worst:.1e}, {'within' if worst <= tolerance else 'MORE THAN'} {tolerance:g}")
    return 0 if worst <= tolerance else 1


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("point", metavar="POINT.json")
    parser.add_argument("--against", metavar="RESULT.json", help="the result file of mbench run with this point")
    parser.add_argument("--tolerance", type=float, default=1e-5, metavar="X",
                        help="relative, of losses and norms of every step (default %(default)g)")
    parser.add_argument("--f64", action="store_true",
                        help="compute in float64; RMSNorm and rotary angles stay in f32, as transformers computes them")
    parser.add_argument("--config", metavar="config.json", help="the class is the one that this file names, not one made of the model's parts")
    parser.add_argument("--out", metavar="FILE", help="write the losses and norms there as JSON")
    return parser.parse_args(argv)


def train_and_show(args):
    """The exit code."""
    point = spec.read_point(read_json(args.point))
    check_comparable(point)
    own = of_same_point(read_json(args.against), point, args.against) if args.against else None
    for package in ("torch", "transformers"):
        if not importlib.util.find_spec(package):
            raise Refused(f"{sys.executable}: no {package}, need it: pip install torch transformers numpy")
    import torch
    from fixtures import training, transformers_configs, transformers_models
    made_of = transformers_configs.FromConfig(read_json(args.config)) if args.config else None
    reference = transformers_models.Reference(point["model"], point["seed"], torch.float64 if args.f64 else torch.float32,
                                              point["router"], made_of)
    reference.check_documents(point["document_lengths"])
    if point["adapter"] != "none":
        if not importlib.util.find_spec("peft"):
            raise Refused(f"{sys.executable}: no peft, need it for adapters: pip install peft")
        from fixtures import adapters
        reference = adapters.Adapted(reference, point["model"], point["seed"], point["adapter"])
    elif point["optimizer"] == "muon" and reference.parted():
        raise Refused(f"$.optimizer: Muon takes {reference.parted()} as one matrix, which transformers has in parts, got muon, need adamw")
    count = sum(x.numel() for x in reference.parameters())
    print(f"{reference.source()}, {count:,} parameters\n")

    def show(step, loss, norm):
        if not own:
            print(f"| {step + 1} | {loss:.7f} | {norm:.7f} |", flush=True)

    if not own:
        print("| step | loss | gradient norm |\n|---:|---:|---:|")
    losses, norms = training.train(point, reference.parameters(), reference.loss_of, show,
                                   after_step=reference.after_step)
    if args.out:
        with open(args.out, "w") as file:
            json.dump({"source": reference.source(), **point, "losses": losses, "gradient_norms": norms}, file, indent=2)
            file.write("\n")
    return compared(losses, norms, own, args.tolerance) if own else 0


def main(argv):
    args = parse_arguments(argv)
    try:
        return train_and_show(args)
    except Refused as e:
        print(f"[reference_losses] {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
