"""What a training step of a transformer costs on a machine, simulated.

    import mbench
    rows = mbench.simulate({"model": "llama-3-8b", "tp": [1, 2, 4], ...}, on="8xH100-SXM5-80GB", framework="megatron-core")
    mbench.frame(rows)                                  # a pandas.DataFrame
    found = mbench.search("spec.json", on="64xH100-SXM5-80GB")

Units stand in the names: _ms, _mib (2**20 bytes), _s. Fractions are of 1. Unknown is None. What is wrong raises mbench.Error, whose
`kind` is bad_input, infeasible, unsupported or out_of_memory. All of it runs without Python's lock; Ctrl-C ends it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _core
from ._core import (
    Estimate,
    Expected,
    Result,
    SearchProgress,
    SearchResult,
    Simulator,
    Spec,
    StageLayers,
    StageMemory,
    StepPlan,
    WeightPlacement,
    export_point,
    frameworks,
    machines,
    models,
)

if TYPE_CHECKING:
    import pandas

    class Error(RuntimeError):
        """`[where] what, got, need`, as every error of mbench."""

        kind: str  # bad_input, infeasible, unsupported, out_of_memory, ...
else:
    from ._core import Error

__all__ = [
    "Error", "Estimate", "Expected", "Result", "SearchProgress", "SearchResult", "Simulator", "Spec", "SpecLike", "StageLayers",
    "StageMemory", "StepPlan", "WeightPlacement", "as_dict", "export_point", "frame", "frameworks", "import_files", "load_spec",
    "machine", "machines", "models", "plan", "search", "simulate", "tables", "write_results",
]
__version__ = _core.version()

#: A file, the spec itself as a mapping, or one that is loaded already.
SpecLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Spec]


def load_spec(spec: SpecLike, *, set: Sequence[str] = (), filter: Sequence[str] = ()) -> Spec:
    """The points of a spec: a file (a trainer's own too), or a mapping. `set`, `filter`: "field=value"."""
    if isinstance(spec, Spec):
        if set or filter:
            raise TypeError("a Spec that is loaded takes no set or filter: load it with them")
        return spec
    if isinstance(spec, Mapping):
        return _core.parse_spec(json.dumps(dict(spec)), list(set), list(filter))
    return _core.load_spec(os.fspath(spec), list(set), list(filter))


def simulate(spec: SpecLike, *, on: str, framework: str = "", set: Sequence[str] = (), filter: Sequence[str] = (),
             figures: Mapping[str, float] | None = None) -> list[Result]:
    """A row for each point of the spec on a machine, "8xH100-SXM5-80GB". A layout that cannot be, or does not fit, is a row too.

    `framework`: as whose program the step runs, for every point. `figures`: of the machine, other than in its file."""
    loaded = load_spec(spec, set=set, filter=filter)
    return Simulator(on, framework, dict(figures or {})).simulate_all(loaded)


def plan(spec: SpecLike, *, set: Sequence[str] = (), filter: Sequence[str] = ()) -> list[StepPlan]:
    """How each point of the spec is laid out, and what each rank holds at its peak; no machine is needed."""
    loaded = load_spec(spec, set=set, filter=filter)
    return [_core.make_plan(loaded, i) for i in range(len(loaded))]


def search(spec: SpecLike, *, on: str, framework: str = "", objective: str = "time", rate: float = 0, best: int = 10,
           front: bool = True, threads: int | None = None, memory_margin: str = "", set: Sequence[str] = (),
           figures: Mapping[str, float] | None = None,
           progress: Callable[[SearchProgress], None] | None = None) -> SearchResult:
    """The best layouts of a spec in which fields are free: "any", a list of values, or named in "search".

    `objective`: time, memory, tokens_per_device, or devices (the fewest that reach `rate` tokens/s). `memory_margin`: what of a device
    stays free, "5%" or "4GiB". `progress` is called between waves; what it raises ends the search."""
    if isinstance(spec, Spec):
        text = spec.json
    else:
        text = json.dumps(spec) if isinstance(spec, Mapping) else os.fspath(spec)
    return Simulator(on, framework, dict(figures or {})).search(
        text, objective, rate, best, front, threads or os.cpu_count() or 1, memory_margin, list(set), progress)


def import_files(*paths: str | os.PathLike[str], without: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """A spec from trainers' files (a config.json, a script of Megatron-LM, a TOML of torchtitan, ...), and what was left out."""
    text, notes = _core.import_files([os.fspath(p) for p in paths], list(without))
    return json.loads(text), notes


def as_dict(result: Result) -> dict[str, Any]:
    """A row as it stands in results.json: its point, outcome and metrics."""
    return json.loads(result.json)


def frame(results: Iterable[Result], columns: Sequence[str] = ()) -> pandas.DataFrame:
    """A row for each result. `columns`: metrics by their names; without, the usual ones. The label's fields are columns too."""
    import pandas

    metrics = list(columns) or ["iteration_ms", "tokens_per_s", "tflops_per_device", "mfu", "peak_memory_mib",
                                "reserved_memory_mib", "communication_fraction", "bubble_fraction"]
    rows = []
    for result in results:
        fields = dict(part.split("=", 1) for part in result.label.split() if "=" in part)
        rows.append({**{k: _number(v) for k, v in fields.items()}, "outcome": result.outcome,
                     **{m: result.metric(m) for m in metrics}})
    return pandas.DataFrame(rows)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def machine(name: str) -> dict[str, Any]:
    """A machine's file: every figure with its source."""
    return json.loads(_core.machine_json(name))


def tables(spec: SpecLike, rows: Sequence[Result], *, format: str = "md", tables: Sequence[str] = (),
           columns: Sequence[str] = ()) -> str:
    """Tables of rows, as `mbench report` prints them: format md, csv or json."""
    return _core.tables(load_spec(spec), list(rows), format, list(tables), list(columns))


def write_results(path: str | os.PathLike[str], spec: SpecLike, rows: Sequence[Result]) -> None:
    """A results.json that every command of mbench reads."""
    _core.write_results(os.fspath(path), load_spec(spec), list(rows))
