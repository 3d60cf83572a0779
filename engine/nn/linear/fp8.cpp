#include "engine/nn/linear/fp8.h"

#include "engine/nn/state/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"
#include "engine/point/statistics.h"

namespace mbench::nn {
namespace {

// Where a tensor's figures have the inverse of its scale: cuBLASLt takes scales at multiples of 16 bytes.
constexpr std::int64_t kInverse = 4;

// The same codes for GEMMs along their rows.
ops::Fp8Operand as_turned(ops::Fp8Operand x) {
  x.turned = true;
  return x;
}

}  // namespace

void ScaleHistory::allocate(Device& device) {
  for (OfType& t : types_) {
    if (t.count == 0) continue;
    const auto make = [&](const Shape& shape, float value, std::string_view what) {
      const Tensor made = device.empty(shape, DType::f32, Category::other, what);
      run(device, ops::Fill{made, value});
      return made;
    };
    t.amax = make({t.count}, 0, "largest values of FP8 tensors");
    t.scale = make({t.count}, 1, "scales of FP8 tensors");
    t.inverse = make({t.count}, 1, "inverses of FP8 scales");
    t.history = make({kSteps, t.count}, 0, "history of the largest values");
  }
}

void ScaleHistory::end_step(Device& device, const Groups& groups, std::int64_t step, const Tensor& on_device) {
  for (OfType& t : types_) {
    if (t.count == 0) continue;
    groups.over({Axis::tp}).run(comm::AllReduce{t.amax, comm::ReduceOp::max});
    groups.over(Axes{Axis::cp} | kBatchAxes).run(comm::AllReduce{t.amax, comm::ReduceOp::max});
    run(device, ops::UpdateScales{t.amax, t.history, t.scale, t.inverse, step % kSteps,
                                  &t == &types_[0] ? DType::e4m3 : DType::e5m2, on_device});
  }
}

Fp8Gemms::Fp8Gemms(ParameterStore& store, Parameter& weight, const Plan& plan)
    : recipe_(*plan.precision.fp8),
      sharded_(plan.state.weights.sharded()),
      frees_transposed_(plan.keeps().fp8_transposes_freed),
      turns_(plan.precision.turned_fp8 && !plan.keeps().transposed_fp8 && !of_blocks(recipe_)),
      scales_(&store.scales()),
      weight_(&weight),
      parameters_(&store.fp8(weight)) {
  if (recipe_ == Fp8Recipe::delayed)
    for (const Operand operand : {kInput, kWeight, kGradient}) slots_[operand] = scales_->add(type_of(operand));
  if (plan.precision.fp8_parameters) store.keep_in_fp8(weight, slots_[kWeight]);
}

DType Fp8Gemms::type_of(Operand operand) const {
  return operand == kGradient && !of_blocks(recipe_) ? DType::e5m2 : DType::e4m3;
}

ops::Fp8Blocks Fp8Gemms::blocks_of(Operand operand) const {
  switch (recipe_) {
    case Fp8Recipe::blockwise:
      return operand == kWeight ? ops::Fp8Blocks::squares : ops::Fp8Blocks::rows;
    case Fp8Recipe::rowwise:
      return ops::Fp8Blocks::whole_rows;
    case Fp8Recipe::mxfp8:
      return ops::Fp8Blocks::mx;
    case Fp8Recipe::nvfp4:
      return operand == kWeight ? ops::Fp8Blocks::nv_squares : ops::Fp8Blocks::nv;
    default:
      return ops::Fp8Blocks::tensor;
  }
}

void Fp8Gemms::prepare_nvfp4(Context& c, Operand operand, Fp8Tensor& q, ops::QuantiseBlocks& op,
                             const std::vector<Axis>& parts_of) const {
  op.hadamard = operand != kWeight && op.transposed;
  if (!q.figures)
    q.figures = c.device.empty({2}, DType::f32, operand == kWeight ? Category::weights : Category::activations,
                               "largest values of an NVFP4 tensor");
  if (op.y || operand == kWeight) q.straight.amax = q.figures.slice(0, 1);
  if (op.transposed) q.transposed.amax = operand == kWeight ? q.straight.amax : q.figures.slice(1, 1);
  run(c.device, ops::Fill{q.figures, 0});
  run(c.device, ops::AbsMax{op.x, q.straight.amax, op.hadamard ? q.transposed.amax : Tensor()});
  for (const Axis axis : parts_of) c.groups.over({axis}).run(comm::AllReduce{q.figures, comm::ReduceOp::max});
  op.amax = q.straight.amax, op.transposed_amax = q.transposed.amax;
  if (operand != kGradient) return;
  constexpr std::uint64_t kOdd = 0xD1B54A32D192ED03u;  // spreads the count over the bits of a site
  op.rounding =
      ops::RandomRounding{{c.plan.training.seed, site_of(weight_->name() + " rounding") + kOdd * c.roundings++,
                           static_cast<std::uint32_t>(c.step)},
                          c.step_on_device};
}

Fp8Tensor Fp8Gemms::quantise(Context& c, Operand operand, const Tensor& x, Fp8Ways ways, Fp8Tensor q,
                             const std::vector<Axis>& parts_of) const {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  const ops::Fp8Blocks by = blocks_of(operand);
  const Category category = operand == kWeight ? Category::weights : Category::activations;
  const auto make = [&](Tensor& t, const Shape& shape, DType type, std::string_view what) {
    if (!t) t = c.device.empty(shape, type, category, what);
  };
  const auto open = [&](ops::Fp8Operand& side, std::int64_t outer, std::int64_t inner, std::string_view what) {
    side.blocks = by;
    if (by == ops::Fp8Blocks::tensor) return make(side.codes, {outer, inner}, type_of(operand), what);
    make(side.codes, ops::QuantiseBlocks::codes_of(outer, inner, by), ops::QuantiseBlocks::code_type(by), what);
    make(side.inverse, ops::QuantiseBlocks::scales_of(outer, inner, by), ops::QuantiseBlocks::scale_type(by),
         "scales of FP8 blocks");
  };
  if (turns_ || ways != Fp8Ways::transposed) open(q.straight, rows, cols, "FP8 operand");
  if (!turns_ && ways != Fp8Ways::straight) open(q.transposed, cols, rows, "transposed FP8 operand");
  if (by != ops::Fp8Blocks::tensor) {
    ops::QuantiseBlocks op{x,  q.straight.codes, q.straight.inverse, q.transposed.codes, q.transposed.inverse,
                           by, q.straight.amax,  q.transposed.amax};
    if (ops::of_nvfp4(by)) prepare_nvfp4(c, operand, q, op, parts_of);
    run(c.device, op);
    return q;
  }
  Tensor scale, inverse, amax;
  if (recipe_ == Fp8Recipe::delayed) {
    const DType type = type_of(operand);
    const int slot = slots_[operand];
    scale = scales_->scale(type, slot), inverse = scales_->inverse(type, slot), amax = scales_->amax(type, slot);
  } else {
    make(q.figures, {kInverse + 1}, DType::f32, "scale of an FP8 tensor");
    const Tensor most = q.figures.slice(0, 1);
    scale = q.figures.slice(1, 1), inverse = q.figures.slice(kInverse, 1);
    run(c.device, ops::Fill{most, 0});
    run(c.device, ops::AbsMax{x, most});
    for (const Axis axis : parts_of) c.groups.over({axis}).run(comm::AllReduce{most, comm::ReduceOp::max});
    run(c.device, ops::Fp8Scale{most, scale, inverse, type_of(operand)});
  }
  run(c.device, ops::Quantise{x, scale, q.straight.codes, turns_ ? Tensor() : q.transposed.codes, amax});
  q.straight.inverse = q.transposed.inverse = inverse;
  if (!turns_) return q;
  if (ways != Fp8Ways::straight) q.transposed = as_turned(q.straight);
  if (ways == Fp8Ways::transposed) q.straight = {};
  return q;
}

namespace {

// A weight the other way round, with the scales of its blocks, into the tensors that `into` has, or new ones.
ops::Fp8Operand transposed_of(Context& c, const ops::Fp8Operand& w, ops::Fp8Operand into) {
  const std::int64_t rows = w.codes.shape()[0], cols = w.codes.shape()[1];
  const auto make = [&](Tensor& t, const Shape& shape, DType type, std::string_view what) {
    if (!t) t = c.device.empty(shape, type, Category::weights, what);
  };
  make(into.codes, {cols, rows}, w.codes.dtype(), "transposed FP8 operand");
  run(c.device, ops::Fp8Transpose{w.codes, into.codes});
  into.blocks = w.blocks;
  if (w.blocks == ops::Fp8Blocks::tensor) {
    into.inverse = w.inverse;
    return into;
  }
  const std::int64_t down = ops::QuantiseBlocks::blocks(rows), across = ops::QuantiseBlocks::blocks(cols);
  make(into.inverse, ops::QuantiseBlocks::scales_of(cols, rows, w.blocks), DType::f32, "scales of FP8 blocks");
  // Column by column.
  run(c.device, ops::CopyBlocks{ops::Matrix(w.inverse, down, 1, w.inverse.shape()[1], 0, 1),
                                ops::Matrix(into.inverse, down, 1, 1, 0, into.inverse.shape()[1]), across});
  return into;
}

}  // namespace

Fp8Tensor Fp8Gemms::input(Context& c, const Tensor& x, Fp8Ways ways, const std::vector<Axis>& parts_of) const {
  return quantise(c, kInput, x, ways, {}, parts_of);
}

namespace {

// Rows of an input that share scales, 32 of them: how many numbers these are in the transposed side; 0: rows share none.
std::int64_t scales_of_32_rows(std::int64_t cols, ops::Fp8Blocks by) {
  if (by == ops::Fp8Blocks::tensor || by == ops::Fp8Blocks::whole_rows) return 0;
  constexpr std::int64_t kRows = ops::QuantiseBlocks::kBlock;
  return ops::QuantiseBlocks::scales_of(cols, kRows, by).numel() / (kRows / 32);
}

}  // namespace

// Each part's scales are of whole blocks, of 128 rows at most.
Fp8Gemms::Together Fp8Gemms::inputs_together(Context& c, std::int64_t rows, std::int64_t cols,
                                             std::int64_t parts) const {
  const ops::Fp8Blocks by = blocks_of(kInput);
  const bool tensor = by == ops::Fp8Blocks::tensor;
  Together made;
  made.codes = c.device.empty(ops::QuantiseBlocks::codes_of(rows, cols, by),
                              tensor ? type_of(kInput) : ops::QuantiseBlocks::code_type(by), Category::activations,
                              "FP8 inputs of all experts");
  if (const std::int64_t scales = scales_of_32_rows(cols, by); scales > 0)
    made.scales = c.device.empty(
        {(rows / ops::QuantiseBlocks::kBlock + parts) * (ops::QuantiseBlocks::kBlock / 32), scales},
        ops::QuantiseBlocks::scale_type(by), Category::activations, "scales of FP8 inputs of all experts");
  return made;
}

Fp8Tensor Fp8Gemms::input_in(Context& c, const Tensor& x, const Together& together, std::int64_t part) const {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  const ops::Fp8Blocks by = blocks_of(kInput);
  const auto within = [&](const Tensor& all, const Shape& shape) { return all.part(part * shape.numel(), shape); };
  Fp8Tensor into;
  if (turns_) {
    into.straight.codes = within(together.codes, {rows, cols});
  } else {
    into.transposed.codes = within(together.codes, ops::QuantiseBlocks::codes_of(cols, rows, by));
    if (together.scales)
      into.transposed.inverse = within(together.scales, ops::QuantiseBlocks::scales_of(cols, rows, by));
  }
  return quantise(c, kInput, x, Fp8Ways::both, std::move(into));
}

Fp8Tensor Fp8Gemms::gradient(Context& c, const Tensor& dy, Fp8Ways ways, const std::vector<Axis>& parts_of) const {
  return quantise(c, kGradient, dy, ways, {}, parts_of);
}

Fp8Tensor Fp8Gemms::weight(Context& c, const Tensor& w, Fp8Ways ways, std::int64_t part, std::int64_t row) const {
  if (is_fp8(w.dtype())) return weight_in_fp8(c, w, ways, part, row);
  if (sharded_) return quantise(c, kWeight, w, ways, {});
  Fp8Weights::Kept& kept = c.fp8_weights.kept[{this, part}];
  const Fp8Ways lasting = frees_transposed_ ? Fp8Ways::straight : Fp8Ways::both;
  if (kept.step != c.step) kept = {quantise(c, kWeight, w, lasting, kept.tensor), c.step};
  Fp8Tensor q = kept.tensor;
  if (frees_transposed_ && ways != Fp8Ways::straight)
    q.transposed = turns_ ? as_turned(q.straight) : transposed_of(c, q.straight, {});
  return q;
}

Fp8Tensor Fp8Gemms::weight_in_fp8(Context& c, const Tensor& codes, Fp8Ways ways, std::int64_t part,
                                  std::int64_t row) const {
  Fp8Tensor q;
  q.straight = parameters_->operand(*weight_, part, codes, row);
  if (turns_) {
    q.transposed = as_turned(q.straight);
    return q;
  }
  if (sharded_ || frees_transposed_) {
    if (ways != Fp8Ways::straight) q.transposed = transposed_of(c, q.straight, {});
    return q;
  }
  Fp8Weights::Kept& kept = c.fp8_weights.kept[{this, part}];
  // A frozen weight is turned once for all steps.
  if (weight_->trains ? kept.step != c.step : !kept.tensor.transposed.codes) {
    kept.tensor.transposed = transposed_of(c, q.straight, kept.tensor.transposed);
    kept.step = c.step;
  }
  q.transposed = kept.tensor.transposed;
  return q;
}

ops::Fp8Operand Fp8Gemms::transpose(Context& c, const ops::Fp8Operand& x) const {
  if (turns_) return as_turned(x);
  const Shape& s = x.codes.shape();
  const Tensor y = c.device.empty({s[1], s[0]}, x.codes.dtype(), Category::activations, "transposed FP8 operand");
  run(c.device, ops::Fp8Transpose{x.codes, y});
  return {y, x.inverse};
}

ops::Fp8Operand Fp8Gemms::part(const ops::Fp8Operand& w, std::int64_t first, std::int64_t count) {
  const auto scales = [&]() -> Tensor {
    if (w.blocks == ops::Fp8Blocks::tensor) return w.inverse;
    if (w.blocks == ops::Fp8Blocks::whole_rows) return w.inverse.slice(first, count);
    return w.inverse.slice(first / ops::QuantiseBlocks::kBlock, ops::QuantiseBlocks::blocks(count));
  };
  return {w.codes.slice(first, count), scales(), w.blocks, w.amax};
}

void Fp8Gemms::multiply(Context& c, const ops::Fp8Operand& a, const ops::Fp8Operand& b, const Tensor& out, float beta) {
  run(c.device, ops::Fp8Matmul{a, b, out, beta});
}

}  // namespace mbench::nn
