// One op on two devices: the same tensors, drawn once, on the CPU and on the GPU; afterwards all of them are
// compared, those that the op must not change too.
#pragma once
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/half.h"
#include "engine/ops/ops.h"
#include "engine/platform/registry.h"
#include "test/catch.h"

namespace mbench::test {

inline constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16};

// The tensors of one run, in the order they were asked for. Equal seeds give equal values on any device.
class Inputs {
 public:
  Inputs(Device& device, unsigned seed) : device_(device), engine_(seed) {}

  Tensor floats(const Shape& shape, DType type, float low = -1, float high = 1) {
    std::uniform_real_distribution<float> draw(low, high);
    return fill(shape, type, [&] { return draw(engine_); });
  }
  // NaN everywhere: what an op must overwrite.
  Tensor garbage(const Shape& shape, DType type = DType::f32) {
    return fill(shape, type, [] { return std::nanf(""); });
  }
  Tensor ids(const Shape& shape, std::int64_t below) {
    std::uniform_int_distribution<std::int64_t> draw(0, below - 1);
    return put<std::int64_t>(shape, DType::i64, [&] { return draw(engine_); });
  }
  Tensor bytes(const Shape& shape, double ones) {
    std::bernoulli_distribution draw(ones);
    return put<std::uint8_t>(shape, DType::u8, [&] { return static_cast<std::uint8_t>(draw(engine_)); });
  }
  // [lengths, seq]: 1 for the first `length` of each row.
  Tensor first_ones(const std::vector<std::int64_t>& lengths, std::int64_t seq) {
    std::int64_t i = 0;
    return put<std::uint8_t>({static_cast<std::int64_t>(lengths.size()), seq}, DType::u8, [&] {
      const std::int64_t at = i++;
      return static_cast<std::uint8_t>(at % seq < lengths[static_cast<std::size_t>(at / seq)] ? 1 : 0);
    });
  }
  template <class Op>
  void run(const Op& op) {
    mbench::run(device_, op);
  }

  // Every tensor as doubles.
  std::vector<std::vector<double>> values() {
    std::vector<std::vector<double>> all;
    for (const Tensor& t : tensors_) all.push_back(read(t));
    return all;
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  template <class T, class Draw>
  Tensor put(const Shape& shape, DType type, Draw&& draw) {
    std::vector<T> host(static_cast<std::size_t>(shape.numel()));
    for (T& x : host) x = draw();
    const Tensor t = device_.empty(shape, type, Category::activations, "test");
    device_.write(t, std::as_bytes(std::span(host)));
    tensors_.push_back(t);
    return t;
  }
  template <class Draw>
  Tensor fill(const Shape& shape, DType type, Draw&& draw) {
    if (type == DType::bf16) return put<bf16>(shape, type, [&] { return from_float<bf16>(draw()); });
    if (type == DType::f16) return put<f16>(shape, type, [&] { return from_float<f16>(draw()); });
    return put<float>(shape, type, draw);
  }
  template <class T>
  std::vector<double> read_as(const Tensor& t) {
    std::vector<T> host(static_cast<std::size_t>(t.numel()));
    device_.read(t, std::as_writable_bytes(std::span(host)));
    std::vector<double> v;
    for (const T x : host) {
      if constexpr (std::is_integral_v<T>)
        v.push_back(static_cast<double>(x));
      else
        v.push_back(to_float(x));
    }
    return v;
  }
  std::vector<double> read(const Tensor& t) {
    switch (t.dtype()) {
      case DType::f32:
        return read_as<float>(t);
      case DType::bf16:
        return read_as<bf16>(t);
      case DType::f16:
        return read_as<f16>(t);
      case DType::u8:
        return read_as<std::uint8_t>(t);
      case DType::i64:
        return read_as<std::int64_t>(t);
    }
    return {};
  }

  Device& device_;
  std::mt19937 engine_;
  std::vector<Tensor> tensors_;
};

// Relative to a value and to the size of its tensor; words and masks must be the same.
inline double tolerance(DType t) {
  switch (t) {
    case DType::f32:
      return 5e-5;
    case DType::bf16:
      return 2e-2;
    case DType::f16:
      return 3e-3;
    default:
      return 0;
  }
}

class Twin {
 public:
  Twin() : cpu_(open_device("cpu", 0)), gpu_(open_device("cuda", 0)) {}

  // `work` makes its tensors and runs its op; `looser` widens the tolerance.
  void compare(const std::string& label, const std::function<void(Inputs&)>& work, double looser = 1) {
    const unsigned seed = ++seed_;
    Inputs cpu(*cpu_, seed), gpu(*gpu_, seed);
    work(cpu);
    work(gpu);
    const auto want = cpu.values(), got = gpu.values();
    INFO(label << ", seed " << seed);
    REQUIRE(got.size() == want.size());
    DType narrowest = DType::f32;  // what was rounded on the way to an f32 result was rounded to this
    for (const Tensor& t : cpu.tensors())
      if (tolerance(t.dtype()) > tolerance(narrowest)) narrowest = t.dtype();
    for (std::size_t i = 0; i < want.size(); ++i) {
      const bool exact = tolerance(cpu.tensors()[i].dtype()) == 0;
      expect(i, got[i], want[i], exact ? 0 : looser * tolerance(narrowest));
    }
  }

 private:
  static void expect(std::size_t tensor, const std::vector<double>& got, const std::vector<double>& want,
                     double relative) {
    double squares = 0;
    std::size_t finite = 0, bad = 0, first = 0;
    for (const double x : want)
      if (std::isfinite(x)) squares += x * x, ++finite;
    const double size = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
      if (same || std::fabs(got[i] - want[i]) <= relative * (std::fabs(want[i]) + size)) continue;
      if (bad++ == 0) first = i;
    }
    INFO("tensor " << tensor << ": " << bad << " of " << want.size() << " differ, the first at " << first
                   << ": got " << (got.empty() ? 0 : got[first]) << ", want "
                   << (want.empty() ? 0 : want[first]));
    CHECK(bad == 0);
  }

  std::unique_ptr<Device> cpu_, gpu_;
  unsigned seed_ = 0;
};

}  // namespace mbench::test
