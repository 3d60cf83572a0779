// The kernel that launch_bench takes as the cheapest there is.
namespace mbench::bench {

namespace {
__global__ void nothing() {}
}  // namespace

const void* empty_kernel() {
  return reinterpret_cast<const void*>(nothing);
}

}  // namespace mbench::bench
