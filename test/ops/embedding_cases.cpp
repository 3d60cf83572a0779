#include "engine/ops/embedding.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// f(row of the result, row of the table) for every id that is of this shard.
template <class F>
void for_local(const Values& ids, std::int64_t first, std::int64_t rows, F&& f) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(ids[i]) - first;
    if (row >= 0 && row < rows) f(static_cast<std::int64_t>(i), row);
  }
}

void reference(const ops::Embedding& op, Doubles& v) {
  const Values& table = v[op.table];
  Values& y = v.out(op.y);
  const std::int64_t n = op.table.shape().cols();
  if (!op.accumulate) y.assign(y.size(), 0);
  for_local(v[op.ids], op.first_row, op.table.shape().rows(), [&](std::int64_t i, std::int64_t row) {
    for (std::int64_t j = 0; j < n; ++j) y[i * n + j] += table[row * n + j];
  });
}

struct Sizes {
  std::int64_t ids, words, rows, first,
      width;  // ids of [0, words), of which this shard has `rows` from `first` on
};

ops::Embedding make(Tensors& t, const Sizes& z, DType type, bool accumulate) {
  const Tensor ids = t.ids({z.ids}, z.words), table = t.in({z.rows, z.width}, type);
  const Shape shape{z.ids, z.width};
  return {ids, table, accumulate ? t.inout(shape, type) : t.out(shape, type), z.first, accumulate};
}

void reference(const ops::EmbeddingGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dtable = v.out(op.dtable);
  const std::int64_t n = op.dtable.shape().cols();
  for_local(v[op.ids], op.first_row, op.dtable.shape().rows(), [&](std::int64_t i, std::int64_t row) {
    for (std::int64_t j = 0; j < n; ++j) dtable[row * n + j] += dy[i * n + j];
  });
}

ops::EmbeddingGrad make_grad(Tensors& t, const Sizes& z, DType type, DType sum) {
  const Tensor ids = t.ids({z.ids}, z.words), dy = t.in({z.ids, z.width}, type);
  return {ids, dy, t.inout({z.rows, z.width}, sum), z.first};
}

constexpr std::int64_t kWidths[] = {1, 3, 31, 33, 256, 1027};
constexpr Sizes kBench{kBenchTokens, kBenchWords, kBenchVocabulary, 0, kBenchWidth};
constexpr Sizes kHugeSizes{524288, 50257, 50304, 0, 12288};

const Cases<ops::Embedding> embedding(reference, [](CaseList<ops::Embedding>& cases) {
  for (const bool accumulate : {false, true}) {
    const std::string how = accumulate ? " added" : "";
    const Within within{.cpu = {accumulate ? 1e-7 : 0, accumulate ? 1e-6 : 0}, .kernel = kExact};
    for_types_and(kWidths, [&](DType type, std::int64_t n) {
      cases.add(
          label(type, {15, n}) + how,
          [=](Tensors& t) {
            return make(t, {15, 40, 20, 6, n}, type, accumulate);
          },
          within);
    });
    for_types_and(std::vector<std::int64_t>{8, 1024}, [&](DType type, std::int64_t n) {
      cases.unemulated(
          label(type, {35, n}) + how,
          [=](Tensors& t) {
            return make(t, {35, 100, 60, 20, n}, type, accumulate);
          },
          within);
    });
  }
  cases.gradient(
      "[15, 3]",
      [](Tensors& t) {
        return make(t, {15, 40, 20, 6, 3}, DType::f32, false);
      },
      [](Tensors& t, const ops::Embedding& op) {
        const ops::EmbeddingGrad grad{op.ids, t.in(op.y.shape(), DType::f32), t.inout(op.table.shape(), DType::f32),
                                      op.first_row};
        return Backward{grad, {op.y, grad.dy, {{op.table, grad.dtable}}}};
      });
  cases.timed("hidden", [](Tensors& t) { return make(t, kBench, DType::f32, false); });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeSizes, DType::bf16, false); });
});

const Cases<ops::EmbeddingGrad> embedding_grad(reference, [](CaseList<ops::EmbeddingGrad>& cases) {
  const auto add = [&](DType type, DType sum, const Sizes& z, bool emulated) {
    // A 16-bit sum is rounded after every row that is added: on the CPU, and in the kernel once.
    const double rounds = sum == DType::f32 ? 1 : static_cast<double>(z.ids) / 2;
    const double error = 2 * rounds * epsilon(sum);
    const Within within{
        .cpu = {sum == DType::f32 ? 1e-4 : error}, .kernel = {sum == DType::f32 ? 1e-5 : error, 1e-6}, .gpu = 4};
    const std::string name = fmt::format("{} into {} [{}, {}] of {} words", label(type, {z.ids, z.width}), name_of(sum),
                                         z.rows, z.width, z.words);
    const auto made = [=](Tensors& t) { return make_grad(t, z, type, sum); };
    emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
  };
  for (const DType type : kFloatTypes)
    for (const DType sum : sum_types(type)) {
      for (const std::int64_t n : kWidths)
        for (const std::int64_t ids : {1, 40}) {
          add(type, sum, {ids, 50, 30, 5, n}, true);  // a small table
          add(type, sum, {ids, 100, 70, 5, n}, true);
        }
      if (type != DType::f16) {
        add(type, sum, {600, 100, 70, 5, 33}, true);
        for (const std::int64_t n : {33, 256}) add(type, sum, {600, 2, 2, 0, n}, true);  // token types
        for (const std::int64_t n : {33, 64}) add(type, sum, {600, 3, 70, 0, n}, true);  // ids that fill several runs
        add(type, sum, {2100, 1300, 1200, 5, 8}, true);  // two passes of the sort, by more than one block
      }
      for (const std::int64_t n : {3, 300}) add(type, sum, {200, 13, 9, 2, n}, false);
      for (const std::int64_t n : {8, 1024}) add(type, sum, {350, 100, 60, 20, n}, false);
    }
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kBench, DType::f32, DType::f32); });
  cases.timed("token types", [](Tensors& t) {
    return make_grad(t, {kBenchTokens, 2, 2, 0, kBenchWidth}, DType::f32, DType::f32);
  });
  cases.huge("hidden", [](Tensors& t) { return make_grad(t, kHugeSizes, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
