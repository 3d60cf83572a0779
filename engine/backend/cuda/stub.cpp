// Instead of the CUDA backend, where the binary was built without it.
#include "engine/backend/cuda/cuda.h"

namespace mbench::cuda {
namespace {

constexpr const char* kMissing = "this binary has no CUDA device";

}  // namespace

bool built_in() {
  return false;
}

std::vector<Gpu> gpus() {
  fail(ErrorKind::unsupported, "cuda", "{}", kMissing);
}

std::string why_none() {
  return kMissing;
}

std::string libraries() {
  return "";
}

std::unique_ptr<StreamDevice> open_device(const DeviceOptions&) {
  fail(ErrorKind::unsupported, "cuda", "{}, need one built where CMake finds the CUDA toolkit, 12 or newer", kMissing);
}

Fp64Gemm fp64_gemm(std::int64_t, double) {
  fail(ErrorKind::unsupported, "cuda", "{}", kMissing);
}

}  // namespace mbench::cuda
