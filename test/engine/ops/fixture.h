// Fixtures of test/fixtures (written by scripts/make_fixtures.py): reading them, handing their tensors to a
// CPU device, and comparing what an op made of them. A tensor is {"shape": [...], "data": [...]}.
#pragma once
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/ops/ops.h"
#include "test/catch.h"

namespace mbench::fixture {

using Json = nlohmann::json;

inline Json load(const std::string& name) {
  std::ifstream in(std::string(MBENCH_SOURCE_DIR "/test/fixtures/") + name);
  INFO(name);
  REQUIRE(in);
  return Json::parse(in);
}

// The cases of one op; at least one, so that an empty file cannot pass.
inline Json cases(const std::string& op) {
  Json all = load("ops/" + op + ".json").at("cases");
  REQUIRE(!all.empty());
  return all;
}

inline Shape shape_of(const Json& tensor) {
  Shape shape;
  const auto dims = tensor.at("shape").get<std::vector<std::int64_t>>();
  REQUIRE(dims.size() <= 4);
  switch (dims.size()) {
    case 0:
      return {};
    case 1:
      return {dims[0]};
    case 2:
      return {dims[0], dims[1]};
    case 3:
      return {dims[0], dims[1], dims[2]};
    default:
      return {dims[0], dims[1], dims[2], dims[3]};
  }
}

class Bench {
 public:
  // The device's tensor of a fixture's: floats as f32, ids as i64, flags as u8.
  Tensor f32(const Json& tensor) { return upload<float>(flat_or_shaped(tensor), DType::f32, tensor.at("data")); }
  Tensor i64(const Json& tensor) { return upload<std::int64_t>(flat_or_shaped(tensor), DType::i64, tensor.at("data")); }
  Tensor u8(const Json& tensor) { return upload<std::uint8_t>(flat_or_shaped(tensor), DType::u8, tensor.at("data")); }
  // Empty where the case has no such tensor.
  Tensor f32_if(const Json& c, const char* key) { return c.contains(key) ? f32(c.at(key)) : Tensor(); }
  Tensor u8_if(const Json& c, const char* key) { return c.contains(key) ? u8(c.at(key)) : Tensor(); }

  Tensor filled(const Shape& shape, float value, DType dtype = DType::f32) {
    REQUIRE(dtype == DType::f32);
    return upload<float>(shape, dtype, std::vector<float>(static_cast<std::size_t>(shape.numel()), value));
  }
  Tensor like(const Tensor& t, float value = kJunk) { return filled(t.shape(), value); }
  Tensor flags(const Shape& shape) {
    return upload<std::uint8_t>(shape, DType::u8,
                                std::vector<std::uint8_t>(static_cast<std::size_t>(shape.numel()), 9));
  }

  template <class Op>
  void run(const Op& op) {
    mbench::run(device_, op);
  }

  template <class T>
  std::vector<T> values(const Tensor& t) {
    std::vector<T> out(static_cast<std::size_t>(t.numel()));
    device_.read(t, std::as_writable_bytes(std::span<T>(out)));
    return out;
  }

  // Every element within tolerance * (1 + |want|).
  void check(const char* what, const Tensor& got, const Json& want, double tolerance = 1e-5) {
    INFO(what);
    const auto expected = want.at("data").get<std::vector<double>>();
    const auto actual = values<float>(got);
    REQUIRE(actual.size() == expected.size());
    double worst = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double off = std::abs(actual[i] - expected[i]) / (1 + std::abs(expected[i]));
      if (!(off <= worst)) worst = off, at = i;  // NaN counts as worst
      if (std::isnan(off)) break;
    }
    INFO("element " << at << ": got " << actual[at] << ", need " << expected[at]);
    CHECK(worst <= tolerance);
  }
  void check_flags(const char* what, const Tensor& got, const Json& want) {
    INFO(what);
    CHECK(values<std::uint8_t>(got) == want.at("data").get<std::vector<std::uint8_t>>());
  }

  // What outputs hold before an op: a value that an op which forgets an element leaves behind.
  static constexpr float kJunk = 1e30f;

 private:
  static Shape flat_or_shaped(const Json& tensor) {
    // The engine has at most four dims; longer fixtures (qkv) are taken flat, ops see them through strides.
    if (tensor.at("shape").size() > 4) return {static_cast<std::int64_t>(tensor.at("data").size())};
    return shape_of(tensor);
  }
  template <class T>
  Tensor upload(const Shape& shape, DType dtype, const std::vector<T>& data) {
    const Tensor t = device_.empty(shape, dtype, Category::other, "fixture");
    REQUIRE(data.size() == static_cast<std::size_t>(t.numel()));
    device_.write(t, std::as_bytes(std::span<const T>(data)));
    return t;
  }
  template <class T>
  Tensor upload(const Shape& shape, DType dtype, const Json& data) {
    return upload(shape, dtype, data.get<std::vector<T>>());
  }

  cpu::CpuDevice device_;
};

inline RngKey key_of(const Json& c) {
  return {c.at("seed"), c.at("site"), c.at("step")};
}

}  // namespace mbench::fixture
