#include "engine/ops/nf4.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// The nearest of so many values by looking at all of them, the lower of two that are as near.
template <class Value>
std::size_t nearest(std::size_t count, Value&& value, double x) {
  std::size_t best = 0;
  for (std::size_t code = 1; code < count; ++code)
    if (std::fabs(value(code) - x) < std::fabs(value(best) - x)) best = code;
  return best;
}
double nf4(std::size_t code) {
  return static_cast<double>(ops::nf4_value(static_cast<int>(code)));
}
double dynamic(std::size_t code) {
  return static_cast<double>(ops::dynamic_value(true, static_cast<int>(code)));
}
std::size_t code_at(const Values& codes, std::size_t i) {
  const auto byte = static_cast<std::size_t>(codes[i / 2]);
  return i % 2 == 0 ? byte / 16 : byte % 16;
}

// Gives `keep` each value by its index, less the mean and over the largest of its block. Those are kept too.
template <class Keep>
void normalise(const Values& x, std::size_t size, double mean, Values& largest, Keep&& keep) {
  for (std::size_t block = 0; block < largest.size(); ++block) {
    const std::size_t begin = block * size, end = std::min(x.size(), begin + size);
    double most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(x[i] - mean));
    for (std::size_t i = begin; i < end; ++i) keep(i, most > 0 ? (x[i] - mean) / most : 0);
    largest[block] = most;
  }
}

void reference(const ops::QuantiseNf4& op, Doubles& v) {
  Values& codes = v.out(op.codes);
  std::fill(codes.begin(), codes.end(), 0.0);
  normalise(v[op.x], 64, 0, v.out(op.scales), [&](std::size_t i, double value) {
    codes[i / 2] += static_cast<double>(nearest(16, nf4, value)) * (i % 2 == 0 ? 16 : 1);
  });
}

void reference(const ops::DequantiseNf4& op, Doubles& v) {
  const Values &codes = v[op.codes], &scales = v[op.scales];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = nf4(code_at(codes, i)) * scales[i / 64];
}

void reference(const ops::QuantiseScales& op, Doubles& v) {
  const Values& scales = v[op.scales];
  Values &codes = v.out(op.codes), &mean = v.out(op.mean);
  mean[0] = std::accumulate(scales.begin(), scales.end(), 0.0) / static_cast<double>(scales.size());
  normalise(scales, 256, mean[0], v.out(op.most),
            [&](std::size_t i, double value) { codes[i] = static_cast<double>(nearest(256, dynamic, value)); });
}

// Of a part's scale, its place among those of the whole matrix.
std::size_t place(const ops::DequantiseScales& op, std::size_t i) {
  if (op.row == 0) return i;
  const auto row = static_cast<std::size_t>(op.row);
  return static_cast<std::size_t>(op.first) + (i / row) * static_cast<std::size_t>(op.stride) + i % row;
}

void reference(const ops::DequantiseScales& op, Doubles& v) {
  const Values &codes = v[op.codes], &most = v[op.most], &mean = v[op.mean];
  Values& scales = v.out(op.scales);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = dynamic(static_cast<std::size_t>(codes[i])) * most[place(op, i) / 256] + mean[0];
}

constexpr std::int64_t kMany = 100000;  // from here on nobody looks at the values

Tensor codes(Tensors& t, std::int64_t n) {
  if (n > kMany) return t.out({n}, DType::u8);
  Values drawn = uniform(n, 0, 256, 1);
  for (double& x : drawn) x = std::floor(x);
  return t.values({n}, DType::u8, drawn);
}

ops::QuantiseNf4 quantise(Tensors& t, std::int64_t n, DType type, double most = 1) {
  return {t.in({n}, type, -most, most), t.out({ops::nf4_bytes(n)}, DType::u8), t.out({ops::nf4_blocks(n)})};
}
ops::DequantiseNf4 dequantise(Tensors& t, std::int64_t n, DType type) {
  return {codes(t, ops::nf4_bytes(n)), t.in({ops::nf4_blocks(n)}, DType::f32, 0.5, 1), t.out({n}, type)};
}
ops::QuantiseScales quantise_scales(Tensors& t, std::int64_t n, double least = 0.25) {
  return {t.in({n}, DType::f32, least, 1), t.out({n}, DType::u8), t.out({ops::scales_blocks(n)}), t.out({1})};
}
// Rows of a matrix of scales [rows, stride], from its row and column `first` on.
ops::DequantiseScales dequantise_part(Tensors& t, std::int64_t rows, std::int64_t row, std::int64_t stride,
                                      std::int64_t first) {
  const std::int64_t blocks = ops::scales_blocks(first / stride * stride + rows * stride);
  return {codes(t, rows * row),
          t.in({blocks}, DType::f32, 0.5, 1),
          t.in({1}, DType::f32, 0.5, 1),
          t.out({rows * row}),
          row,
          stride,
          first};
}
ops::DequantiseScales dequantise_scales(Tensors& t, std::int64_t n) {
  return {codes(t, n), t.in({ops::scales_blocks(n)}, DType::f32, 0.5, 1), t.in({1}, DType::f32, 0.5, 1), t.out({n})};
}

