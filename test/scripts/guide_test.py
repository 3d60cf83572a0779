"""The command blocks of README.md and docs/guide/ as a reader runs them: guide_test.py BUILD_DIR. And scripts/run-docs on pages written
here: a block that fails or prints something else is found, and --write renews what it prints."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MBENCH = pathlib.Path(sys.argv.pop(1)).resolve() / "mbench"


def run(*words):
    return subprocess.run([sys.executable, ROOT / "scripts" / "run-docs", "--mbench", MBENCH, *words], capture_output=True, text=True)


class RunDocs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = pathlib.Path(self.folder.name) / "page.md"

    def test_what_is_written_is_what_comes_out(self):
        self.page.write_text("<!-- file: a.txt -->\n```json\n12 apples\nmore\n```\n```sh\ncat a.txt\n```\n```text\n12 ...\n...\n```\n"
                             "<!-- run: exits 3 -->\n```sh\nexit 3\n```\n<!-- run: no, takes hours -->\n```sh\nexit 4\n```\n")
        said = run(self.page)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertIn("2 blocks ran, 1 blocks left out", said.stdout)

    def test_another_output_or_exit_code_is_found(self):
        for text, what in (("```sh\necho 3\n```\n```text\n2\n```\n", "no longer what stands there"), ("```sh\nfalse\n```\n", "exit code 1, need 0")):
            self.page.write_text(text)
            said = run(self.page)
            self.assertEqual(said.returncode, 1, said.stdout)
            self.assertIn(what, said.stdout)

    def test_write_renews_lines_around_what_is_left_out(self):
        self.page.write_text("```sh\nprintf 'head\\na 1.5 s\\nb 7\\nc 8\\n'\n```\n```text\n...\na 1.4 s\n...\nc 9\n```\n")
        self.assertEqual(run("--write", self.page).returncode, 0)
        self.assertIn("```text\n...\na 1.5 s\n...\nc 8\n```", self.page.read_text())


class Pages(unittest.TestCase):
    def test_every_block_runs_as_it_is_written(self):
        said = run()
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr + "\nIf this is meant: scripts/run-docs --write")

class Help(unittest.TestCase):
    def test_pages_that_the_program_makes_are_what_it_would_make(self):
        with tempfile.TemporaryDirectory() as folder:
            for script, page in (("pairs-page", "pairs.md"), ("help-page", "help.md")):
                made = pathlib.Path(folder) / page
                subprocess.run([ROOT / "scripts" / script, MBENCH, made], check=True)
                self.assertEqual(made.read_text(), (ROOT / "docs" / "reference" / page).read_text(),
                                 f"docs/reference/{page}: run scripts/write-reference")

    def test_no_help_has_a_private_word(self):
        commands = re.findall(r"^  ([a-z-]+) ", subprocess.run([MBENCH, "--help"], capture_output=True, text=True).stdout.split("Subcommands:")[1], re.M)
        self.assertGreater(len(commands), 15)
        with tempfile.TemporaryDirectory() as folder:
            for command in commands:
                page = pathlib.Path(folder) / f"{command}.md"
                page.write_text(subprocess.run([MBENCH, command, "--help"], capture_output=True, text=True, check=True).stdout)
                said = subprocess.run([sys.executable, ROOT / "scripts" / "prose", page], capture_output=True, text=True)
                self.assertEqual([line for line in said.stdout.splitlines() if ": word: " in line], [], command)


if __name__ == "__main__":
    unittest.main()
