#include "engine/nn/linear/linear.h"

#include <algorithm>
#include <utility>

#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/nn/runtime/tensor_overlap.h"
#include "engine/nn/state/nf4_weights.h"
#include "engine/ops/add.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/point/adapter_weights.h"

namespace mbench {
namespace {

// Whether each rank's outputs go to all: a bias, which is cut as the weight is, is added before.
bool gathers_outputs(const Exchanges& exchanges) {
  return std::any_of(exchanges.begin(), exchanges.end(),
                     [](const Exchange& e) { return e.what == Collective::all_gather && e.dim == 2; });
}

// [seq, batch, width] as a matrix.
Tensor matrix(const Tensor& t) {
  return t.view({t.shape().rows(), t.shape().cols()});
}

}  // namespace

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec)
    : Linear(store, plan, spec, plan.role(spec.role)) {}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear,
               std::int64_t begin, std::int64_t count)
    : Linear(store, plan, spec, linear) {
  begin_ = begin;
  count_ = count;
}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear)
    : weight_(store.add(weight_of(spec), linear.weight, linear.consumed.value, linear.gemm.value)),
      table_(spec.role == Role::vocabulary),
      input_(Transition::between(linear.input, linear.consumed, plan.mesh)),
      output_(Transition::between(linear.gemm, linear.output, plan.mesh)) {
  add_bias(store, spec, linear);
  if (adapts(plan.adapter, spec)) adapter_.emplace(store, plan, spec, linear);
}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, Parameter* table)
    : weight_(table), table_(true) {
  const LinearPlan& linear = plan.role(spec.role);
  input_ = Transition::between(linear.input, linear.consumed, plan.mesh);
  output_ = Transition::between(linear.gemm, linear.output, plan.mesh);
  add_bias(store, spec, linear);
}

void Linear::add_bias(ParameterStore& store, const LinearSpec& spec, const LinearPlan& linear) {
  bias_of_gemm_ = gathers_outputs(output_.forward);
  if (!spec.bias) return;
  // A bias is cut as the rows of its weight are.
  bias_ = store.add(bias_of(spec), cut_as(linear.weight, 0), bias_of_gemm_ ? linear.gemm.value : linear.output.value);
}

bool Linear::fuses_output(const Context& c) const {
  return !fp8_ && !adapter_ && gemms_ == 0 && c.keeps().fused_epilogues && output_.forward.empty();
}

bool Linear::fuses_input_gradient(const Context& c) const {
  return !fp8_ && !adapter_ && c.keeps().fused_epilogues && input_.backward.empty();
}

Tensor Linear::forward(Context& c, const Tensor& x, Saved& saved) const {
  return forward(c, x, saved, {});
}

Tensor Linear::forward(Context& c, const Tensor& x, Saved& saved, const Epilogue& epilogue) const {
  if (!table_) c.device.host_work(HostWork::gemm);
  if (fp8_) return weight_->trains ? forward_in_fp8(c, x, saved) : forward_frozen_in_fp8(c, x, saved);
  if (gemms_ > 0) return forward_separate(c, x, saved);
  if (keeps_input()) saved.x = x;
  Tensor w = weight(c);
  if (leaves_in_pieces()) {
    const Tensor whole = communicate_briefly(c, input_.forward, x);
    return scatter_in_pieces(
        c, output_.forward.front(), {whole.shape()[0], whole.shape()[1], w.shape()[0]}, 1,
        [&](const Tensor& piece, std::int64_t first) {
          const Tensor part = w.slice(first, piece.shape()[2]);
          run(c.device, ops::Matmul{ops::Matrix(whole), ops::Matrix(part).t(), ops::Matrix(piece)});
        });
  }
  const bool by_parts = rings(input_.forward);
  const Tensor whole = by_parts ? Tensor() : communicate_briefly(c, input_.forward, x);
  Shape wide = by_parts ? x.shape() : whole.shape();
  if (by_parts) wide[0] *= c.groups.over({Axis::tp}).size();
  wide[2] = w.shape()[0];
  if (epilogue.gelu_input) *epilogue.gelu_input = c.activation(wide, "linear output");
  const Tensor y = c.activation(wide, epilogue.gelu_input ? "gelu output" : "linear output");
  const EachPart multiply = [&](const Tensor& part, std::int64_t first) {
    const std::int64_t rows = part.shape()[0];
    ops::Matmul gemm{ops::Matrix(part), ops::Matrix(w).t(), ops::Matrix(y.slice(first, rows))};
    if (epilogue.bias && c.keeps().fused_epilogues) gemm.bias = bias();
    if (epilogue.gelu_input) gemm.gelu_input = epilogue.gelu_input->slice(first, rows);
    run(c.device, gemm);
  };
  if (by_parts)
    gather_by_ring(c, input_.forward.front(), x, false, multiply);
  else
    multiply(whole, 0);
  w.reset();
  if (adapter_) saved.low = adapter_->forward(c, whole, y);
  if (epilogue.bias && !c.keeps().fused_epilogues) run(c.device, ops::BiasAdd{y, bias(), y});
  return communicate(c, output_.forward, y);
}

