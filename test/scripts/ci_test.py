"""The templates of scripts/ci: a comment and a JUnit report appear whatever failed, and say what could not be judged.

    python3 test/scripts/ci_test.py
"""
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import unittest
import urllib.parse
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parents[2]
CI = ROOT / "scripts" / "ci"


def comment(folder):
    return subprocess.run([CI / "comment", folder], text=True, stdout=subprocess.PIPE, check=True).stdout


class Comment(unittest.TestCase):
    def test_holds_both_comparisons(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"gate/gate.md": "## mbench: 4,096 bytes larger", "against/compare.md": "## mbench: 7.0 % slower"}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir()
                path.write_text(text + "\n")
            text = comment(folder)
            self.assertLess(text.index("## mbench: 4,096 bytes larger"), text.index("## mbench: 7.0 % slower"))
            self.assertNotIn("Not judged", text)

    def test_says_what_was_not_judged(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "gate").mkdir()
            pathlib.Path(folder, "gate/gate.md").write_text("## mbench: loss changed\n")
            text = comment(folder)
            self.assertIn("## mbench: loss changed", text)
            self.assertIn("Not judged: `against/compare.md` was not written", text)

    def test_is_no_longer_than_a_comment_may_be(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("gate/gate.md", "against/compare.md"):
                pathlib.Path(folder, name).parent.mkdir()
                pathlib.Path(folder, name).write_text("x" * 100000)
            self.assertLess(len(comment(folder)), 65536)


class GitLab(http.server.BaseHTTPRequestHandler):
    """Notes of one merge request, by pages, as GitLab's API has them."""
    notes, calls, refuses = [], [], False

    def answer(self, code, content):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def begin(self):
        url = urllib.parse.urlparse(self.path)
        GitLab.calls.append((self.command, url.path))
        known = self.headers["PRIVATE-TOKEN"] == "secret" and url.path.startswith("/api/v4/projects/5/merge_requests/9/notes")
        if not known or GitLab.refuses:
            self.answer(403, {"message": "403 Forbidden"})
            return None
        return url

    def do_GET(self):
        if url := self.begin():
            query = urllib.parse.parse_qs(url.query)
            page, size = int(query["page"][0]), int(query["per_page"][0])
            self.answer(200, GitLab.notes[(page - 1) * size:page * size])

    def do_POST(self):
        if self.begin():
            GitLab.notes.append({"id": len(GitLab.notes) + 1, "body": self.body(), "system": False})
            self.answer(201, GitLab.notes[-1])

    def do_PUT(self):
        if url := self.begin():
            note = GitLab.notes[int(url.path.rsplit("/", 1)[1]) - 1]
            note["body"] = self.body()
            self.answer(200, note)

    def log_message(self, *_):
        pass


class MergeRequestNote(unittest.TestCase):
    def setUp(self):
        GitLab.notes, GitLab.calls, GitLab.refuses = [], [], False
        self.server = http.server.HTTPServer(("127.0.0.1", 0), GitLab)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def post(self, text, **changed):
        environment = {**os.environ, "MBENCH_GITLAB_TOKEN": "secret", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "9",
                       "CI_API_V4_URL": f"http://127.0.0.1:{self.server.server_port}/api/v4", **changed}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "comment.md")
            path.write_text(text)
            return subprocess.run([CI / "merge-request-note", path], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=environment)

    def test_is_posted_once_and_then_rewritten(self):
        GitLab.notes += [{"id": i + 1, "body": "a reviewer", "system": False} for i in range(150)]
        self.assertEqual(self.post("## mbench: 7.0 % slower").returncode, 0)
        self.assertIn("rewritten", self.post("## mbench: no regression").stdout)
        self.assertEqual(len(GitLab.notes), 151)
        self.assertTrue(GitLab.notes[-1]["body"].endswith("## mbench: no regression"))
        self.assertEqual([method for method, _ in GitLab.calls], ["GET", "GET", "POST", "GET", "GET", "PUT"])

    def test_without_a_token_or_a_merge_request_nothing_is_sent(self):
        for variable in ("MBENCH_GITLAB_TOKEN", "CI_MERGE_REQUEST_IID"):
            done = self.post("text", **{variable: ""})
            self.assertEqual(done.returncode, 0)
            self.assertIn("only an artifact", done.stdout)
        self.assertEqual(GitLab.calls, [])

    def test_what_gitlab_refuses_is_said_and_fails_no_job(self):
        GitLab.refuses = True
        done = self.post("text")
        self.assertEqual(done.returncode, 0)
        self.assertIn("not posted: HTTP Error 403", done.stderr)
        self.assertNotIn("secret", done.stderr + done.stdout)


