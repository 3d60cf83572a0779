// The memory of a GPU. Needs one.
#include "engine/ops/ops.h"
#include "engine/platform/registry.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::platform;

TEST_CASE("memory grows, runs out with a message, and can be read back") {
  const auto gpu = open_device("cuda", std::size_t{96} << 20);  // of which cuBLASLt's workspace has 32 MiB
  CHECK(gpu->library_bytes() >= std::size_t{32} << 20);
  std::vector<Tensor> held;
  for (int i = 0; i < 7; ++i) held.push_back(gpu->empty({2 << 20}, DType::f32, Category::other, "test"));
  for (std::size_t i = 0; i < held.size(); ++i) run(*gpu, ops::Fill{held[i], static_cast<float>(i)});
  std::vector<float> host(std::size_t{2} << 20);
  for (std::size_t i = 0; i < held.size(); ++i) {
    gpu->read(held[i], std::as_writable_bytes(std::span(host)));
    CHECK(host.front() == static_cast<float>(i));
    CHECK(host.back() == static_cast<float>(i));
  }
  CHECK_THROWS_AS(gpu->empty({4 << 20}, DType::f32, Category::other, "too much"), OutOfMemory);
}
