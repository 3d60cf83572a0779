// Pages for what experts keep: rows come back as they left, from pages wherever they lie, and memory is there only while it is asked for.
#include "engine/nn/runtime/paged_stash.h"

#include "engine/platform/registry.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::nn;

namespace {

constexpr std::int64_t kRoom = 200, kWide = 12, kNarrow = 3;  // rows, and columns of bytes of two tensors

// A layer's experts of one micro batch: two tensors whose bytes tell them from others.
struct Layer {
  Tensor wide, narrow;
  int group = -1;
};

std::vector<std::byte> bytes_of(Device& device, const Tensor& t, std::int64_t rows) {
  std::vector<std::byte> bytes(t.bytes());
  device.read(t, bytes);
  bytes.resize(static_cast<std::size_t>(rows * t.shape()[1]));
  return bytes;
}

std::vector<std::byte> bytes_for(std::int64_t columns, int number, std::int64_t rows) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(number) * 17) % 251);
  return bytes;
}

Layer made(Device& device, int number) {
  const auto tensor = [&](std::int64_t columns) {
    const Tensor t = device.empty({kRoom, columns}, DType::u8, Category::activations, "test");
    device.write(t, bytes_for(columns, number, kRoom));
    return t;
  };
  return {tensor(kWide), tensor(kNarrow)};
}

std::size_t in_use(Device& device) {
  return device.memory().in_use().total;
}

void check_rows(Device& device, const Layer& layer, int number, std::int64_t rows) {
  CHECK(bytes_of(device, layer.wide, rows) == bytes_for(kWide, number, rows));
  CHECK(bytes_of(device, layer.narrow, rows) == bytes_for(kNarrow, number, rows));
}

}  // namespace

TEST_CASE("rows of experts leave for pages and come back, in turns with another micro batch") {
  const auto device = platform::open_device("cpu", 0);
  PagedStash stash;
  stash.make(*device, {{kWide, 7, 0}, {kNarrow, 7, 0}});
  const std::size_t pages = in_use(*device);
  CHECK(pages >= 7 * 64 * (kWide + kNarrow));
  StashedGroups first, second;
  // 130, 64 and 1 rows take 3, 1 and 1 pages.
  const std::int64_t rows[] = {130, 64, 1};
  std::vector<Layer> layers;
  stash.begin_forward(first, 3);
  for (int i = 0; i < 3; ++i) {
    stash.settle();
    layers.push_back(made(*device, i));
    layers[i].group = stash.keep(*device, {{layers[i].wide, rows[i]}, {Tensor(), 5}, {layers[i].narrow, rows[i]}});
    CHECK(layers[i].group == i);
  }
  stash.end_forward();
  CHECK(in_use(*device) == pages);
  // As this one's backward goes on, another forward takes the pages that it leaves, which are no neighbours of the others.
  stash.begin_backward(*device, first, true);
  stash.begin_forward(second, 1);
  stash.bring_back(*device, layers[2].group);
  check_rows(*device, layers[2], 2, 1);
  stash.fetch_next(*device);
  stash.bring_back(*device, layers[1].group);
  check_rows(*device, layers[1], 1, 64);
  Layer other = made(*device, 9);
  other.group = stash.keep(*device, {{other.wide, kRoom}, {other.narrow, kRoom}});
  CHECK(other.group == 0);
  stash.fetch_next(*device);
  stash.bring_back(*device, layers[0].group);
  check_rows(*device, layers[0], 0, 130);
  stash.end_backward();
  stash.end_forward();
  CHECK(!stash.overflowed());
  layers.clear();
  CHECK(in_use(*device) == pages);
  stash.begin_backward(*device, second, true);
  stash.bring_back(*device, other.group);
  check_rows(*device, other, 9, kRoom);
  stash.end_backward();
}

TEST_CASE("a tensor that finds no page on the device goes to the host, and a group without any stays") {
  const auto device = platform::open_device("cpu", 0);
  PagedStash stash;
  stash.make(*device, {{kWide, 4, 2}, {kNarrow, 2, 4}});
  Device& host = device->host();
  CHECK(host.memory().in_use().total >= 64 * (2 * kWide + 4 * kNarrow));
  const std::size_t pages = in_use(*device);
  StashedGroups groups;
  std::vector<Layer> layers;
  std::size_t layer = in_use(*device);
  {
    const Layer one = made(*device, 0);
    layer = in_use(*device) - layer;
  }
  stash.begin_forward(groups, 5);
  for (int i = 0; i < 4; ++i) {
    stash.settle();
    layers.push_back(made(*device, i));
    layers[i].group = stash.keep(*device, {{layers[i].wide, 100}, {layers[i].narrow, 100}});
  }
  // The wide tensors fit twice on the device and once on the host, the narrow ones once and twice.
  CHECK(layers[2].group == 2);
  CHECK(device->meter().host_copy_bytes == 100 * (kWide + 2 * kNarrow));
  CHECK(layers[3].group == -1);
  CHECK(stash.overflowed());
  CHECK(!stash.overflowed());
  stash.end_forward();
  CHECK(in_use(*device) == pages + layer);
  stash.begin_backward(*device, groups, false);
  stash.bring_back(*device, layers[3].group);
  for (int i = 3; i >= 0; --i) {
    stash.bring_back(*device, layers[i].group);
    check_rows(*device, layers[i], i, 100);
    stash.fetch_next(*device);
  }
  stash.end_backward();
  // What the group that stayed had found is free again, as all is: a third layer fits now.
  StashedGroups again;
  stash.begin_forward(again, 3);
  for (int i = 0; i < 3; ++i) CHECK(stash.keep(*device, {{layers[i].wide, 100}, {layers[i].narrow, 100}}) == i);
  stash.end_forward();
  stash.release();
  CHECK(!stash.on());
  CHECK(host.memory().in_use().total == 0);
}
