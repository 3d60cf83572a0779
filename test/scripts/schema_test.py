"""The JSON Schema of a spec against the reader of specs: every config is valid by both, and what a library of schemas refuses, the
reader refuses too, on mutations of the configs: schema_test.py BUILD_DIR. Skipped (77) without the package jsonschema."""
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: no Python package jsonschema")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MBENCH = pathlib.Path(sys.argv[1]) / "mbench"
VALUES = [0, 1, 2, -1, 3.5, 1e30, True, None, "", "full", "f32", "a,b", "sim:8xH100", [], [1], ["mlp"], [[1, 2]], {}, {"preset": "gpt2-345m"},
          {"A": "1"}, {"A": 1}, {"A": []}, "capacity:1.5", "text:", "text:x", "oss", 4, "mlp+moe", "mlp+", "2GiB"]


def schema():
    said = subprocess.run([MBENCH, "schema"], capture_output=True, text=True, check=True)
    found = json.loads(said.stdout)
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def reader_refuses(spec, folder):
    """The reader's refusal of the form of a spec; None where it takes it, or minds what a schema cannot know."""
    path = pathlib.Path(folder) / "spec.json"
    path.write_text(json.dumps(spec))
    said = subprocess.run([MBENCH, "sweep", path, "--dry-run", "--on", "sim:8xH100-SXM5-80GB"], capture_output=True, text=True)
    return said.stderr.strip() if said.returncode == 2 else None


def mutations(spec, fields, count, rng):
    for _ in range(count):
        changed = copy.deepcopy(spec)
        place = rng.choice(["top", "sweep", "unknown", "drop"])
        field = rng.choice(fields)
        if place == "top":
            changed[field] = rng.choice(VALUES)
            changed.get("sweep", {}).pop(field, None)
        elif place == "sweep":
            changed.pop(field, None)
            changed["sweep"] = {field: rng.choice([VALUES, [rng.choice(VALUES)], [], 3])}
        elif place == "unknown":
            changed[field + "x"] = 1
        else:
            changed.pop(rng.choice(list(changed)), None)
        yield place, field, changed


def main():
    validator = schema()
    configs = sorted((ROOT / "configs").rglob("*.json"))
    wrong = 0
    specs = []
    for path in configs:
        spec = json.loads(path.read_text())
        if "search" in path.parts:
            continue  # their free fields belong to mbench search
        specs.append(spec)
        for error in validator.iter_errors(spec):
            print(f"{path}: {error.json_path}: {error.message}")
            wrong += 1
    print(f"{len(specs)} configs are valid" if not wrong else f"{wrong} errors")
    # What the schema refuses the reader must refuse; the reader may refuse more.
    rng = random.Random(1)
    fields = [f for f in validator.schema["$defs"] if f != "data"]
    refused = both = 0
    with tempfile.TemporaryDirectory() as folder:
        base = {"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 8, "iterations": 2, "sweep": {"tp": [1, 2]}}
        for place, field, spec in mutations(base, fields, 150, rng):
            if validator.is_valid(spec):
                continue
            refused += 1
            if reader_refuses(spec, folder) is None:
                print(f"the schema refuses and the reader takes ({place} {field}): {json.dumps(spec)}")
                wrong += 1
            else:
                both += 1
    print(f"of 150 mutations the schema refuses {refused}, the reader {both} of these")
    if refused < 20:
        print("too few mutations are refused for this to test anything")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