bool Linear::rings(const Exchanges& exchanges) const {
  return overlaps_ && gathers_sequence(exchanges);
}
bool Linear::leaves_in_pieces() const {
  return overlaps_ && scatters_sequence(output_.forward);
}

Tensor Linear::forward_with_bias(Context& c, const Tensor& x, Saved& saved) const {
  if (!bias_ || fuses_output(c) || bias_of_gemm_) return forward(c, x, saved, {.bias = bias_ != nullptr});
  const Tensor y = forward(c, x, saved);
  run(c.device, ops::BiasAdd{y, bias(), y});
  return y;
}

bool Linear::scatters_output() const {
  return std::any_of(output_.forward.begin(), output_.forward.end(),
                     [](const Exchange& e) { return e.what == Collective::reduce_scatter; });
}

Linear::Arrived Linear::arrive(Context& c, const Tensor& x) const {
  Saved of_input;  // which the caller keeps
  if (fp8_) return {{}, arrive_in_fp8(c, x, true, of_input), x.shape()[1]};
  return {communicate_briefly(c, input_.forward, x), {}, x.shape()[1]};
}

Tensor Linear::make(Context& c, const Arrived& arrived, const Outputs& o) const {
  c.device.host_work(HostWork::gemm);
  const Tensor w = weight(c);
  const std::int64_t in = w.shape()[1], all = o.groups * o.count,
                     tokens = fp8_ ? arrived.quantised.codes.shape()[0] : arrived.x.shape().rows();
  const Tensor y = c.activation({tokens / arrived.batch, arrived.batch, all}, "a part of a linear output");
  const ops::Matrix chosen(w, o.count, in, o.step * in, o.first * in, o.width * in);
  if (fp8_) {
    // A weight of its own, as frameworks have it: its rows lie together, and have a scale.
    const Tensor part = c.device.empty({all, in}, w.dtype(), Category::weights, "rows of a weight");
    run(c.device, ops::CopyBlocks{chosen, ops::Matrix(part, o.count, in, in, 0, o.count * in), o.groups});
    Fp8Gemms::multiply(c, arrived.quantised, fp8_->rows(c, part), matrix(y));
    return y;
  }
  ops::Matmul gemm{{arrived.x, tokens, in, in}, chosen.t(), {y, tokens, o.count, all, 0, o.count}};
  gemm.batch = o.groups;
  run(c.device, gemm);
  return y;
}

