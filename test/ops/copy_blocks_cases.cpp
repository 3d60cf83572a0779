#include "engine/ops/copy_blocks.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::Matrix;

void reference(const ops::CopyBlocks& op, Doubles& v) {
  const Values& from = v[op.from.data];
  Values& to = v.out(op.to.data);
  const auto at = [](const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
    return static_cast<std::size_t>(m.offset + i * m.batch_stride + r * m.ld + c);
  };
  for (std::int64_t i = 0; i < op.batch; ++i)
    for (std::int64_t r = 0; r < op.from.rows; ++r)
      for (std::int64_t c = 0; c < op.from.cols; ++c) to[at(op.to, i, r, c)] = from[at(op.from, i, r, c)];
}

// Blocks one behind the other, and side by side; `gap` elements lie between and before those that are side by side.
struct Form {
  std::int64_t blocks, rows, cols, gap = 0;
};
Matrix behind(const Tensor& t, const Form& f) {
  return {t, f.rows, f.cols, f.cols, 0, f.rows * f.cols};
}
Matrix beside(const Tensor& t, const Form& f) {
  const std::int64_t width = f.cols + f.gap;
  return {t, f.rows, f.cols, f.blocks * width, f.gap, width};
}
std::int64_t length(const Form& f, bool gaps) {
  return f.blocks * f.rows * (f.cols + (gaps ? f.gap : 0));
}

ops::CopyBlocks join(Tensors& t, const Form& f, DType type) {
  const Tensor from = t.in({length(f, false)}, type);
  // What lies in the gaps stays as it is: a result that held something before.
  const Tensor to = f.gap > 0 ? t.inout({length(f, true)}, type) : t.out({length(f, true)}, type);
  return {behind(from, f), beside(to, f), f.blocks};
}

ops::CopyBlocks part(Tensors& t, const Form& f, DType type) {
  const Tensor from = t.in({length(f, true)}, type);
  return {beside(from, f), behind(t.out({length(f, false)}, type), f), f.blocks};
}

const Cases<ops::CopyBlocks> copy_blocks(reference, [](CaseList<ops::CopyBlocks>& cases) {
  const Form forms[] = {{1, 1, 1}, {2, 3, 5}, {4, 7, 33}, {3, 5, 32}, {2, 9, 64}, {2, 3, 24, 8}, {3, 4, 16, 3}};
  for_types_and(forms, [&](DType type, const Form& f) {
    const std::string name =
        fmt::format("{} {} blocks of {} x {}, gaps {}", name_of(type), f.blocks, f.rows, f.cols, f.gap);
    cases.add(name + " joined", [=](Tensors& t) { return join(t, f, type); }, {.cpu = kExact, .kernel = kExact});
    cases.add(name + " parted", [=](Tensors& t) { return part(t, f, type); }, {.cpu = kExact, .kernel = kExact});
  });
  for (const DType type : {DType::e4m3, DType::u8})
    for (const Form& f : {Form{2, 3, 5}, {4, 2, 48}, {2, 3, 512, 16}})
      cases.add(fmt::format("{} {} blocks of {} x {}, joined", name_of(type), f.blocks, f.rows, f.cols),
                [=](Tensors& t) { return join(t, f, type); }, {.cpu = kExact, .kernel = kExact});
  cases.timed("hidden in 4", [](Tensors& t) { return join(t, {4, 1024, 256}, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return join(t, {4, 64, 64}, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) { return join(t, {8, 65536 * 8, 12288 / 8}, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
