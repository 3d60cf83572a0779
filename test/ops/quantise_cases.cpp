#include <bit>

#include "engine/base/philox.h"
#include "engine/ops/quantise.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// By looking at all values: the nearest, of two that are as near the one of the even code.
double nearest(DType type, double x) {
  const auto value = [&](int code) {
    return static_cast<double>(type == DType::e4m3 ? fp8_to_float<e4m3>(static_cast<std::uint8_t>(code))
                                                   : fp8_to_float<e5m2>(static_cast<std::uint8_t>(code)));
  };
  int best = 0;
  for (int code = 1; code < 128; ++code) {
    if (!std::isfinite(value(code))) continue;
    const double now = std::fabs(std::fabs(x) - value(best)), next = std::fabs(std::fabs(x) - value(code));
    if (next < now || (next == now && code % 2 == 0)) best = code;
  }
  return std::copysign(value(best), x);
}

double largest(DType type) {
  return type == DType::e4m3 ? 448 : 57344;
}

double scale_of(double amax, DType type, bool power_of_two) {
  if (amax == 0) return 1;
  const double scale = largest(type) / amax;
  return power_of_two ? std::exp2(std::floor(std::log2(scale))) : scale;
}

double abs_max(const Values& x) {
  double most = 0;
  for (const double z : x) most = std::max(most, std::fabs(z));
  return most;
}

// Every 16 rows of a matrix times the Hadamard matrix by its definition: entry (i, j) is (-1)^(bits that i and j share) / 4, columns of
// changed signs first.
Values hadamard(const Values& x, std::size_t cols) {
  Values y(x.size());
  for (std::size_t at = 0; at < x.size(); ++at) {
    const std::size_t i = at / cols % 16, strip = at / cols - i;
    for (std::size_t j = 0; j < 16; ++j) {
      const bool minus = (std::popcount(i & j) + (ops::Hadamard16::kSigns >> j & 1)) % 2 != 0;
      y[at] += (minus ? -0.25 : 0.25) * x[(strip + j) * cols + at % cols];
    }
  }
  return y;
}

void reference(const ops::AbsMax& op, Doubles& v) {
  const Values& x = v[op.x];
  const auto put = [&](const Tensor& amax, const Values& values) {
    double& most = v.out(amax)[0];
    most = std::max(most, abs_max(values));
  };
  if (op.amax) put(op.amax, x);
  if (op.hadamard) put(op.hadamard, hadamard(x, static_cast<std::size_t>(op.x.shape()[1])));
}

void reference(const ops::Fp8Scale& op, Doubles& v) {
  for (std::size_t i = 0; i < v[op.amax].size(); ++i) {
    v.out(op.scale)[i] = scale_of(v[op.amax][i], op.type, op.power_of_two);
    v.out(op.inverse)[i] = 1 / v.out(op.scale)[i];
  }
}

void reference(const ops::UpdateScales& op, Doubles& v) {
  Values &amax = v.out(op.amax), &history = v.out(op.history), &scale = v.out(op.scale), &inverse = v.out(op.inverse);
  const std::size_t n = amax.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t row =
        op.step ? static_cast<std::size_t>(v[op.step][0]) % (history.size() / n) : static_cast<std::size_t>(op.row);
    history[row * n + i] = amax[i];
    amax[i] = 0;
    double most = 0;
    for (std::size_t at = i; at < history.size(); at += n) most = std::max(most, history[at]);
    if (most == 0) continue;
    scale[i] = largest(op.type) / most;
    inverse[i] = 1 / scale[i];
  }
}

void reference(const ops::Quantise& op, Doubles& v) {
  const Values& x = v[op.x];
  const auto rows = static_cast<std::size_t>(op.x.shape()[0]), cols = static_cast<std::size_t>(op.x.shape()[1]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double code = nearest(op.type(), static_cast<float>(v[op.scale][0]) * static_cast<float>(x[i]));
    if (op.y) v.out(op.y)[i] = code;
    if (op.transposed) v.out(op.transposed)[i % cols * rows + i / cols] = code;
  }
  if (!op.amax) return;
  double& amax = v.out(op.amax)[0];
  amax = std::max(amax, abs_max(x));
}