Tensor Linear::backward(Context& c, Tensor dy, Saved& saved, Tensor gelu_input) const {
  const bool leaves = c.later && weight_->trains;  // the gradient of the weight to another action
  if (!table_) c.device.host_work(HostWork::gemm, leaves ? 1 : 2);
  if (fp8_) return weight_->trains ? backward_in_fp8(c, std::move(dy), saved) : backward_frozen_in_fp8(c, dy, saved);
  if (gemms_ > 0) return backward_separate(c, dy, saved);
  // The bias belongs to the output: what the weight's gradient sees of it is the same only if nothing
  // travelled, or if it is the product's.
  const bool fused_bias = weight_->trains && c.keeps().fused_epilogues && (output_.backward.empty() || bias_of_gemm_);
  if (!fused_bias && !bias_of_gemm_) add_bias_gradient(c, dy);
  const bool by_parts = rings(output_.backward);
  Tensor dproduct = by_parts ? Tensor() : communicate(c, output_.backward, dy);
  if (!fused_bias && bias_of_gemm_) add_bias_gradient(c, dproduct);
  Shape s = by_parts ? dy.shape() : dproduct.shape();
  if (by_parts) s[0] *= c.groups.over({Axis::tp}).size();
  // The input travels while its gradient is computed, and that while the weight's is.
  std::optional<Communication> input;
  if (keeps_input() && !leaves) input.emplace(c, input_.forward, saved.x, Communication::Use::brief);
  Tensor dx = c.activation({s[0], s[1], weight_->local[1]}, "linear input gradient");
  {
    const Tensor w = weight(c);
    const EachPart input_gradient = [&](const Tensor& part, std::int64_t first) {
      const std::int64_t count = part.shape()[0];
      ops::Matmul gemm{ops::Matrix(part), ops::Matrix(w), ops::Matrix(dx.slice(first, count))};
      if (gelu_input) gemm.gelu_grad_input = gelu_input.slice(first, count);
      run(c.device, gemm);
    };
    if (by_parts)
      dproduct = gather_by_ring(c, output_.backward.front(), dy, true, input_gradient);
    else
      input_gradient(dproduct, 0);
    gelu_input.reset();
  }
  if (adapter_) adapter_->backward(c, dproduct, input->finish(), std::exchange(saved.low, Tensor()), dx);
  Communication travelling(c, input_.backward, dx);
  dx.reset();
  const bool with_bias = bias_ && fused_bias;
  if (leaves)
    c.leave([this, &c, dproduct, x = saved.x, with_bias] {
      if (!table_) c.device.host_work(HostWork::gemm);
      add_weight_gradient(c, dproduct, communicate_briefly(c, input_.forward, x), with_bias);
    });
  else if (weight_->trains)
    add_weight_gradient(c, dproduct, input->finish(), with_bias);
  saved.x.reset();
  return travelling.finish();
}

void Linear::add_bias_gradient(Context& c, const Tensor& dy) const {
  if (bias_ && bias_->trains) run(c.device, ops::BiasGrad{dy, rows(bias_->gradient)});
}

void Linear::add_weight_gradient(Context& c, const Tensor& dproduct, const Tensor& x, bool with_bias) const {
  WeightGradient made(c, *weight_, rows(weight_->gradient));
  ops::Matmul weight_gradient{ops::Matrix(dproduct).t(), ops::Matrix(x), ops::Matrix(made.target())};
  weight_gradient.beta = made.beta();
  if (with_bias) weight_gradient.bias_gradient = rows(bias_->gradient);
  run(c.device, weight_gradient);
  made.finish();
}

void Linear::add_weight_gradient_in_fp8(Context& c, const ops::Fp8Operand& dproduct, const ops::Fp8Operand& x) const {
  WeightGradient made(c, *weight_, rows(weight_->gradient));
  Fp8Gemms::multiply(c, dproduct, x, made.target(), made.beta());
  made.finish();
}

Tensor Linear::backward_deferred(Context& c, const Tensor& dy, Saved& saved, DeferredGemm& later) const {
  check(!fp8_, "linear", "a GEMM in FP8 whose weight's gradient is deferred");
  if (!table_) c.device.host_work(HostWork::gemm, 2);
  later = {this, std::exchange(saved.x, Tensor()), communicate(c, output_.backward, dy)};
  add_bias_gradient(c, bias_of_gemm_ ? later.gradient : dy);
  const Shape& s = later.gradient.shape();
  WeightGradient::keep_placeholder(c, rows(weight_->gradient).shape());
  Tensor dx = c.activation({s[0], s[1], weight_->local[1]}, "linear input gradient");
  run(c.device, ops::Matmul{ops::Matrix(later.gradient), ops::Matrix(weight(c)), ops::Matrix(dx)});
  return communicate(c, input_.backward, dx);
}

