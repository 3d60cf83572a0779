"""The JSON Schemas of specs against the readers of specs: schemas/ has what the program prints, every config names its schema and is
valid by it, and what a library of schemas refuses, the reader refuses too, on mutations of a spec of each kind: schema_test.py
BUILD_DIR. Skipped (77) without the package jsonschema."""
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
MBENCH = pathlib.Path(sys.argv[1]).resolve() / "mbench"
VALUES = [0, 1, 2, -1, 3.5, 1e30, True, None, "", "full", "f32", "a,b", "sim:8xH100", [], [1], ["mlp"], [[1, 2]], {}, {"preset": "gpt2-345m"},
          {"A": "1"}, {"A": 1}, {"A": []}, "capacity:1.5", "text:", "text:x", "oss", 4, "mlp+moe", "mlp+", "2GiB"]


# Of each command that reads specs: the file of its schema, a spec that it takes, how it reads one, and where a mutation may stand.
COMMANDS = {
    "sweep": (ROOT / "schemas" / "spec.json",
              {"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 8, "iterations": 2, "sweep": {"tp": [1, 2]}},
              ["sweep", "--dry-run", "--on", "sim:8xH100-SXM5-80GB"], ["top", "sweep", "unknown", "drop", "$schema"]),
    "search": (ROOT / "schemas" / "search.json",
               {"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 8, "iterations": 2, "search": ["tp"]},
               ["search", "--on", "sim:2xH100-SXM5-80GB", "--quiet"], ["top", "list", "search", "unknown", "drop", "$schema"]),
}


def schema(command):
    said = subprocess.run([MBENCH, "schema", command], capture_output=True, text=True, check=True)
    found = json.loads(said.stdout)
    jsonschema.Draft202012Validator.check_schema(found)
    return said.stdout, jsonschema.Draft202012Validator(found)


def reader_refuses(words, spec, folder):
    """The reader's refusal of the form of a spec; None where it takes it, or minds what a schema cannot know."""
    path = pathlib.Path(folder) / "spec.json"
    path.write_text(json.dumps(spec))
    said = subprocess.run([MBENCH, words[0], path, *words[1:]], capture_output=True, text=True, cwd=folder)
    return said.stderr.strip() if said.returncode == 2 else None


def mutations(spec, fields, places, count, rng):
    for _ in range(count):
        changed = copy.deepcopy(spec)
        place = rng.choice(places)
        field = rng.choice(fields)
        if place in ("top", "list"):
            changed[field] = rng.choice(VALUES) if place == "top" else rng.choice([[rng.choice(VALUES)], [], ["any"]])
            if "search" not in spec:
                changed.get("sweep", {}).pop(field, None)
            elif field == "tp":
                changed["search"] = ["pp"]
        elif place == "sweep":
            changed.pop(field, None)
            changed["sweep"] = {field: rng.choice([VALUES, [rng.choice(VALUES)], [], 3])}
        elif place == "search":
            changed["search"] = rng.choice([[field + "x"], [3], {}, 3, None, "some", "all", [field]])
        elif place == "unknown":
            changed[field + "x"] = 1
        elif place == "$schema":
            changed[place] = rng.choice(VALUES)
        else:
            changed.pop(rng.choice(list(changed)), None)
        yield place, field, changed


def errors_of_configs(validators):
    """Of every file of configs/, which names the schema of its command and is valid by it."""
    named = dict.fromkeys(COMMANDS, 0)
    errors = []
    for path in sorted((ROOT / "configs").rglob("*.json")):
        spec = json.loads(path.read_text())
        command = "search" if "search" in path.relative_to(ROOT).parts else "sweep"
        named[command] += 1
        if (path.parent / spec.get("$schema", "")).resolve() != COMMANDS[command][0]:
            errors.append(f"{path}: $.$schema: need the path to {COMMANDS[command][0].relative_to(ROOT)}")
        errors += [f"{path}: {e.json_path}: {e.message}" for e in validators[command].iter_errors(spec)]
    print(", ".join(f"{n} specs of mbench {command}" for command, n in named.items()), "are valid" if not errors else "have errors:")
    if not all(named.values()):
        errors.append("no configs are there")
    return errors


def errors_of_mutations(command, validator):
    """What the schema refuses the reader must refuse; the reader may refuse more."""
    _, base, words, places = COMMANDS[command]
    rng = random.Random(1)
    fields = [f for f in validator.schema["$defs"] if f != "data"]
    refused, errors = 0, []
    with tempfile.TemporaryDirectory() as folder:
        said = reader_refuses(words, base, folder)
        if said is not None:
            return [f"mbench {command} refuses what is changed here: {said}"]
        for place, field, spec in mutations(base, fields, places, 150, rng):
            if validator.is_valid(spec):
                continue
            refused += 1
            if reader_refuses(words, spec, folder) is None:
                errors.append(f"the schema refuses and mbench {command} takes ({place} {field}): {json.dumps(spec)}")
    print(f"of 150 mutations the schema of mbench {command} refuses {refused}, the reader {refused - len(errors)} of these")
    if refused < 20:
        errors.append("too few mutations are refused for this to test anything")
    return errors


def main():
    errors, validators = [], {}
    for command, (path, *_) in COMMANDS.items():
        text, validators[command] = schema(command)
        if not path.exists() or path.read_text() != text:
            name = path.relative_to(ROOT)
            errors.append(f"{name} is not what the program prints, need: build/release/mbench schema {command} > {name}")
    errors += errors_of_configs(validators)
    for command, validator in validators.items():
        errors += errors_of_mutations(command, validator)
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
