// What a GPU offloads to: page-locked memory that grows, copies beside the stream, and updates there. Needs a GPU.
#include <algorithm>

#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"
#include "engine/train/host_update.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::train;

namespace {

// Not a power of two, so that blocks lie across the pieces by which the memory grows.
constexpr std::int64_t kElements = 3 * 700 * 1000;

std::vector<float> values_of(Device& device, const Tensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.numel()));
  device.read(t, std::as_writable_bytes(std::span(values)));
  return values;
}

bool all_are(const std::vector<float>& values, float x) {
  return std::all_of(values.begin(), values.end(), [x](float v) { return v == x; });
}

}  // namespace

TEST_CASE("copies to the host and back keep their order with the stream and with one another") {
  const auto gpu = open_device("cuda", 0);
  Device& host = gpu->host();
  const Tensor x = gpu->empty({kElements}, DType::f32, Category::other, "test");
  std::vector<Tensor> there;
  for (int i = 0; i < 5; ++i) there.push_back(host.empty({kElements}, DType::f32, Category::other, "test"));
  std::vector<std::unique_ptr<HostCopy>> out;
  for (std::size_t i = 0; i < there.size(); ++i) {
    run(*gpu, ops::Fill{x, static_cast<float>(i + 1)});
    out.push_back(gpu->start_copy(CopyWay::to_host, x, there[i]));
    out.back()->wait();  // else the next fill may come before the copy
  }
  for (std::size_t i = 0; i < there.size(); ++i) {
    out[i]->wait_on_host();
    CHECK(all_are(values_of(host, there[i]), static_cast<float>(i + 1)));
  }
  const Tensor y = gpu->empty({kElements}, DType::f32, Category::other, "test");
  run(*gpu, ops::Fill{y, 100});
  gpu->start_copy(CopyWay::to_device, there[2], y)->wait();
  run(*gpu, ops::Add{y, x, y});
  CHECK(all_are(values_of(*gpu, y), 8));
}

TEST_CASE("an update on the host of a GPU's weights") {
  const auto gpu = open_device("cuda", 0);
  Device& host = gpu->host();
  const Tensor gradients = gpu->empty({kElements}, DType::f32, Category::gradients, "test");
  const Tensor weights = gpu->empty({kElements}, DType::bf16, Category::weights, "test");
  const Tensor main = host.empty({kElements}, DType::f32, Category::optimizer, "test");
  HostUpdate update(*gpu, kElements, DType::f32, DType::bf16, 100000);
  for (int step = 1; step <= 3; ++step) {
    run(*gpu, ops::Fill{gradients, static_cast<float>(step)});
    update.run({{gradients, weights}}, [&](const HostUpdate::Chunk& c) {
      run(host, ops::Copy{c.gradients, main.part(c.begin, {c.size}), 2});
      run(host, ops::Copy{main.part(c.begin, {c.size}), c.converted});
      return c.converted;
    });
    const Tensor f32 = gpu->empty({kElements}, DType::f32, Category::other, "test");
    run(*gpu, ops::Copy{weights, f32});
    CHECK(all_are(values_of(*gpu, f32), static_cast<float>(2 * step)));
  }
}
