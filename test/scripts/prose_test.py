"""scripts/prose on pages written here: what it finds, what it leaves alone, and that README.md, CONTRIBUTING.md, the pages of docs/, the
comments of headers and the texts of sources have nothing to find: prose_test.py"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Records of measurements are not edited.
CHECKED = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "configs/published", "engine/framework/README.md",
                                    "engine/sim/machines/README.md", "packaging/README.md")]
CHECKED += [p for p in sorted((ROOT / "docs").rglob("*.md"))
            if p.parent.name != "evidence"]
HEADERS = [ROOT / name for name in ("include", "api", "bench", "cli", "engine", "explain", "formats", "health", "reports", "search",
                                    "strategies", "sweeps", "test")]
# Whose string literals users read: errors, notes, tables, pages, help.
SOURCES = [ROOT / name for name in ("engine", "strategies", "sweeps", "search", "formats", "reports", "health", "cli", "api", "explain")]
LONG = "One " + "word " * 30 + "more."


class Prose(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text)
        return path

    def run_on(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "scripts" / "prose", "--check", *arguments], capture_output=True, text=True)

    def assert_finds(self, text, expected, name="page.md", options=()):
        said = self.run_on(*options, self.write(name, text))
        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertIn(expected, said.stdout)

    def assert_clean(self, text, name="page.md", options=()):
        said = self.run_on(*options, self.write(name, text))
        self.assertEqual(said.returncode, 0, said.stdout)

    def test_long_sentences_are_found_wherever_they_stand(self):
        for text in (LONG, "- An item. " + LONG, "| a cell | " + LONG + " |\n|---|---|\n", "Short.\n" + LONG.replace("word word", "word\nword")):
            self.assert_finds(text, "sentence: 32 words: One word")

    def test_what_is_code_is_not_read(self):
        self.assert_clean(f"```\n{LONG} told beside\n```\n\nShort.\n\n    {LONG}\n    told\n\n`told beside apart` is code.\n")

    def test_a_code_span_is_one_word(self):
        self.assert_clean("`" + "a " * 40 + "` is one word.")

    def test_paragraphs_have_six_sentences_at_most(self):
        self.assert_finds("One. " * 7, "paragraph: 7 sentences")
        self.assert_clean("One. " * 6 + "\n\n" + "One. " * 6)

    def test_private_words_are_found_whole(self):
        self.assert_finds("The floor of a step.", '"floor", need: lower bound')
        self.assert_finds("It works, beside that.", '"beside", need: overlapped with')
        self.assert_clean("Flooring, productive, a dot product, and alone-standing ones.")

    def test_dead_links_are_found(self):
        self.write("other.md", "# A head: of `two` things\n\n## Twice\n\n## Twice\n")
        self.assert_clean("[a](other.md#a-head-of-two-things), [b](other.md#twice-1), [c](https://example.org/none), `[d](none.md)`.")
        self.assert_finds("[a](none.md)", "no such file: none.md")
        self.assert_finds("[a](other.md#twice-2)", "no such heading: other.md#twice-2")

    def test_a_missing_page_is_an_error(self):
        said = self.run_on(pathlib.Path(self.folder.name) / "none.md")
        self.assertEqual(said.returncode, 1)
        self.assertIn("[prose] no such file", said.stderr)

    def test_comments_of_headers_are_read(self):
        half = "word " * 16
        self.assert_finds(f"// One {half}\n// {half} more.\nint a;\n", "a.h:1: sentence: 34 words", "a.h")
        self.assert_finds("int floor = 0;  // a floor\n", 'a.h:1: word: "floor", need: lower bound', "a.h")
        self.assert_finds("// " + "One. " * 4 + "\n// " + "Two. " * 3 + "\n", "paragraph: 7 sentences", "a.h")
        self.assert_clean(f"// One {half}\n//\n// {half}\nint a;  // {half}\nint b;  // {half}\n", "a.h")
        self.assert_clean('const char* told = "// told beside";  // `told`, https://example.org/a//b\n', "a.h")

    def test_texts_of_sources_are_read(self):
        def finds(text, expected, name="a.cpp"):
            self.assert_finds(text, expected, name, ["--texts"])

        half = "word " * 16
        finds('int a;\nf("beside {} ranks");\n', 'a.cpp:2: word: "beside", need: overlapped with')
        finds(f'f("One {half}"  // a comment\n  "{half} more.");\n', "a.cpp:1: sentence: 34 words")
        finds('f(R"(a page\nof a floor)");\n', 'a.cpp:1: word: "floor", need: lower bound')
        finds("""g('"'); f("a \\"floor\\" {}", 1'000);\n""", 'word: "floor"')
        finds('{"note": "a key",\n "product of": ["GEMMs", "a product"]}\n', 'a.json:2: word: "product"', "a.json")
        for clean in ('#include "told beside.h"\n', 'f("told"); f("beside");\n',
                      '// a "floor of" text\n/* "floor of"\n */\n',
                      f'f("{half}", "{half}"); f("{half}" + a + "{half}");\n',
                      f'f("A list:\\n  {half}\\n  {half}\\n{half}\\n\\n{half}");\n'):
            self.assert_clean(clean, "a.cpp", ["--texts"])
        self.assert_clean('{"told beside": "apart", "floor of": 1}\n', "a.json", ["--texts"])

    def test_help_reads_well(self):
        page = (ROOT / "docs" / "reference" / "help.md").read_text()
        texts = []
        for block in re.findall(r"```[^\n]*\n(.*?)```", page, re.S):
            for line in block.splitlines():
                option = re.match(r"  \S.*?  +(\S.*)$", line)
                # Names to choose from are one word.
                texts.append(re.sub(r"(?:[\w-]+, ){4,}[\w-]+", "names", option.group(1) if option else line.strip()))
        self.assertGreater(len(texts), 300)
        said = self.run_on(self.write("help.md", "\n\n".join(texts)))
        self.assertEqual(said.returncode, 0, "\n" + said.stdout)

    def test_headers_read_well(self):
        said = self.run_on(*HEADERS)
        self.assertEqual(said.returncode, 0, "\n" + said.stdout)

    def test_texts_of_sources_read_well(self):
        said = self.run_on("--texts", *SOURCES).stdout.splitlines()
        self.assertGreater(sum(bool(re.match(r"\w+/\S+\.(?:cpp|h|json)  ", line)) for line in said), 500)  # rows of files
        found = [line for line in said if re.search(r":\d+: (?:sentence|paragraph|word): ", line)]
        # Sources of the figures of machines are citations, which are as long as their titles.
        cited = re.compile(r"engine/sim/machines/[^:]*:\d+: (?:sentence|paragraph): ")
        self.assertEqual([line for line in found if not cited.match(line)], [])

    def test_pages_read_well(self):
        said = self.run_on(*CHECKED)
        self.assertEqual(said.returncode, 0, "\n" + said.stdout)

    def test_no_page_has_a_dead_link(self):
        said = self.run_on(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs")
        self.assertEqual([line for line in said.stdout.splitlines() if ": link: " in line], [])

    def test_pages_of_data_files_are_as_they_would_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "scripts" / "reference-pages", folder], check=True)
            for page in ("machines.md", "frameworks.md"):
                self.assertEqual((pathlib.Path(folder) / page).read_text(), (ROOT / "docs" / "reference" / page).read_text(),
                                 f"docs/reference/{page}: run scripts/reference-pages")


if __name__ == "__main__":
    unittest.main()