void Linear::make_deferred(Context& c, std::vector<DeferredGemm> gemms) {
  std::optional<Communication> next;
  const auto start = [&](std::size_t i) {
    if (i < gemms.size()) next.emplace(c, gemms[i].layer->input_.forward, std::exchange(gemms[i].input, Tensor()));
  };
  start(0);
  for (std::size_t i = 0; i < gemms.size(); ++i) {
    const Tensor x = next->finish();
    start(i + 1);
    gemms[i].layer->add_weight_gradient(c, gemms[i].gradient, x, false);
    gemms[i].gradient.reset();
  }
}

Tensor Linear::rows_forward(Context& c, const Tensor& x) const {
  check(!bias_ && !fp8_ && !adapter_ && count_ == 0, "linear",
        "rows of a layer with more than a weight in 16 or 32 bits");
  const Tensor w = weight(c), y = c.activation({x.shape()[0], x.shape()[1], w.shape()[0]}, "linear output");
  run(c.device, ops::Matmul{ops::Matrix(x), ops::Matrix(w).t(), ops::Matrix(y)});
  return y;
}

void Linear::rows_backward(Context& c, const Tensor& dy, const Tensor& x, const Tensor& dx, const Tensor& dweight,
                           bool first) const {
  run(c.device, ops::Matmul{ops::Matrix(dy), ops::Matrix(weight(c)), ops::Matrix(dx)});
  if (!dweight) return;
  ops::Matmul gemm{ops::Matrix(dy).t(), ops::Matrix(x), ops::Matrix(dweight)};
  gemm.beta = first ? 0.0f : 1.0f;
  run(c.device, gemm);
}

void Linear::add_gradient(Context& c, const Tensor& dweight) const {
  zero_if_stale(c.device, *weight_);
  run(c.device, ops::Add{weight_->gradient, dweight, weight_->gradient});
}

Tensor Linear::weight(Context& c) const {
  return rows(nf4_ != nullptr ? nf4_->dequantised(c, *weight_) : weight_->value);
}

void Linear::in_layer(ParameterStore& store, const Plan& plan, bool keep_input, std::int64_t gemms) {
  overlaps_ = plan.tp_comm_overlap;
  if (plan.tp_gathers == TpGathers::gemm && gathers_sequence(input_.forward)) gemms_ = gemms;
  if (plan.adapter.in_4_bits()) {
    store.keep_in_nf4(*weight_);
    nf4_ = &store.nf4();
  }
  if (!plan.precision.fp8) return;
  fp8_.emplace(store, *weight_, plan);
  keep_input_ = keep_input;
}

namespace {

// The transposed side of this rank's part of a quantised tensor, in flight to the side of the whole; its scales too.
class Columns {
 public:
  Columns(Context& c, Exchanges exchanges, const ops::Fp8Operand& own)
      : own_(own), codes_(c, along_columns(exchanges), own.codes), scales_(c, exchanges, own.inverse) {}
  ops::Fp8Operand finish() {
    ops::Fp8Operand whole = std::exchange(own_, {});
    whole.codes = codes_.finish();
    whole.inverse = scales_.finish();
    return whole;
  }

 private:
  static const Exchanges& along_columns(Exchanges& exchanges) {
    for (Exchange& e : exchanges) e.dim = 1;
    return exchanges;
  }
  ops::Fp8Operand own_;
  Communication codes_, scales_;
};

// A rank's rows of a quantised tensor, the sequence from `first` on, with their scales out of all.
ops::Fp8Operand part_of_ring(const Tensor& codes, std::int64_t first, ops::Fp8Blocks blocks, const Tensor& scales) {
  const Tensor rows = matrix(codes);
  if (blocks == ops::Fp8Blocks::tensor) return {rows, scales, blocks};
  const std::int64_t begin = first * codes.shape()[1] / ops::QuantiseBlocks::kBlock;
  return {rows, scales.slice(begin, ops::QuantiseBlocks::blocks(rows.shape()[0])), blocks};
}

}  // namespace

