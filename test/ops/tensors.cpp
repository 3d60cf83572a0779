#include "test/ops/tensors.h"

#include <algorithm>
#include <cstring>

#include "engine/base/fp8.h"
#include "engine/base/half.h"

namespace mbench::test {
namespace {

// Of larger tensors so many values are drawn, a prime, and then repeated.
constexpr std::int64_t kDrawn = 65521;

template <class T>
T stored(double x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x);
  else if constexpr (std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>)
    return {fp8_from_float<T>(static_cast<float>(x))};
  else
    return from_float<T>(static_cast<float>(x));
}

template <class T>
double loaded(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<double>(x);
  else
    return to_float(x);
}

// f(an element of that type)
template <class F>
void with_element(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    case DType::e4m3:
      return f(e4m3{});
    case DType::e5m2:
      return f(e5m2{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i64:
      return f(std::int64_t{});
  }
}

Values values_of(DType type, const std::byte* bytes, std::int64_t count) {
  Values v(static_cast<std::size_t>(count));
  with_element(type, [&](auto element) {
    for (std::size_t i = 0; i < v.size(); ++i) {
      std::memcpy(&element, bytes + i * sizeof(element), sizeof(element));
      v[i] = loaded(element);
    }
  });
  return v;
}

}  // namespace

Tensor Tensors::in(const Shape& shape, DType type, double low, double high) {
  return place(shape, type, uniform(std::min(shape.numel(), kDrawn), low, high, ++seed_));
}

Tensor Tensors::values(const Shape& shape, DType type, const Values& values) {
  check(static_cast<std::int64_t>(values.size()) == shape.numel(), "tensors", "values, got {}, need {}", values.size(),
        shape.numel());
  return place(shape, type, values);
}

Tensor Tensors::ids(const Shape& shape, std::int64_t below) {
  Values v;
  for (std::int64_t i = 0; i < std::min(shape.numel(), kDrawn); ++i)
    v.push_back(static_cast<double>((i % 3 == 0 ? 7 : i * 7919) % below));
  return place(shape, DType::i64, v);
}

Tensor Tensors::mask(const Shape& shape, double ones) {
  Values v = uniform(std::min(shape.numel(), kDrawn), 0, 1, ++seed_);
  for (double& x : v) x = x < ones ? 1 : 0;
  return place(shape, DType::u8, v);
}

Tensor Tensors::out(const Shape& shape, DType type) {
  return changed(place(shape, type, {is_float(type) ? std::nan("") : 99}));
}

Tensor Tensors::inout(const Shape& shape, DType type, double low, double high) {
  return changed(in(shape, type, low, high));
}

Tensor Tensors::over(std::initializer_list<Tensor> operands) {
  std::vector<Tensor> targets;
  for (const Tensor& t : operands)
    if (t) targets.push_back(t);
  variants_ = std::max(variants_, 1 + static_cast<int>(targets.size()));
  if (placing_.variant == 0) return out(targets.at(0).shape(), targets[0].dtype());
  return changed(targets[std::min(targets.size(), static_cast<std::size_t>(placing_.variant)) - 1]);
}

Tensor Tensors::changed(const Tensor& operand) {
  for (Watched& w : all_)
    if (w.tensor.data() == operand.data()) w.result = true;
  return operand;
}

std::vector<std::size_t> Tensors::results() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].result) found.push_back(i);
  return found;
}

Tensor Tensors::place(const Shape& shape, DType type, const Values& block) {
  const std::int64_t first = kGuard + placing_.shift;
  Watched w;
  w.around = device_.empty({first + shape.numel() + kGuard}, type, Category::activations, "case");
  w.tensor = w.around.part(first, shape);
  if (device_.real()) {
    std::vector<std::byte> bytes(w.around.bytes(), kGuardByte);
    with_element(type, [&](auto element) {
      using T = decltype(element);
      std::vector<T> drawn;
      for (const double x : block) drawn.push_back(stored<T>(x));
      std::byte* to = bytes.data() + static_cast<std::size_t>(first) * sizeof(T);
      for (std::size_t left = static_cast<std::size_t>(shape.numel()); left > 0;) {
        const std::size_t count = std::min(left, drawn.size());
        std::memcpy(to, drawn.data(), count * sizeof(T));
        to += count * sizeof(T), left -= count;
      }
    });
    device_.write(w.around, bytes);
    if (placing_.watched) w.before = std::move(bytes);
  }
  all_.push_back(std::move(w));
  return all_.back().tensor;
}

std::vector<std::byte> Tensors::read(const Tensor& tensor) const {
  std::vector<std::byte> bytes(tensor.bytes());
  device_.read(tensor, bytes);
  return bytes;
}

Values Tensors::before(std::size_t i) const {
  const Watched& w = all_[i];
  const auto first = static_cast<std::size_t>(kGuard + placing_.shift) * size_of(w.tensor.dtype());
  return values_of(w.tensor.dtype(), w.before.data() + first, w.tensor.numel());
}

Values Tensors::now(std::size_t i) const {
  const Tensor& t = all_[i].tensor;
  return values_of(t.dtype(), read(t).data(), t.numel());
}

std::vector<std::byte> Tensors::bits(std::size_t i) const {
  return read(all_[i].tensor);
}

std::string Tensors::trespass() const {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Watched& w = all_[i];
    const std::vector<std::byte> now = read(w.around);
    const std::size_t size = size_of(w.tensor.dtype());
    const std::size_t begin = static_cast<std::size_t>(kGuard + placing_.shift) * size, end = begin + w.tensor.bytes();
    for (std::size_t b = 0; b < now.size(); ++b)
      if (now[b] != w.before[b] && !(w.result && b >= begin && b < end))
        return fmt::format("tensor {} {}: element {} was written to, which is {}", i, w.tensor.shape(),
                           static_cast<std::int64_t>(b / size) - kGuard - placing_.shift,
                           b >= begin && b < end ? "no result" : "outside of it");
  }
  return "";
}

}  // namespace mbench::test
