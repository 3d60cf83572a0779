// What the tests of the ops share, in addition to their cases (test/ops): a CPU device, tensors filled from and read back as doubles.
#pragma once
#include <numeric>
#include <span>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/base/fp8.h"
#include "engine/base/half.h"
#include "engine/ops/ops.h"
#include "test/catch.h"
#include "test/ops/values.h"

namespace mbench::test {

class OpTest {
 public:
  explicit OpTest(std::size_t memory_limit = 0) : device(memory_limit) {}

  Tensor empty(const Shape& shape, DType t = DType::f32) {
    return device.empty(shape, t, Category::activations, "test");
  }
  Tensor put(const Shape& shape, DType t, const Values& values) {
    Tensor x = empty(shape, t);
    set(x, values);
    return x;
  }
  Tensor random(const Shape& shape, DType t, unsigned seed, double low = -1, double high = 1) {
    return put(shape, t, uniform(shape.numel(), low, high, seed));
  }
  // NaN everywhere: what an op must overwrite.
  Tensor garbage(const Shape& shape, DType t = DType::f32) {
    return put(shape, t, Values(static_cast<std::size_t>(shape.numel()), std::nan("")));
  }
  template <class T>
  Tensor put_integers(const Shape& shape, DType t, const std::vector<T>& values) {
    Tensor x = empty(shape, t);
    device.write(x, std::as_bytes(std::span(values)));
    return x;
  }
  Tensor bytes(const Shape& shape, const std::vector<std::uint8_t>& values) {
    return put_integers(shape, DType::u8, values);
  }
  Tensor ids(const std::vector<std::int64_t>& values) {
    return put_integers({static_cast<std::int64_t>(values.size())}, DType::i64, values);
  }

  void set(const Tensor& x, const Values& values) {
    REQUIRE(static_cast<std::int64_t>(values.size()) == x.numel());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto v = static_cast<float>(values[i]);
      switch (x.dtype()) {
        case DType::f32:
          x.as<float>()[i] = v;
          break;
        case DType::bf16:
          x.as<bf16>()[i] = from_float<bf16>(v);
          break;
        case DType::f16:
          x.as<f16>()[i] = from_float<f16>(v);
          break;
        default:
          FAIL("not a floating-point tensor");
      }
    }
  }
  static Values get(const Tensor& x) {
    Values v(static_cast<std::size_t>(x.numel()));
    for (std::size_t i = 0; i < v.size(); ++i) {
      switch (x.dtype()) {
        case DType::f32:
          v[i] = x.as<float>()[i];
          break;
        case DType::bf16:
          v[i] = to_float(x.as<bf16>()[i]);
          break;
        case DType::f16:
          v[i] = to_float(x.as<f16>()[i]);
          break;
        case DType::e4m3:
          v[i] = to_float(x.as<e4m3>()[i]);
          break;
        case DType::e5m2:
          v[i] = to_float(x.as<e5m2>()[i]);
          break;
        case DType::u8:
          v[i] = x.as<std::uint8_t>()[i];
          break;
        case DType::i64:
          v[i] = static_cast<double>(x.as<std::int64_t>()[i]);
          break;
      }
    }
    return v;
  }
  // The same values in f32, to hold a 16-bit op against the f32 one.
  Tensor as_f32(const Tensor& x) { return x ? put(x.shape(), DType::f32, get(x)) : Tensor(); }

  template <class Op>
  void run(const Op& op) {
    mbench::run(device, op);
  }

  cpu::CpuDevice device;
};

// |got - want| <= absolute + relative * |want| everywhere; NaN matches NaN, an infinity itself.
inline void check_close(const Values& got, const Values& want, double relative, double absolute) {
  CHECK(difference(got, want, relative, absolute) == "");
}

}  // namespace mbench::test
