"""The Spack recipe, with a stand-in for Spack that records what a package declares: it loads, what it passes to CMake are options
that CMakeLists.txt has, and it depends on each library that CMake requires: spack_recipe_test.py."""
import pathlib
import re
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = (ROOT / "CMakeLists.txt").read_text() + "".join(p.read_text() for p in (ROOT / "cmake").glob("*.cmake"))


class Variant:
    def __init__(self, value):
        self.value = value


class Spec:
    """A spec with these variants on."""

    def __init__(self, on, archs=("none",)):
        self.on, self.version, self.variants = on, "main", {"cuda_arch": Variant(archs)}

    def satisfies(self, text):
        return text.lstrip("+") in self.on


class Package:
    def define(self, name, value):
        return f"-D{name}={ {True: 'ON', False: 'OFF'}.get(value, value) }"

    def define_from_variant(self, name, variant):
        return self.define(name, variant in self.spec.on)


def load():
    declared = {}

    def directive(name):
        return lambda *a, **k: declared.setdefault(name, []).append((a, k))

    spack = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "conflicts", "generator"):
        setattr(spack, name, directive(name))
    spack.CMakePackage = type("CMakePackage", (Package,), {})
    spack.CudaPackage = type("CudaPackage", (), {})
    sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), spack
    names = {}
    exec(compile((ROOT / "packaging" / "spack" / "package.py").read_text(), "package.py", "exec"), names)
    return names["Mbench"], declared


class Recipe(unittest.TestCase):
    def test_what_it_passes_are_options_of_the_build(self):
        package, _ = load()
        for spec in (Spec([]), Spec(["onednn"]), Spec(["cuda"], ("80", "90"))):
            recipe = package()
            recipe.spec = spec
            for argument in recipe.cmake_args():
                name, value = re.fullmatch(r"-D(\w+)=(.+)", argument).groups()
                known = re.search(rf"(option|set)\({name}[ )]", CMAKE) or name.startswith("CMAKE_")
                self.assertTrue(known, f"{argument}: CMake knows no {name}")
            self.assertEqual("-DCMAKE_CUDA_ARCHITECTURES=80;90" in recipe.cmake_args(), "cuda" in spec.on)

    def test_it_depends_on_what_cmake_requires(self):
        _, declared = load()
        depends = {re.split(r"[@ ]", a[0])[0] for a, _ in declared["depends_on"]}
        spack_names = {"MPI": "mpi", "fmt": "fmt", "nlohmann_json": "nlohmann-json", "simdjson": "simdjson", "CLI11": "cli11"}
        required = re.findall(r"^find_package\((\w+) REQUIRED", (ROOT / "CMakeLists.txt").read_text(), re.M)
        for name in set(required) - {"OpenMP", "Threads"}:
            self.assertIn(spack_names.get(name, name), depends)
        self.assertTrue({"openblas", "utf8proc", "onednn", "tomlplusplus"} <= depends)


if __name__ == "__main__":
    unittest.main()
