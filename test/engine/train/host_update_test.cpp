// The update of state in host memory, chunk by chunk, is that of the device to the bit, however it is cut.
#include "engine/train/host_update.h"

#include <numeric>

#include "engine/ops/adam.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::train;

namespace {

constexpr std::int64_t kFirst = 1000, kSecond = 337;  // elements of two pieces

std::vector<float> some_values(std::int64_t n, float scale) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = scale * static_cast<float>(static_cast<int>(i * 7919 % 2003) - 1001) / 1001;
  return values;
}

Tensor tensor_of(Device& device, const std::vector<float>& values, DType type) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const Tensor f32 = device.empty(shape, DType::f32, Category::other, "test");
  device.write(f32, std::as_bytes(std::span(values)));
  if (type == DType::f32) return f32;
  const Tensor t = device.empty(shape, type, Category::other, "test");
  run(device, ops::Copy{f32, t});
  return t;
}

Tensor zeros(Device& device, std::int64_t n) {
  const Tensor t = device.empty({n}, DType::f32, Category::other, "test");
  run(device, ops::Fill{t, 0});
  return t;
}

std::vector<std::byte> bytes_of(Device& device, const Tensor& t) {
  std::vector<std::byte> bytes(t.bytes());
  device.read(t, bytes);
  return bytes;
}

struct Piece {
  Tensor main, m, v, model;
};

ops::Adam adam_of(const Piece& p, const Tensor& gradients, std::int64_t begin, const Tensor& model) {
  const Shape shape = gradients.shape();
  ops::Adam adam{p.main.part(begin, shape), gradients, p.m.part(begin, shape), p.v.part(begin, shape), model};
  adam.lr = 0.01f;
  adam.weight_decay = 0.1f;
  adam.grad_scale = 0.5f;
  return adam;
}

const std::vector<ops::ElementRange> kUndecayed = {{3, 40}, {63, 64}, {128, 300}};

}  // namespace

TEST_CASE("an update on the host is the device's, however it is cut into chunks") {
  for (const DType type : {DType::f32, DType::bf16})
    for (const std::int64_t chunk : {1, 64, 128, 333, 1000, 1 << 20}) {
      INFO(name_of(type) << ", chunks of " << chunk);
      const auto device = open_device("cpu", 0);
      Device& host = device->host();
      const std::int64_t sizes[] = {kFirst, kSecond};
      std::vector<Piece> here, there;  // on the device as a reference, and in host memory
      std::vector<HostUpdate::Piece> pieces;
      for (const std::int64_t n : sizes) {
        const auto weights = some_values(n, 1), gradients = some_values(n, 0.1f);
        here.push_back({tensor_of(*device, weights, DType::f32), zeros(*device, n), zeros(*device, n),
                        type == DType::f32 ? Tensor() : tensor_of(*device, weights, type)});
        there.push_back(
            {tensor_of(host, weights, DType::f32), zeros(host, n), zeros(host, n), tensor_of(*device, weights, type)});
        pieces.push_back({tensor_of(*device, gradients, type), there.back().model});
      }
      HostUpdate update(*device, kFirst, type, type == DType::f32 ? std::nullopt : std::optional(type), chunk);
      device->reset_meters();
      update.run(pieces, [&](const HostUpdate::Chunk& c) {
        ops::Adam adam = adam_of(there[c.piece], c.gradients, c.begin, c.converted);
        const auto undecayed = ops::ranges_within(kUndecayed, c.begin, c.begin + c.size);
        adam.undecayed = undecayed;
        run(host, adam);
        return c.converted ? c.converted : adam.param;
      });
      const double sent = 2.0 * static_cast<double>((kFirst + kSecond) * static_cast<std::int64_t>(size_of(type)));
      CHECK(device->meter().host_copy_bytes == sent);
      for (std::size_t i = 0; i < 2; ++i) {
        ops::Adam adam = adam_of(here[i], pieces[i].gradients, 0, here[i].model);
        adam.undecayed = kUndecayed;
        run(*device, adam);
        CHECK(bytes_of(host, there[i].main) == bytes_of(*device, here[i].main));
        CHECK(bytes_of(host, there[i].m) == bytes_of(*device, here[i].m));
        CHECK(bytes_of(host, there[i].v) == bytes_of(*device, here[i].v));
        CHECK(bytes_of(*device, there[i].model) ==
              bytes_of(*device, type == DType::f32 ? here[i].main : here[i].model));
      }
    }
}

TEST_CASE("host memory is an arena of its own, and bytes that go there are copied") {
  const auto device = open_device("cpu", 0);
  CHECK(device->opened_host() == nullptr);
  const Tensor here = tensor_of(*device, some_values(256, 1), DType::f32);
  const std::size_t before = device->memory().in_use().total;
  const Tensor there = device->host().empty({256}, DType::f32, Category::optimizer, "test");
  CHECK(device->memory().in_use().total == before);
  CHECK(device->host().memory().in_use().total == 1024);
  CHECK(device->host().memory().in_use().by_category[static_cast<std::size_t>(Category::optimizer)] == 1024);
  device->start_copy(CopyWay::to_host, here, there)->wait_on_host();
  CHECK(here.data() != there.data());
  CHECK(bytes_of(*device, here) == bytes_of(device->host(), there));
  CHECK(device->meter().host_copy_bytes == 1024);
  CHECK(at(device->meter().seconds, TimePart::copies) > 0);
  CHECK_THROWS_AS(device->start_copy(CopyWay::to_device, there.part(0, {8}), here), Error);
}

TEST_CASE("ranges of a part of the elements") {
  const std::vector<ops::ElementRange> all = {{2, 5}, {7, 20}, {30, 31}};
  const auto text = [&](std::int64_t begin, std::int64_t end) {
    std::string s;
    for (const auto& r : ops::ranges_within(all, begin, end)) s += fmt::format("[{},{})", r.begin, r.end);
    return s;
  };
  CHECK(text(0, 40) == "[2,5)[7,20)[30,31)");
  CHECK(text(0, 2) == "");
  CHECK(text(4, 10) == "[0,1)[3,6)");
  CHECK(text(8, 12) == "[0,4)");
  CHECK(text(20, 30) == "");
  CHECK(text(30, 40) == "[0,1)");
}
