// Holds a kernel, run by the emulator, against the CPU's op. A test describes one op as a function that makes
// its tensors and returns its struct; the op is then run three times on equal tensors: by the CPU, and by the
// emulator with the threads in ascending and in descending order. The emulator's two results must agree bit
// for bit (a race, or a sum whose order is left to chance, would show), and with the CPU's to a tolerance.
// Around every tensor lie guards that nothing may touch, and tensors start at an address fit for vectors or
// one element beyond.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>

#include "test/engine/ops/op_test.h"
#include "test/simt/emulator.h"

namespace mbench::cuda {

// Stands where kernels stand, so that enqueue() is found.
struct EmulatedStream : simt::Emulator {
  using Emulator::Emulator;
};

}  // namespace mbench::cuda

namespace mbench::test {

class KernelCase {
 public:
  static constexpr std::int64_t kGuard = 64;  // elements before and after a tensor

  KernelCase(OpTest& test, bool unaligned) : test_(test), shift_(unaligned ? 1 : 0) {}

  // Uniform values, the same for the same place in the test.
  Tensor in(const Shape& shape, DType type, double low = -1, double high = 1) {
    return filled(shape, type, uniform(shape.numel(), low, high, ++seed_));
  }
  // What the op must overwrite: NaN.
  Tensor out(const Shape& shape, DType type = DType::f32) {
    const double garbage = is_float(type) ? std::nan("") : 99;
    return result(filled(shape, type, Values(static_cast<std::size_t>(shape.numel()), garbage)));
  }
  // What the op adds to.
  Tensor inout(const Shape& shape, DType type, double low = -1, double high = 1) {
    return result(in(shape, type, low, high));
  }
  Tensor values(const Shape& shape, DType type, const Values& v) { return filled(shape, type, v); }
  // Compared after the run, and for nothing else.
  Tensor result(const Tensor& t) {
    results_.push_back(t);
    return t;
  }

  const std::vector<Tensor>& results() const { return results_; }
  void check_guards() const {
    for (const auto& [data, bytes] : guards_)
      REQUIRE(std::all_of(data, data + bytes, [](std::byte b) { return b == kGuardByte; }));
  }

 private:
  static constexpr std::byte kGuardByte{0xA5};

  Tensor filled(const Shape& shape, DType type, const Values& v) {
    const Tensor all = test_.empty({shape.numel() + 2 * kGuard + shift_}, type);
    std::memset(all.data(), static_cast<int>(kGuardByte), all.bytes());
    const Tensor t = all.part(kGuard + shift_, shape);
    const std::size_t before = static_cast<std::size_t>(kGuard + shift_) * size_of(type);
    guards_.push_back({all.data(), before});
    guards_.push_back({t.data() + t.bytes(), kGuard * size_of(type)});
    if (is_float(type)) {
      test_.set(t, v);
      return t;
    }
    for (std::size_t i = 0; i < v.size(); ++i)
      if (type == DType::i64)
        t.as<std::int64_t>()[i] = static_cast<std::int64_t>(v[i]);
      else
        t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(v[i]);
    return t;
  }

  OpTest& test_;
  std::int64_t shift_;
  unsigned seed_ = 0;
  std::vector<Tensor> results_;
  std::vector<std::pair<const std::byte*, std::size_t>> guards_;
};

struct Tolerance {
  double relative = 0, absolute = 0;
};

// Of results that both sides compute in f32 and round once.
inline Tolerance rounding(DType type, double absolute = 2e-6) {
  return {type == DType::f32 ? 4e-6 : epsilon(type), absolute};
}

// `make(KernelCase&)` returns the op; `enqueue(Stream&, op)` is the one under test, found by the op's type.
template <class Make>
void check_kernel(const Tolerance& tolerance, const Make& make) {
  for (const bool unaligned : {false, true}) {
    CAPTURE(unaligned);
    OpTest test;
    KernelCase expected(test, unaligned), first(test, unaligned), second(test, unaligned);
    test.run(make(expected));
    const auto emulate = [&](KernelCase& c, simt::Order order) {
      const auto op = make(c);
      op.check();
      cuda::EmulatedStream stream(order);
      enqueue(stream, op);
      c.check_guards();
    };
    emulate(first, simt::Order::ascending);
    emulate(second, simt::Order::descending);
    REQUIRE(!expected.results().empty());
    for (std::size_t i = 0; i < expected.results().size(); ++i) {
      CAPTURE(i);
      const Tensor &got = first.results()[i], &again = second.results()[i];
      check_close(OpTest::get(got), OpTest::get(expected.results()[i]), tolerance.relative,
                  tolerance.absolute);
      CHECK(std::memcmp(got.data(), again.data(), got.bytes()) == 0);
    }
  }
}

// Widths that are no multiple of anything, and one that vectors fit.
inline constexpr std::int64_t kWidths[] = {1, 31, 33, 64, 255, 1027};

}  // namespace mbench::test