// MX, as cuBLAS draws its layout: byte by byte, of which row and block the scale is. The scale is the smallest power of two that
// is not below the largest |x| / 448.
template <class Place>
void quantise_mx(const Values& x, std::size_t outer, std::size_t inner, Place place, Values& codes, Values& scales) {
  const std::size_t blocks = (inner + 31) / 32, tiles = (inner + 127) / 128;
  std::vector<float> amax(outer * blocks, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [o, k] = place(i);
    float& most = amax[o * blocks + k / 32];
    most = std::max(most, std::fabs(static_cast<float>(x[i])));
  }
  std::vector<double> exponents(amax.size());
  for (std::size_t i = 0; i < amax.size(); ++i)
    exponents[i] =
        amax[i] == 0 ? -127 : std::max(-127.0, std::ceil(std::log2(static_cast<double>(amax[i] * (1 / 448.0f)))));
  for (std::size_t at = 0; at < scales.size(); ++at) {
    const std::size_t tile = at / 512, o = tile / tiles * 128 + at % 16 / 4 * 32 + at % 512 / 16,
                      block = tile % tiles * 4 + at % 4;
    scales[at] = o < outer && block < blocks ? exponents[o * blocks + block] + 127 : 0;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [o, k] = place(i);
    codes[o * inner + k] = nearest(DType::e4m3, x[i] * std::exp2(-exponents[o * blocks + k / 32]));
  }
}

// The nearest of e2m1's values by looking at all, or with a draw the one above or below; its code.
int e2m1_code(float x, const std::uint32_t* word) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float size = std::fabs(x);
  int code = 0;
  if (size >= 6) {
    code = 7;
  } else if (word) {
    while (kValues[code + 1] <= size) ++code;
    const float part = (size - kValues[code]) * 4294967296.0f;
    if (part > static_cast<float>(*word) * (kValues[code + 1] - kValues[code])) ++code;
  } else {
    for (int other = 1; other < 8; ++other) {
      const float now = std::fabs(size - kValues[code]), next = std::fabs(size - kValues[other]);
      if (next < now || (next == now && other % 2 == 0)) code = other;
    }
  }
  return std::signbit(x) ? code + 8 : code;
}

// NVFP4 of an operand [outer, inner], given as it lies: scales of 16 along the inner dim, or of 16 x 16.
void quantise_nvfp4(const Values& x, std::size_t outer, std::size_t inner, float amax, const ops::QuantiseBlocks& op,
                    bool transposed, Values& codes, Values& scales) {
  const bool squares = op.by == ops::Fp8Blocks::nv_squares;
  const std::size_t blocks = inner / 16, tiles = (inner + 63) / 64;
  const float encode = 6 * 448 / amax;
  std::vector<double> scale(outer * blocks);
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t b = 0; b < blocks; ++b) {
      double most = 0;
      for (std::size_t row = squares ? o / 16 * 16 : o; row <= (squares ? o / 16 * 16 + 15 : o); ++row)
        for (std::size_t i = 0; i < 16; ++i) most = std::max(most, std::fabs(x[row * inner + b * 16 + i]));
      scale[o * blocks + b] = nearest(DType::e4m3, std::min(448.0f, static_cast<float>(most) * (1 / 6.0f) * encode));
    }
  for (std::size_t at = 0; at < scales.size(); ++at) {
    const std::size_t tile = at / 512, o = tile / tiles * 128 + at % 16 / 4 * 32 + at % 512 / 16,
                      block = tile % tiles * 4 + at % 4;
    scales[at] = o < outer && block < blocks ? scale[o * blocks + block] : 0;
  }
  RngKey key;
  if (op.rounding) {
    key = op.rounding->key;
    if (transposed) key.site += ops::RandomRounding::kTransposed;
  }
  const auto code = [&](std::size_t at) {
    const auto s = static_cast<float>(scale[at / 16]);
    const float z = s > 0 ? static_cast<float>(x[at]) * (encode / s) : 0 * static_cast<float>(x[at]);
    const std::uint32_t word = Philox::word(key, at);
    return e2m1_code(z, op.rounding ? &word : nullptr);
  };
  for (std::size_t at = 0; at < x.size(); at += 2) codes[at / 2] = code(at) + 16 * code(at + 1);
}