const std::vector<std::int64_t> kSizes = {1, 2, 63, 64, 65, 128, 1027};

const Cases<ops::QuantiseNf4> quantise_nf4(reference, [](CaseList<ops::QuantiseNf4>& cases) {
  const Within exact{.kernel = kExact};
  for (const DType type : kFloatTypes)
    for (const std::int64_t n : kSizes)
      cases.add(
          fmt::format("{} [{}]", name_of(type), n), [=](Tensors& t) { return quantise(t, n, type); }, exact);
  cases.add(
      "of zeros", [](Tensors& t) { return quantise(t, 200, DType::bf16, 0); }, exact);
  cases.unemulated(
      "[20001]", [](Tensors& t) { return quantise(t, 20001, DType::bf16); }, exact);
  cases.timed("16 Mi", [](Tensors& t) { return quantise(t, 16 << 20, DType::f32); });
  cases.huge("8 Gi", [](Tensors& t) { return quantise(t, std::int64_t{8} << 30, DType::bf16); });
});

const Cases<ops::DequantiseNf4> dequantise_nf4(reference, [](CaseList<ops::DequantiseNf4>& cases) {
  const Within exact{.kernel = kExact};
  for (const DType type : kFloatTypes)
    for (const std::int64_t n : kSizes)
      cases.add(
          fmt::format("{} [{}]", name_of(type), n), [=](Tensors& t) { return dequantise(t, n, type); }, exact);
  cases.unemulated(
      "[20001]", [](Tensors& t) { return dequantise(t, 20001, DType::bf16); }, exact);
  cases.timed("16 Mi", [](Tensors& t) { return dequantise(t, 16 << 20, DType::bf16); });
  cases.enqueued(1, [](Tensors& t) { return dequantise(t, 4096, DType::bf16); });
  cases.huge("8 Gi", [](Tensors& t) { return dequantise(t, std::int64_t{8} << 30, DType::bf16); });
});

// A mean that is summed in another order is off by a rounding, and so are numbers less it.
const Cases<ops::QuantiseScales> quantise_scales_cases(reference, [](CaseList<ops::QuantiseScales>& cases) {
  const Within within{.cpu = {2e-6}, .kernel = {2e-6}};
  for (const std::int64_t n : {1, 255, 256, 1027})
    cases.add(
        fmt::format("[{}]", n), [=](Tensors& t) { return quantise_scales(t, n); }, within);
  cases.add(
      "all the same", [](Tensors& t) { return quantise_scales(t, 300, 1); }, within);
  cases.unemulated(
      "[20000]", [](Tensors& t) { return quantise_scales(t, 20000); }, within);
  cases.timed("1 Mi", [](Tensors& t) { return quantise_scales(t, 1 << 20); });
  cases.huge("8 Gi", [](Tensors& t) { return quantise_scales(t, std::int64_t{8} << 30); });
});

const Cases<ops::DequantiseScales> dequantise_scales_cases(reference, [](CaseList<ops::DequantiseScales>& cases) {
  for (const std::int64_t n : {1, 255, 256, 1027})
    cases.add(fmt::format("[{}]", n), [=](Tensors& t) { return dequantise_scales(t, n); });
  cases.add("columns of a matrix", [](Tensors& t) { return dequantise_part(t, 120, 3, 7, 7 * 5 + 2); });
  cases.add("rows of a matrix", [](Tensors& t) { return dequantise_part(t, 90, 5, 5, 5 * 101); });
  cases.unemulated("[20000]", [](Tensors& t) { return dequantise_scales(t, 20000); });
  cases.timed("1 Mi", [](Tensors& t) { return dequantise_scales(t, 1 << 20); });
  cases.enqueued(1, [](Tensors& t) { return dequantise_scales(t, 4096); });
  cases.huge("8 Gi", [](Tensors& t) { return dequantise_scales(t, std::int64_t{8} << 30); });
});

}  // namespace
}  // namespace mbench::test
