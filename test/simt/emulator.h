// Runs kernels on the CPU, as a stream of the GPU would: in order, one block after the other. Launches beyond
// the limits of a real device are refused.
#pragma once
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/backend/cuda/kernels/launch_shape.h"
#include "engine/base/error.h"
#include "test/simt/block.h"

namespace simt {

// What a device takes; the rest is the same on all of compute capability 7.0 and later.
struct Limits {
  std::string_view name;
  std::size_t dynamic_shared;  // bytes a block may opt in to
  static constexpr std::size_t kStaticShared = std::size_t{48} << 10;
  static constexpr unsigned kThreads = 1024, kGridX = 2147483647u, kGridY = 65535, kGridZ = 65535;
};
inline constexpr Limits kHopper{"compute capability 9.0", std::size_t{227} << 10};
inline constexpr Limits kAmpere{"compute capability 8.0", std::size_t{163} << 10};
inline constexpr Limits kAda{"compute capability 8.9", std::size_t{99} << 10};
inline constexpr Limits kTuring{"compute capability 7.5", std::size_t{64} << 10};

void check_launch(std::string_view kernel, const mbench::cuda::Launch& shape, const Limits& limits);
void check_shared(std::string_view kernel, std::size_t static_bytes, std::size_t dynamic_bytes, const Limits& limits);

enum class Order { ascending, descending };  // of blocks, of warps and of threads

class Emulator {
 public:
  explicit Emulator(Order order = Order::ascending, const Limits& limits = kTuring) : order_(order), limits_(limits) {}

  template <class... Params, class... Args>
  void launch(std::string_view op, const mbench::cuda::Launch& shape, void (*kernel)(Params...), Args&&... args) {
    static_assert(sizeof...(Params) == sizeof...(Args));
    if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0) return;
    const std::tuple<Params...> values(std::forward<Args>(args)...);
    run(op, shape, [&] { std::apply(kernel, values); });
  }
  // Memory that lives until the next call; NaN at first.
  void* scratch(std::size_t bytes);
  // `body` in every thread of a launch of that shape.
  void run(std::string_view op, const mbench::cuda::Launch& shape, const std::function<void()>& body);
  // Every launch so far.
  const std::vector<mbench::cuda::Launch>& launches() const { return launches_; }

 private:
  Order order_;
  Limits limits_;
  Fibers fibers_;
  std::vector<std::max_align_t> scratch_;
  std::vector<mbench::cuda::Launch> launches_;
};

}  // namespace simt

namespace mbench::cuda {

// Stands where kernels stand, so that enqueue() is found.
struct EmulatedStream : simt::Emulator {
  using Emulator::Emulator;
};

}  // namespace mbench::cuda