Values transposed(const Values& x, std::size_t rows, std::size_t cols) {
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i % cols * rows + i / cols] = x[i];
  return y;
}

void reference_nvfp4(const ops::QuantiseBlocks& op, Doubles& v) {
  const auto rows = static_cast<std::size_t>(op.x.shape()[0]), cols = static_cast<std::size_t>(op.x.shape()[1]);
  const Values& x = v[op.x];
  if (op.y) quantise_nvfp4(x, rows, cols, static_cast<float>(v[op.amax][0]), op, false, v.out(op.y), v.out(op.inverse));
  if (op.transposed)
    quantise_nvfp4(transposed(op.hadamard ? hadamard(x, cols) : x, rows, cols), cols, rows,
                   static_cast<float>(v[op.transposed_amax][0]), op, true, v.out(op.transposed),
                   v.out(op.transposed_inverse));
}

// Elements of an operand whose inner dim is `inner` long and that stand at (outer, inner) = place(i).
template <class Place>
void quantise_operand(const Values& x, DType type, std::size_t outer, std::size_t inner, ops::Fp8Blocks by, Place place,
                      Values& codes, Values& inverse) {
  if (by == ops::Fp8Blocks::mx) return quantise_mx(x, outer, inner, place, codes, inverse);
  const bool squares = by == ops::Fp8Blocks::squares, whole = by == ops::Fp8Blocks::whole_rows;
  const std::size_t across = (inner + 511) / 512 * 4;  // of squares, with the room behind them
  const auto block = [&](std::size_t o, std::size_t i) {
    return whole ? o : squares ? o / 128 * across + i / 128 : i / 128 * outer + o;
  };
  Values amax(inverse.size(), -1);  // what is behind the blocks stays as it is
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [o, k] = place(i);
    amax[block(o, k)] = std::max(amax[block(o, k)], std::fabs(x[i]));
  }
  for (std::size_t b = 0; b < amax.size(); ++b)
    if (amax[b] >= 0) inverse[b] = 1 / scale_of(amax[b], type, true);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [o, k] = place(i);
    codes[o * inner + k] = nearest(type, x[i] / inverse[block(o, k)]);
  }
}

void reference(const ops::QuantiseBlocks& op, Doubles& v) {
  const auto rows = static_cast<std::size_t>(op.x.shape()[0]), cols = static_cast<std::size_t>(op.x.shape()[1]);
  using At = std::pair<std::size_t, std::size_t>;
  if (of_nvfp4(op.by)) return reference_nvfp4(op, v);
  if (op.y)
    quantise_operand(
        v[op.x], op.y.dtype(), rows, cols, op.by,
        [=](std::size_t i) {
          return At{i / cols, i % cols};
        },
        v.out(op.y), v.out(op.inverse));
  if (op.transposed)
    quantise_operand(
        v[op.x], op.transposed.dtype(), cols, rows, op.by,
        [=](std::size_t i) {
          return At{i % cols, i / cols};
        },
        v.out(op.transposed), v.out(op.transposed_inverse));
}

void reference(const ops::Fp8Transpose& op, Doubles& v) {
  const auto rows = static_cast<std::size_t>(op.x.shape()[0]), cols = static_cast<std::size_t>(op.x.shape()[1]);
  for (std::size_t i = 0; i < rows * cols; ++i) v.out(op.y)[i % cols * rows + i / cols] = v[op.x][i];
}

const Shape kMatrices[] = {{1, 1}, {16, 48}, {33, 70}, {130, 31}, {64, 300}, {132, 264}};
constexpr std::pair<ops::Fp8Blocks, const char*> kBlocks[] = {{ops::Fp8Blocks::whole_rows, "row"},
                                                              {ops::Fp8Blocks::rows, "1 x 128"},
                                                              {ops::Fp8Blocks::squares, "128 x 128"},
                                                              {ops::Fp8Blocks::mx, "1 x 32"}};
constexpr DType kFp8[] = {DType::e4m3, DType::e5m2};

