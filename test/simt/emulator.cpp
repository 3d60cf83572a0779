#include "test/simt/emulator.h"

#include <cstring>

namespace simt {

using mbench::ErrorKind;
using mbench::fail;

void check_launch(std::string_view kernel, const mbench::cuda::Launch& shape, const Limits& limits) {
  const auto need = [&](std::string_view what, std::size_t got, std::size_t most) {
    if (got == 0 || got > most)
      fail(ErrorKind::internal, kernel, "{} of a launch, got {}, need 1 ... {} on {}", what, got, most, limits.name);
  };
  need("threads", std::size_t{shape.block_x} * shape.block_y, Limits::kThreads);
  need("blocks in x", shape.grid_x, Limits::kGridX);
  need("blocks in y", shape.grid_y, Limits::kGridY);
  need("blocks in z", shape.grid_z, Limits::kGridZ);
}

void check_shared(std::string_view kernel, std::size_t static_bytes, std::size_t dynamic_bytes, const Limits& limits) {
  if (static_bytes > Limits::kStaticShared)
    fail(ErrorKind::internal, kernel, "static shared memory, got {} bytes, need at most {}", static_bytes,
         Limits::kStaticShared);
  if (static_bytes + dynamic_bytes > limits.dynamic_shared)
    fail(ErrorKind::internal, kernel, "shared memory, got {} bytes, need at most {} on {}",
         static_bytes + dynamic_bytes, limits.dynamic_shared, limits.name);
}

void* Emulator::scratch(std::size_t bytes) {
  scratch_.assign(bytes / sizeof(std::max_align_t) + 1, std::max_align_t{});
  std::memset(static_cast<void*>(scratch_.data()), 0xFF, scratch_.size() * sizeof(std::max_align_t));
  return scratch_.data();
}

void Emulator::run(std::string_view op, const mbench::cuda::Launch& shape, const std::function<void()>& body) {
  check_launch(op, shape, limits_);
  check_shared(op, 0, shape.shared, limits_);
  launches_.push_back(shape);
  blockDim = {shape.block_x, shape.block_y, 1};
  gridDim = {shape.grid_x, shape.grid_y, shape.grid_z};
  const bool descending = order_ == Order::descending;
  const std::uint64_t blocks = std::uint64_t{shape.grid_x} * shape.grid_y * shape.grid_z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t b = descending ? blocks - 1 - i : i;
    blockIdx = {static_cast<unsigned>(b % shape.grid_x), static_cast<unsigned>(b / shape.grid_x % shape.grid_y),
                static_cast<unsigned>(b / shape.grid_x / shape.grid_y)};
    Block block(op, fibers_, blockDim, shape.shared, descending);
    block.run(body);
    check_shared(op, block.static_bytes(), shape.shared, limits_);
  }
}

}  // namespace simt
