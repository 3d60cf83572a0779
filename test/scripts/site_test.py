"""The documentation builds as a site without a warning, and links out of docs/ lead somewhere: site_test.py. Skipped (77) without the
package mkdocs."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MKDOCS = [sys.executable, "-m", "mkdocs"] if importlib.util.find_spec("mkdocs") else [shutil.which("mkdocs")]
if MKDOCS == [None]:
    print("skipped: no mkdocs, neither a package of this Python nor a command")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "scripts"))
import site_links


def hooked(markdown, repo_url=None):
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_path="guide/a.md"))
    return site_links.on_page_markdown(markdown, page, types.SimpleNamespace(repo_url=repo_url))


class Site(unittest.TestCase):
    def test_it_builds_without_warnings(self):
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run([*MKDOCS, "build", "--strict", "-f", ROOT / "mkdocs.yml", "-d", folder],
                                  capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stderr)
            for page in ("index.html", "guide/first-run/index.html", "reference/fields/index.html", "search/search_index.json"):
                self.assertTrue((pathlib.Path(folder) / page).exists(), page)

    def test_links_out_of_the_site(self):
        self.assertEqual(hooked("[x](../spec.md#fp8) [y](https://a.b/c)"), "[x](../spec.md#fp8) [y](https://a.b/c)")
        self.assertEqual(hooked("[x](../../engine/a.h)"), "x (`engine/a.h`)")
        self.assertEqual(hooked("[x](../../engine/a.md#b)", "https://a.b/c"), "[x](https://a.b/c/blob/HEAD/engine/a.md#b)")


if __name__ == "__main__":
    unittest.main()