ops::Quantise quantise(Tensors& t, const Shape& s, DType from, DType to, bool straight, bool turned, bool amax) {
  ops::Quantise op;
  op.x = t.in(s, from, -3, 3), op.scale = t.values({1}, DType::f32, {to == DType::e4m3 ? 170.0 : 11000.0});
  if (straight) op.y = t.out(s, to);
  if (turned) op.transposed = t.out({s[1], s[0]}, to);
  if (amax) op.amax = t.inout({1}, DType::f32, 0, 1);
  return op;
}

ops::QuantiseBlocks blocks(Tensors& t, const Shape& s, DType from, ops::Fp8Blocks by, bool straight, bool turned) {
  ops::QuantiseBlocks op;
  op.x = t.in(s, from, -3, 3), op.by = by;
  if (straight) {
    op.y = t.out(s, DType::e4m3);
    op.inverse = t.out(op.scales_of(s[0], s[1], by), op.scale_type(by));
  }
  if (turned) {
    op.transposed = t.out({s[1], s[0]}, DType::e4m3);
    op.transposed_inverse = t.out(op.scales_of(s[1], s[0], by), op.scale_type(by));
  }
  return op;
}

// Whole numbers, so that the transform is exact and codes are the same in any order of sums; some blocks are all zero.
ops::QuantiseBlocks nvfp4(Tensors& t, const Shape& s, DType from, ops::Fp8Blocks by, bool straight, bool turned,
                          bool transform, bool draws) {
  ops::QuantiseBlocks op;
  op.by = by, op.hadamard = transform;
  Values x(static_cast<std::size_t>(s.numel()));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = i / 16 % 7 == 3 ? 0 : static_cast<double>((i * 7919 + i / 16 * 31) % 23) - 11;
  op.x = t.values(s, from, x);
  if (straight) {
    op.y = t.out(op.codes_of(s[0], s[1], by), DType::u8);
    op.inverse = t.out(op.scales_of(s[0], s[1], by), op.scale_type(by));
    op.amax = t.values({1}, DType::f32, {11});
  }
  if (turned) {
    op.transposed = t.out(op.codes_of(s[1], s[0], by), DType::u8);
    op.transposed_inverse = t.out(op.scales_of(s[1], s[0], by), op.scale_type(by));
    op.transposed_amax = t.values({1}, DType::f32, {transform ? 30.0 : 11.0});
  }
  if (draws) op.rounding = ops::RandomRounding{{42, 0x123456789abcdefull, 3}};
  return op;
}

ops::UpdateScales update(Tensors& t, std::int64_t steps, std::int64_t n, std::int64_t row, double most = 1) {
  return {t.inout({n}, DType::f32, 0, 2 * most),
          t.inout({steps, n}, DType::f32, 0, most),
          t.inout({n}, DType::f32, 1, 2),
          t.inout({n}, DType::f32, 0.5, 1),
          row,
          n % 2 == 0 ? DType::e4m3 : DType::e5m2};
}

const Within kEqual{.cpu = {0, 2e-7}, .kernel = {0, 2e-7}};

const Cases<ops::AbsMax> cases_of_abs_max(reference, [](CaseList<ops::AbsMax>& cases) {
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(
        label(type, {n}),
        [=](Tensors& t) {
          return ops::AbsMax{t.in({n}, type), t.inout({1}, DType::f32, 0, 0.1)};
        },
        kEqual);
  });
  cases.unemulated(
      "[300001]",
      [](Tensors& t) {
        return ops::AbsMax{t.in({300001}, DType::bf16), t.inout({1}, DType::f32, 0, 2)};
      },
      kEqual);
  for (const Shape& s : {Shape{16, 16}, {48, 80}, {144, 272}})
    cases.add(
        fmt::format("{} after the Hadamard transform", label(DType::bf16, s)),
        [=](Tensors& t) {
          const Tensor amax = s[0] == 48 ? Tensor() : t.inout({1}, DType::f32, 0, 0.1);
          return ops::AbsMax{t.in(s, DType::bf16), amax, t.inout({1}, DType::f32, 0, 0.1)};
        },
        Within{.cpu = {1e-6, 1e-6}, .kernel = {1e-6, 1e-6}});
  cases.timed("ffn", [](Tensors& t) { return ops::AbsMax{t.in(kFfn, DType::bf16), t.inout({1}, DType::f32)}; });
  cases.huge("ffn", [](Tensors& t) { return ops::AbsMax{t.in(kHugeFfn, DType::bf16), t.inout({1}, DType::f32)}; });
});