ops::Fp8Operand Linear::arrive_in_fp8(Context& c, const Tensor& x, bool keep_input, Saved& saved) const {
  std::vector<Axis> gathered;
  bool gathers = true;
  for (const Exchange& e : input_.forward) {
    gathers = gathers && e.what == Collective::all_gather && e.dim == 0;
    gathered.push_back(e.axis);
  }
  saved.shape = x.shape();
  ops::Fp8Operand in;
  if (gathered.empty()) {
    const Fp8Tensor q = fp8_->input(c, matrix(x), keep_input ? Fp8Ways::straight : Fp8Ways::both);
    in = q.straight;
    if (keep_input) saved.x = x;
    saved.quantised.transposed = q.transposed;
  } else if (gathers && fp8_->travels() && !keep_input) {
    saved.quantised = fp8_->input(c, matrix(x), Fp8Ways::straight, gathered);
    in = saved.quantised.straight;
    in.codes = matrix(communicate_briefly(c, input_.forward, in.codes.view(x.shape())));
  } else if (gathers && fp8_->sides_are_gathered(matrix(x).shape()[0]) && !keep_input) {
    const Fp8Tensor q = fp8_->input(c, matrix(x), Fp8Ways::both, gathered);
    saved.quantised.transposed = q.transposed;
    saved.own_side = true;
    in = q.straight;
    in.inverse = communicate(c, input_.forward, in.inverse);
    const Shape own{x.shape()[0], x.shape()[1], in.codes.shape()[1]};
    in.codes = matrix(communicate_briefly(c, input_.forward, in.codes.view(own)));
  } else {
    saved.x = x;
    in = fp8_->input(c, matrix(communicate_briefly(c, input_.forward, x)), Fp8Ways::straight).straight;
  }
  return in;
}

namespace {

// What a backward has of a layer's input, on its way to where the GEMM of the weight's gradient needs it.
struct InputOnItsWay {
  InputOnItsWay(Context& c, const Exchanges& forward, const Linear::Saved& saved) {
    const Tensor& codes = saved.quantised.straight.codes;
    if (saved.own_side) columns.emplace(c, forward, saved.quantised.transposed);
    if (saved.x || codes)
      rows.emplace(c, forward, saved.x ? saved.x : codes.view(saved.shape), Communication::Use::brief);
  }
  ops::Fp8Operand finish(Context& c, const Fp8Gemms& gemms, const Linear::Saved& saved) {
    if (saved.own_side) return columns->finish();
    if (saved.x) return gemms.input(c, matrix(rows->finish()), Fp8Ways::transposed).transposed;
    ops::Fp8Operand kept = saved.quantised.straight;
    if (!kept.codes) return saved.quantised.transposed;
    kept.codes = matrix(rows->finish());
    return gemms.transpose(c, kept);
  }
  std::optional<Communication> rows;
  std::optional<Columns> columns;
};

}  // namespace

