"""The templates of scripts/ci: a comment and a JUnit report appear whatever failed, and say what could not be judged.

    python3 test/scripts/ci_test.py
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

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
            self.assertRegex(step, r"\n        if: \$\{\{ !cancelled\(\)", step)
        self.assertIn("--body-file out/comment.md", text)

    def test_gitlab_goes_on_after_a_failure_and_keeps_both_reports(self):
        text = (CI / "gitlab.yml").read_text()
        job = text[:text.index("mbench-stored:")]
        for line in job.splitlines():
            if re.match(r"    - scripts/(quickstart|ci/gate|ci/against)", line):
                self.assertTrue(line.endswith("|| code=$?"), line)
        self.assertIn("    - exit $code\n", job)
        self.assertIn("junit: [out/gate/junit.xml, out/against/junit.xml]", job)

    def test_every_script_that_a_template_runs_is_there(self):
        for template in ("github.yml", "gitlab.yml", "slurm.sbatch"):
            for script in re.findall(r"scripts/(?:ci/)?[a-z-]+(?=[ \n])", (CI / template).read_text()):
                self.assertTrue(os.access(ROOT / script, os.R_OK), f"{template}: {script}")


if __name__ == "__main__":
    unittest.main()