const Cases<ops::Fp8Scale> cases_of_fp8_scale(reference, [](CaseList<ops::Fp8Scale>& cases) {
  for (const DType type : kFp8)
    cases.add(
        std::string(name_of(type)),
        [=](Tensors& t) {
          return ops::Fp8Scale{t.values({5}, DType::f32, {0, 1, 448, 1e-6, 3e4}), t.out({5}), t.out({5}), type};
        },
        kEqual);
  // In the maxima's place, as blocks of a weight have them.
  cases.add(
      "powers of two, in place",
      [](Tensors& t) {
        const Tensor amax = t.values({5}, DType::f32, {0, 1, 448, 1e-6, 3e4});
        return ops::Fp8Scale{amax, t.over({amax}), t.out({5}), DType::e4m3, true};
      },
      kEqual);
  const auto one = [](Tensors& t) { return ops::Fp8Scale{t.in({1}, DType::f32, 1, 2), t.out({1}), t.out({1})}; };
  cases.timed("one", one);
  cases.huge("one", one);
});

const Cases<ops::UpdateScales> cases_of_update_scales(reference, [](CaseList<ops::UpdateScales>& cases) {
  for (const auto& [steps, n, row] : {std::array<std::int64_t, 3>{1, 1, 0}, {5, 33, 4}, {1024, 12, 700}})
    cases.add(
        fmt::format("{} tensors, step {} of {}", n, row, steps), [=](Tensors& t) { return update(t, steps, n, row); },
        kEqual);
  cases.add(
      "step 7 of 5, which the device has",
      [](Tensors& t) {
        ops::UpdateScales op = update(t, 5, 33, 2);
        op.row = 4, op.step = t.values({1}, DType::i64, {7});
        return op;
      },
      kEqual);
  cases.add(
      "tensors that were never seen", [](Tensors& t) { return update(t, 3, 2, 1, 0); }, kEqual);
  cases.timed("96 layers", [](Tensors& t) { return update(t, 1024, 1152, 0); });
  cases.huge("128 layers of experts", [](Tensors& t) { return update(t, 1024, 1 << 16, 0); });
});

const Cases<ops::Quantise> cases_of_quantise(reference, [](CaseList<ops::Quantise>& cases) {
  for_types_and(kMatrices, [&](DType from, const Shape& s) {
    for (const DType to : kFp8)
      for (const int ways : {1, 2, 3})
        cases.add(
            fmt::format("{} to {}, ways {}", label(from, s), name_of(to), ways),
            [=](Tensors& t) { return quantise(t, s, from, to, ways & 1, ways & 2, ways != 1); }, kEqual);
  });
  // Each value there is comes back as itself.
  for (const DType to : kFp8)
    cases.add(
        fmt::format("all values of {}", name_of(to)),
        [=](Tensors& t) {
          Values all;
          for (int code = 0; code < 256; ++code) {
            const auto bits = static_cast<std::uint8_t>(code);
            const float value = to == DType::e4m3 ? fp8_to_float<e4m3>(bits) : fp8_to_float<e5m2>(bits);
            all.push_back(std::isfinite(value) ? value : largest(to));
          }
          ops::Quantise op;
          op.x = t.values({16, 16}, DType::f32, all), op.scale = t.values({1}, DType::f32, {1});
          op.y = t.out({16, 16}, to), op.transposed = t.out({16, 16}, to);
          return op;
        },
        kEqual);
  cases.unemulated(
      "[300, 1100]",
      [](Tensors& t) {
        return quantise(t, {300, 1100}, DType::bf16, DType::e4m3, true, true, true);
      },
      kEqual);
  cases.timed("ffn", [](Tensors& t) {
    return quantise(t, {kBenchTokens, kBenchFfn}, DType::bf16, DType::e4m3, true, true, true);
  });
  cases.huge("ffn", [](Tensors& t) {
    return quantise(t, {1 << 19, 49152}, DType::bf16, DType::e4m3, true, true, true);
  });
});