class Answers(unittest.TestCase):
    """A JUnit report and a Markdown file are there whatever fails."""

    def judged(self, out, markdown):
        cases = list(ET.parse(pathlib.Path(out, "junit.xml")).iter("testcase"))
        self.assertEqual(len(cases), 1)
        self.assertIsNotNone(cases[0].find("failure"))
        self.assertIn("no verdict", pathlib.Path(out, markdown).read_text())

    def test_of_the_gate_without_a_program_or_results(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(CI, pathlib.Path(folder, "scripts/ci"))
            out = pathlib.Path(folder, "out")
            done = subprocess.run([pathlib.Path(folder, "scripts/ci/gate"), f"{folder}/none/results.json", out],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertNotEqual(done.returncode, 0)
            self.assertTrue(ET.parse(out / "junit.xml").getroot().iter("failure"))
            self.assertGreater((out / "gate.md").stat().st_size, 0)

    def slurm(self, folder, program, baselines):
        path = pathlib.Path(folder, "mbench")
        path.write_text("#!/bin/bash\n" + program)
        path.chmod(0o755)
        if baselines:
            pathlib.Path(folder, "baselines").mkdir()
        return subprocess.run([CI / "slurm.sbatch"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "MBENCH": str(path), "BASELINES": f"{folder}/baselines", "SLURM_JOB_ID": "7",
                                   "SLURM_SUBMIT_DIR": folder}).returncode

    def test_of_a_slurm_job_whose_sweep_leaves_nothing(self):
        for baselines in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.slurm(folder, "exit 2\n", baselines), 2)
                self.judged(f"{folder}/out/slurm-7", "compare.md")
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.slurm(folder, "exit 0\n", baselines), 3)

    def test_of_a_slurm_job_that_is_killed_in_its_sweep(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.slurm(folder, "kill -9 $PPID\n", True), -9)
            self.judged(f"{folder}/out/slurm-7", "compare.md")

    def test_of_the_first_slurm_job_of_a_machine(self):
        program = """case "$1" in
sweep) while [ "$1" != --out ]; do shift; done; echo {} >"$2/results.json";;
baseline) while [ "$1" != --dir ]; do shift; done; mkdir "$2";;
esac
"""
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.slurm(folder, program, False), 0)
            out = pathlib.Path(folder, "out/slurm-7")
            self.assertIsNotNone(next(ET.parse(out / "junit.xml").iter("testcase")).find("skipped"))
            self.assertIn("the first baseline of this machine is stored", (out / "compare.md").read_text())

    def test_of_a_gitlab_job_that_is_killed_before_it_judges(self):
        job = (CI / "gitlab.yml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(CI, pathlib.Path(folder, "scripts/ci"))
            begin = re.findall(r"    - (scripts/ci/no-verdict .*)", job[:job.index("    - apt-get")])
            end = re.findall(r"    - (.*)", job[job.index("  after_script:"):job.index("  artifacts:")])
            subprocess.run(["bash", "-ec", "\n".join(begin + end)], cwd=folder, check=True, stdout=subprocess.PIPE,
                           env={"PATH": os.environ["PATH"]})
            self.judged(f"{folder}/out/gate", "gate.md")
            self.judged(f"{folder}/out/against", "compare.md")
            self.assertEqual(pathlib.Path(folder, "out/comment.md").read_text().count("no verdict, see the log"), 2)

    def test_of_a_slurm_job_that_is_judged(self):
        program = """case "$1" in
sweep) while [ "$1" != --out ]; do shift; done; mkdir -p "$2"; echo {} >"$2/results.json"; exit 3;;
compare) for word; do if [ "$word" = junit ]; then echo '<testsuites><testcase name="time"/></testsuites>'; exit 1; fi; done
  echo "## mbench: 7.0 % slower"; exit 1;;
esac
"""
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.slurm(folder, program, True), 1)
            out = pathlib.Path(folder, "out/slurm-7")
            self.assertEqual([c.get("name") for c in ET.parse(out / "junit.xml").iter("testcase")], ["time"])
            self.assertIn("7.0 % slower", (out / "compare.md").read_text())


