# A Spack recipe: spack repo create mbench-repo; copy this file to mbench-repo/packages/mbench/package.py; spack repo add mbench-repo;
# then, from a checkout: spack dev-build mbench@main
from spack.package import *


class Mbench(CMakePackage, CudaPackage):
    """Measures what a training step of a transformer costs on a machine: time, peak memory, throughput and MFU, for every way of
    cutting the model up, under MPI."""

    license("Apache-2.0")

    version("main")

    variant("onednn", default=True, description="Compute bf16 products by oneDNN")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi")
    depends_on("openblas threads=openmp")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("simdjson@3:")
    depends_on("tomlplusplus@3:")
    depends_on("libyaml")
    depends_on("cli11@2.1:")
    depends_on("utf8proc")
    depends_on("onednn@2.6:", when="+onednn")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    generator("ninja")
    conflicts("%gcc@:11")

    def cmake_args(self):
        args = [
            self.define("MBENCH_TESTS", False),
            self.define("MBENCH_BENCH", False),
            # Spack's compiler wrapper adds the -march of the target.
            self.define("MBENCH_NATIVE", False),
            self.define_from_variant("MBENCH_ONEDNN", "onednn"),
            self.define("MBENCH_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("MBENCH_REVISION", str(self.spec.version)),
        ]
        archs = self.spec.variants["cuda_arch"].value if self.spec.satisfies("+cuda") else ("none",)
        if archs[0] != "none":
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", ";".join(archs)))
        return args