const Cases<ops::QuantiseBlocks> cases_of_quantise_blocks(reference, [](CaseList<ops::QuantiseBlocks>& cases) {
  for_types_and(kMatrices, [&](DType from, const Shape& s) {
    for (const auto& [by, what] : kBlocks)
      for (const int ways : {1, 2, 3})
        cases.add(
            fmt::format("{} by {}, ways {}", label(from, s), what, ways),
            [=](Tensors& t) { return blocks(t, s, from, by, ways & 1, ways & 2); }, kEqual);
  });
  for (const Shape& s : {Shape{16, 32}, {32, 64}, {144, 272}})
    for (const auto by : {ops::Fp8Blocks::nv, ops::Fp8Blocks::nv_squares})
      for (const int ways : {1, 2, 3})
        for (const bool draws : {false, true}) {
          const bool squares = by == ops::Fp8Blocks::nv_squares;
          if (squares && draws) continue;
          cases.add(fmt::format("{} of NVFP4 by {}, ways {}{}", label(DType::bf16, s), squares ? "16 x 16" : "1 x 16",
                                ways, draws ? ", rounded at random" : ""),
                    [=](Tensors& t) {
                      return nvfp4(t, s, DType::bf16, by, ways & 1, ways & 2, !squares && ways & 2, draws);
                    });
        }
  cases.add("f32 of NVFP4", [](Tensors& t) {
    return nvfp4(t, {48, 96}, DType::f32, ops::Fp8Blocks::nv, true, true, true, true);
  });
  // Largest values that are powers of two times 448, where the scale is just enough, and just beyond; zeros; tiny ones.
  cases.add(
      "mx, ends of the scales",
      [](Tensors& t) {
        ops::QuantiseBlocks op;
        op.by = ops::Fp8Blocks::mx;
        Values x(32 * 64, 0.25);
        for (std::size_t row = 0; row < 32; ++row) {
          const double most[] = {448, 449, 0.4375, 0, 1e-30, 1e30, 896, 3};
          x[row * 64 + row] = most[row % 8] * (row % 2 == 0 ? 1 : -1);
          for (std::size_t i = 32; i < 64; ++i) x[row * 64 + i] = row % 3 == 0 ? 0 : 1e-38;
        }
        op.x = t.values({32, 64}, DType::f32, x);
        op.y = t.out({32, 64}, DType::e4m3), op.inverse = t.out(op.scales_of(32, 64, op.by), DType::u8);
        op.transposed = t.out({64, 32}, DType::e4m3);
        op.transposed_inverse = t.out(op.scales_of(64, 32, op.by), DType::u8);
        return op;
      },
      kEqual);
  for (const auto by : {ops::Fp8Blocks::rows, ops::Fp8Blocks::mx})
    cases.timed(by == ops::Fp8Blocks::mx ? "ffn, mx" : "ffn", [=](Tensors& t) {
      return blocks(t, {kBenchTokens, kBenchFfn}, DType::bf16, by, true, true);
    });
  for (const auto by : {ops::Fp8Blocks::rows, ops::Fp8Blocks::mx})
    cases.huge(by == ops::Fp8Blocks::mx ? "ffn, mx" : "ffn", [=](Tensors& t) {
      return blocks(t, {1 << 19, 49152}, DType::bf16, by, true, true);
    });
});

const Cases<ops::Fp8Transpose> cases_of_fp8_transpose(reference, [](CaseList<ops::Fp8Transpose>& cases) {
  for (const Shape& s : kMatrices)
    for (const DType type : kFp8)
      cases.add(label(type, s), [=](Tensors& t) {
        return ops::Fp8Transpose{t.in(s, type), t.out({s[1], s[0]}, type)};
      });
  cases.timed("ffn", [](Tensors& t) {
    return ops::Fp8Transpose{t.in({kBenchTokens, kBenchFfn}, DType::e4m3),
                             t.out({kBenchFfn, kBenchTokens}, DType::e4m3)};
  });
  cases.huge("ffn", [](Tensors& t) {
    return ops::Fp8Transpose{t.in({1 << 19, 49152}, DType::e4m3), t.out({49152, 1 << 19}, DType::e4m3)};
  });
});

}  // namespace
}  // namespace mbench::test