class FirstLook(unittest.TestCase):
    """scripts/first-look with a program that answers as mbench does."""

    def run_with(self, folder, program, *options):
        path = pathlib.Path(folder, "mbench")
        path.write_text("#!/bin/bash\n" + program)
        path.chmod(0o755)
        return subprocess.run([ROOT / "scripts/first-look", path, *options], text=True, stdout=subprocess.PIPE)

    def test_ends_with_the_page_and_commands_for_this_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/first"
            for options in (("--out", out), (f"--out={out}",)):
                done = self.run_with(folder, f'mkdir -p {out}; echo {{}} >{out}/results.json; echo "$@" >>{folder}/calls\n', "--on", "cpu", *options)
                self.assertEqual(done.returncode, 0)
                self.assertIn(f"{out}/page.html\nNext:\n", done.stdout)
                self.assertEqual(len(re.findall(r"^  mbench ", done.stdout, flags=re.M)), 3)
                self.assertIn(f"  mbench report {out} --table memory\n", done.stdout)
            calls = pathlib.Path(folder, "calls").read_text()
            self.assertIn(f"report {out} --format html --out {out}/page.html\n", calls)

    def test_has_the_exit_code_of_the_sweep(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_with(folder, "exit 3\n", "--out", f"{folder}/none")
            self.assertEqual((done.returncode, done.stdout), (3, ""))


class Templates(unittest.TestCase):
    def test_github_runs_every_step_after_the_build_whatever_failed(self):
        text = (CI / "github.yml").read_text()
        steps = re.split(r"^      - ", text[text.index("    steps:"):], flags=re.M)[1:]
        names = [step.splitlines()[0] for step in steps]
        after = next(i for i, step in enumerate(steps) if "scripts/ci/gate" in step) + 1
        self.assertGreaterEqual(len(steps) - after, 4, names)
        for step in steps[after:]:
            self.assertRegex(step, r"\n        if: \$\{\{ (!cancelled|always)\(\)", step)
        answers = [step for step in steps if re.search(r"scripts/ci/comment|gh pr comment|upload-artifact", step)]
        self.assertEqual(len(answers), 3)
        for step in answers:  # also after a cancel
            self.assertRegex(step, r"\n        if: \$\{\{ always\(\)", step)
        of_job = int(re.search(r"^    timeout-minutes: (\d+)", text, flags=re.M)[1])
        of_steps = [int(n) for n in re.findall(r"^        timeout-minutes: (\d+)", text, flags=re.M)]
        self.assertEqual(len(of_steps), 3)
        self.assertGreater(of_job, sum(of_steps))
        self.assertIn("--body-file out/comment.md", text)

    def test_gitlab_goes_on_after_a_failure_and_keeps_both_reports(self):
        text = (CI / "gitlab.yml").read_text()
        job = text[:text.index("mbench-stored:")]
        for line in job.splitlines():
            if re.match(r"    - scripts/(quickstart|ci/gate|ci/against)", line):
                self.assertTrue(line.endswith("|| code=$?"), line)
        self.assertIn("    - exit $code\n", job)
        self.assertLess(job.index("before_script:"), job.index("scripts/ci/no-verdict out/gate gate gate.md"))
        self.assertLess(job.index("scripts/ci/no-verdict out/against against compare.md"), job.index("apt-get"))
        self.assertLess(job.index("after_script:"), job.index("scripts/ci/comment out"))
        self.assertLess(job.index("scripts/ci/comment out"), job.index("scripts/ci/merge-request-note out/comment.md || true"))
        self.assertIn("junit: [out/gate/junit.xml, out/against/junit.xml]", job)

    def test_every_script_that_a_template_runs_is_there(self):
        for template in ("github.yml", "gitlab.yml", "slurm.sbatch"):
            for script in re.findall(r"scripts/(?:ci/)?[a-z-]+(?=[ \n])", (CI / template).read_text()):
                self.assertTrue(os.access(ROOT / script, os.R_OK), f"{template}: {script}")


if __name__ == "__main__":
    unittest.main()
