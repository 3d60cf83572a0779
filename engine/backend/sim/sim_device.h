// A device without values: the allocator counts, ops cost but do not compute. What a rank allocates here is,
// byte for byte, what it allocates on a real device, because all of it is decided by the same host code.
#pragma once
#include "engine/ops/ops.h"

namespace mbench::sim {

// Addresses that nobody follows.
class CountedMemory final : public RawMemory {
 public:
  std::byte* base() const override { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }
  bool commit(std::size_t) override { return true; }
  std::size_t granule() const override { return std::size_t{2} << 20; }
};

template <class Base, class List>
class SilentSlots;
template <class Base>
class SilentSlots<Base, OpList<>> : public Base {};
template <class Base, class Op, class... Rest>
class SilentSlots<Base, OpList<Op, Rest...>> : public SilentSlots<Base, OpList<Rest...>> {
 public:
  void run(const Op&) override {}
};
using SilentOps = SilentSlots<OpTable, AllOps>;

class SimDevice final : public Device {
 public:
  explicit SimDevice(std::size_t memory_limit) : Device(std::make_unique<CountedMemory>(), memory_limit) {}
  OpTable& ops() override { return ops_; }
  std::string name() const override { return "counting device"; }
  bool real() const override { return false; }
  void write(const Tensor&, std::span<const std::byte>) override {}
  float read(const Tensor&, float declared) override { return declared; }
  void read(const Tensor&, std::span<std::byte>) override;
  double synchronize() override { return 0; }

 private:
  SilentOps ops_;
};

}  // namespace mbench::sim
