"""What a check writes: results.json and summary.md after every step, and what is kept of them. After every step too, all of it as one
file, gpu-check.tar.gz: a machine that gives few files back, in no folders, gives that and summary.md.

A step is {"step", "result", "seconds", "clock", "said", "when", "program", "part", "details", "goals", "tables"}; its result is one of
  ok        it ran to its end and all that it looked at was right
  failed    something was wrong
  cut off   its time was up; nothing was wrong so far, and what it had measured is there
  not run   it could not start; "said" has why (no time left, needs a GPU, not installed)
Steps of earlier calls with the same --out stay, until they run again.
"""
import glob
import json
import os
import shutil
import tarfile
import time

from gpu_check.room import ROOT

SCHEMA = "mbench.gpu-check/1"
ARCHIVE = "gpu-check.tar.gz"
NO_MEASUREMENT = "no measurement"  # in a step's "program", where small models ran or no GPU did
RESULTS = ("ok", "failed", "cut off", "not run")


def goal(name, wanted, got, met):
    """`met` is true, false, or null where it was not measured."""
    return {"goal": name, "wanted": wanted, "got": got, "met": met}


def table(title, header, rows):
    """Markdown."""
    lines = [f"### {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def unpack(archive, out):
    """Puts the files of an earlier call where it had them: only such as lie in its folder."""
    root = os.path.abspath(out)
    with tarfile.open(archive) as file:
        for member in file.getmembers():
            first, _, rest = member.name.partition("/")
            path = os.path.abspath(os.path.join(root, rest))
            if first != "gpu-check" or not rest or not member.isfile() or not path.startswith(root + os.sep):
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with file.extractfile(member) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)


def copy_without(out, source, target):
    """Copies a text file; paths in the checkout and in `out` become relative."""
    with open(source) as file:
        text = file.read()
    for root in (os.path.dirname(out), ROOT):
        text = text.replace(root + os.sep, "")
    with open(target, "w") as file:
        file.write(text)


class Record:
    def __init__(self, out, order, keep_earlier, deliver=None):
        self.out, self.order, self.deliver = out, order, os.path.abspath(deliver or out)
        os.makedirs(self.deliver, exist_ok=True)
        self.steps, self.earlier = {}, set()
        path = os.path.join(out, "results.json")
        if keep_earlier and os.path.exists(path):
            with open(path) as file:
                data = json.load(file)
            if data.get("schema") == SCHEMA:
                self.steps = {s["step"]: s for s in data["steps"]}
                self.earlier = set(self.steps)

    def put(self, step):
        assert step["result"] in RESULTS, step
        self.steps[step["step"]] = {**step, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self.earlier.discard(step["step"])
        self.write()

    def in_order(self):
        return [self.steps[name] for name in self.order if name in self.steps]

    def write(self):
        self.replace("results.json", json.dumps({"schema": SCHEMA, "steps": self.in_order()}, indent=1) + "\n")
        self.replace("summary.md", self.summary())
        self.pack()

    def pack(self):
        """The archive, and the summary beside it."""
        path = os.path.join(self.deliver, ARCHIVE)
        ours = {os.path.abspath(p) for p in (path, path + ".part")}
        with tarfile.open(path + ".part", "w:gz", compresslevel=6) as archive:
            for name in sorted(os.listdir(self.out)):
                if os.path.abspath(os.path.join(self.out, name)) not in ours:
                    archive.add(os.path.join(self.out, name), arcname=os.path.join("gpu-check", name))
        os.replace(path + ".part", path)
        if self.deliver != os.path.abspath(self.out):
            shutil.copy(os.path.join(self.out, "summary.md"), os.path.join(self.deliver, "summary.md"))

    def replace(self, name, text):
        path = os.path.join(self.out, name)
        with open(path + ".part", "w") as file:
            file.write(text)
        os.replace(path + ".part", path)

    def device(self):
        """What it was measured on, by the step devices; nothing if that has not run."""
        return self.steps.get("devices", {}).get("details", {})

    def summary(self):
        steps = self.in_order()
        lines = ["# gpu-check", ""]
        if text := self.device().get("text"):
            lines += ["Measured on:", "", "```", text.strip(), "```", ""]
        lines += ["| step | result | seconds | what it said | when | program |", "|---|---|---:|---|---|---|"]
        for s in steps:
            said = s["said"].replace("|", "/").replace("\n", " ")
            lines.append(f"| {s['step']} | {s['result']} | {s['seconds']} | {said} | {s['when']} | {s['program']} |")
        if goals := [g for s in steps for g in s["goals"]]:
            words = {True: "met", False: "not met", None: "not measured"}
            lines += ["", "## Goals", "", "| goal | wanted | got | |", "|---|---|---|---|"]
            lines += [f"| {g['goal']} | {g['wanted']} | {g['got']} | {words[g['met']]} |" for g in goals]
        for s in steps:
            lines += ["", f"## {s['step']}", "", *s["tables"]] if s["tables"] else []
        return "\n".join(lines) + "\n"

    def exit_code(self, chosen):
        """Of the chosen steps: 1 one failed; 3 none failed, but some did not run to their end; 0 all are ok."""
        results = [self.steps[name]["result"] for name in chosen]
        return 1 if "failed" in results else 0 if all(r == "ok" for r in results) else 3

    def is_measurement(self):
        emulated = any("emulated" in gpu for gpu in self.device().get("gpus", []))
        return not emulated and not any(NO_MEASUREMENT in s["program"] for s in self.steps.values())

    def keep(self, folder):
        """Copies what is worth committing: the summary, this record, the result file of each sweep, and what PyTorch and
        the launches gave, without this machine's folders. What fits by simulation, and the step features, whose verdict the record has, are
        left out. Result files lie one folder down, where `mbench baseline` does not take them for its own."""
        files = os.path.join(folder, "files")
        shutil.rmtree(files, ignore_errors=True)
        os.makedirs(files)
        copy_without(self.out, os.path.join(self.out, "summary.md"), os.path.join(folder, "summary.md"))
        copy_without(self.out, os.path.join(self.out, "results.json"), os.path.join(files, "gpu-check.json"))
        for path in sorted(glob.glob(os.path.join(self.out, "*/**/results.json"), recursive=True)):
            name = os.path.relpath(os.path.dirname(path), self.out).replace(os.sep, "-")
            if not name.startswith("features-") and not name.endswith("sizes"):
                copy_without(self.out, path, os.path.join(files, name + ".json"))
        for path in sorted(glob.glob(os.path.join(self.out, "measured", "*.json"))):
            copy_without(self.out, path, os.path.join(files, os.path.basename(path)))
        return sorted(os.listdir(files))
