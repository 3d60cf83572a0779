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

void reference(const ops::AbsMax& op, Doubles& v) {
  double& amax = v.out(op.amax)[0];
  amax = std::max(amax, abs_max(v[op.x]));
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
    history[static_cast<std::size_t>(op.row) * n + i] = amax[i];
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

// Elements of an operand whose inner dim is `inner` long and that stand at (outer, inner) = place(i).
template <class Place>
void quantise_operand(const Values& x, DType type, std::size_t outer, std::size_t inner, bool squares, Place place,
                      Values& codes, Values& inverse) {
  const std::size_t across = (inner + 511) / 512 * 4;  // of squares, with the room behind them
  const auto block = [&](std::size_t o, std::size_t i) {
    return squares ? o / 128 * across + i / 128 : i / 128 * outer + o;
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
  if (op.y)
    quantise_operand(
        v[op.x], op.y.dtype(), rows, cols, op.squares,
        [=](std::size_t i) {
          return At{i / cols, i % cols};
        },
        v.out(op.y), v.out(op.inverse));
  if (op.transposed)
    quantise_operand(
        v[op.x], op.transposed.dtype(), cols, rows, op.squares,
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
constexpr DType kFp8[] = {DType::e4m3, DType::e5m2};

ops::Quantise quantise(Tensors& t, const Shape& s, DType from, DType to, bool straight, bool turned, bool amax) {
  ops::Quantise op;
  op.x = t.in(s, from, -3, 3), op.scale = t.values({1}, DType::f32, {to == DType::e4m3 ? 170.0 : 11000.0});
  if (straight) op.y = t.out(s, to);
  if (turned) op.transposed = t.out({s[1], s[0]}, to);
  if (amax) op.amax = t.inout({1}, DType::f32, 0, 1);
  return op;
}

ops::QuantiseBlocks blocks(Tensors& t, const Shape& s, DType from, bool squares, bool straight, bool turned) {
  ops::QuantiseBlocks op;
  op.x = t.in(s, from, -3, 3), op.squares = squares;
  if (straight) {
    op.y = t.out(s, DType::e4m3);
    op.inverse = t.out(op.scales_of(s[0], s[1], squares));
  }
  if (turned) {
    op.transposed = t.out({s[1], s[0]}, DType::e4m3);
    op.transposed_inverse = t.out(op.scales_of(s[1], s[0], squares));
  }
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
    for (const bool squares : {false, true})
      for (const int ways : {1, 2, 3})
        cases.add(
            fmt::format("{} by {}, ways {}", label(from, s), squares ? "128 x 128" : "1 x 128", ways),
            [=](Tensors& t) { return blocks(t, s, from, squares, ways & 1, ways & 2); }, kEqual);
  });
  cases.timed("ffn", [](Tensors& t) { return blocks(t, {kBenchTokens, kBenchFfn}, DType::bf16, false, true, true); });
  cases.huge("ffn", [](Tensors& t) { return blocks(t, {1 << 19, 49152}, DType::bf16, false, true, true); });
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
