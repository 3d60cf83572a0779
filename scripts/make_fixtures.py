#!/usr/bin/env python3
"""Writes test/fixtures/*.json: what numpy and PyTorch compute where the engine must compute the same.

The tests read the files and need no Python; this is run by hand when a fixture is added.
    python3 scripts/make_fixtures.py [--only NAME]     needs numpy and torch, some models transformers too
The reference computes in float64 from float32 inputs and initial weights.
"""
import argparse
import importlib.metadata
import importlib.util
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fixtures import draw_cases, model_cases, op_cases, optimizer_cases, text  # noqa: E402

HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
if HAS_TRANSFORMERS:
    from fixtures import config_cases, config_defaults, public_models, transformers_cases

OUT = pathlib.Path(__file__).resolve().parent.parent / "test" / "fixtures"


def main():
    jobs = {"draws": lambda: ("draws.json", "Philox words, normal draws and synthetic samples, by numpy",
                              {"words": draw_cases.words(), "normals": draw_cases.normals(),
                               "samples": draw_cases.samples()})}
    for name, make in op_cases.OPS.items():
        jobs[name] = lambda name=name, make=make: (
            f"ops/{name}.json", f"PyTorch {torch.__version__.split('+')[0]}, float64", {"cases": make()})
    for name, make in optimizer_cases.OPS.items():
        need = optimizer_cases.NEEDS[name]
        if importlib.util.find_spec(need) is None:
            print(f"{name} is left as it is: {sys.executable} has no {need}", file=sys.stderr)
            continue
        jobs[name] = lambda name=name, make=make, need=need: (
            f"ops/{name}.json", f"{need} {importlib.metadata.version(need).split('+')[0]}", {"cases": make()})
    for name in model_cases.MODELS:
        jobs[name] = lambda name=name: (f"models/{name}.json",
                                        f"PyTorch {torch.__version__.split('+')[0]}, float64, Philox weights and data",
                                        model_cases.run(name))
    if HAS_TRANSFORMERS:
        for name in transformers_cases.MODELS:
            jobs[name] = lambda name=name: (f"models/{name}.json", *transformers_cases.run(name))
        jobs["configs"] = lambda: ("configs.json", f"transformers {importlib.metadata.version('transformers')}, parameters on the meta device",
                                   config_cases.run())
        jobs["config_defaults"] = lambda: ("config_defaults.json", f"transformers {importlib.metadata.version('transformers')}, the classes' own defaults",
                                           config_defaults.run())
        jobs["public_models"] = lambda: ("public_models.json", f"transformers {importlib.metadata.version('transformers')}, parameters on the meta device",
                                         public_models.run())
    else:
        print(f"models of transformers are left as they are: {sys.executable} has no transformers", file=sys.stderr)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", choices=sorted(jobs), action="append",
                        help="write this fixture alone (repeatable): " + ", ".join(jobs))
    for name in parser.parse_args().only or jobs:
        path, comment, body = jobs[name]()
        text.write(OUT / path, comment + "; written by scripts/make_fixtures.py", body)


if __name__ == "__main__":
    main()