Tensor Linear::forward_in_fp8(Context& c, const Tensor& x, Saved& saved) const {
  const Tensor w = rows(weight_->value);
  const std::int64_t batch = x.shape()[1], out = w.shape()[0];
  const auto weight = [&] { return fp8_->weight(c, w, Fp8Ways::straight, 0, begin_).straight; };
  const bool sides = fp8_->sides_travel(matrix(x).shape()[0]);
  if (rings(input_.forward) && (fp8_->travels() || sides) && !keep_input_) {
    saved.shape = x.shape();
    Fp8Tensor q = fp8_->input(c, matrix(x), sides ? Fp8Ways::both : Fp8Ways::straight, {Axis::tp});
    const ops::Fp8Operand operand = weight(), own = q.straight;
    (sides ? saved.quantised.transposed : saved.quantised.straight) = sides ? q.transposed : q.straight;
    saved.quantised.figures = q.figures;
    saved.own_side = sides;
    q = {};
    const Tensor scales = sides ? communicate(c, input_.forward, own.inverse) : own.inverse;
    const Tensor y = c.activation({x.shape()[0] * c.groups.over({Axis::tp}).size(), batch, out}, "linear output");
    gather_by_ring(c, input_.forward.front(), own.codes.view(x.shape()), false,
                   [&](const Tensor& part, std::int64_t first) {
                     Fp8Gemms::multiply(c, part_of_ring(part, first, own.blocks, scales), operand,
                                        matrix(y.slice(first, part.shape()[0])));
                   });
    return communicate(c, output_.forward, y);
  }
  ops::Fp8Operand in = arrive_in_fp8(c, x, keep_input_, saved);
  const std::int64_t tokens = in.codes.shape()[0];
  if (leaves_in_pieces()) {
    const ops::Fp8Operand operand = weight();
    return scatter_in_pieces(c, output_.forward.front(), {tokens / batch, batch, out}, fp8_->multiple_of_rows(),
                             [&](const Tensor& piece, std::int64_t first) {
                               Fp8Gemms::multiply(c, in, Fp8Gemms::part(operand, first, piece.shape()[2]),
                                                  matrix(piece));
                             });
  }
  const Tensor y = c.activation({tokens / batch, batch, out}, "linear output");
  Fp8Gemms::multiply(c, in, weight(), matrix(y));
  in = {};
  return communicate(c, output_.forward, y);
}

Tensor Linear::backward_in_fp8(Context& c, Tensor dy, Saved& saved) const {
  add_bias_gradient(c, dy);
  const bool sides = fp8_->sides_travel(matrix(dy).shape()[0]),
             by_parts = rings(output_.backward) && (fp8_->travels() || sides);
  Shape s = dy.shape();
  Fp8Tensor gradient;
  std::optional<Columns> columns;  // of the gradient, where its sides travel
  if (by_parts) {
    s[0] *= c.groups.over({Axis::tp}).size();
    gradient = fp8_->gradient(c, matrix(dy), sides ? Fp8Ways::both : Fp8Ways::straight, {Axis::tp});
    if (sides) columns.emplace(c, output_.backward, gradient.transposed);
  } else {
    const Tensor dproduct = communicate(c, output_.backward, dy);
    s = dproduct.shape();
    gradient = fp8_->gradient(c, matrix(dproduct));
  }
  // What is there of the input travels while its gradient is computed, and that while the weight's is.
  std::optional<InputOnItsWay> input;
  if (!c.later) input.emplace(c, input_.forward, saved);
  const Tensor w = rows(weight_->value);
  Tensor dx = c.activation({s[0], s[1], w.shape()[1]}, "linear input gradient");
  const ops::Fp8Operand weight = fp8_->weight(c, w, Fp8Ways::transposed, 0, begin_).transposed;
  if (by_parts) {
    ops::Fp8Operand& own = gradient.straight;
    const Tensor scales = sides ? communicate(c, output_.backward, own.inverse) : own.inverse;
    const Tensor whole = gather_by_ring(c, output_.backward.front(), own.codes.view(dy.shape()), !sides,
                                        [&](const Tensor& part, std::int64_t first) {
                                          Fp8Gemms::multiply(c, part_of_ring(part, first, own.blocks, scales), weight,
                                                             matrix(dx.slice(first, part.shape()[0])));
                                        });
    if (sides) {
      gradient.transposed = columns->finish();
    } else {
      own.codes = matrix(whole);
      gradient.transposed = fp8_->transpose(c, own);
    }
  } else {
    Fp8Gemms::multiply(c, gradient.straight, weight, matrix(dx));
  }
  Communication travelling(c, input_.backward, dx);
  dx.reset();
  if (c.later)
    c.leave([this, &c, dy_sides = gradient.transposed, kept = saved] {
      c.device.host_work(HostWork::gemm);
      add_weight_gradient_in_fp8(c, dy_sides, InputOnItsWay(c, input_.forward, kept).finish(c, *fp8_, kept));
    });
  else
    add_weight_gradient_in_fp8(c, gradient.transposed, input->finish(c, *fp8_, saved));
  saved = {};
  return travelling.finish();
}

}  // namespace mbench
