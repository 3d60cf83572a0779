// A linear layer in FP8. Its adapter computes in 16 bits, as Megatron-Bridge's does, so an input that is gathered then travels in 16 bits.
#include <optional>
#include <utility>

#include "engine/nn/linear/fp8.h"
#include "engine/nn/linear/linear_gemms.h"
#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/nn/runtime/tensor_overlap.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// [seq, batch, width] as rows of tokens.
Tensor matrix(const Tensor& t) {
  return t.view({t.shape().rows(), t.shape().cols()});
}

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

// What goes round the ring: this rank's codes, and the scales that its parts need.
class Ring {
 public:
  Ring(Context& c, const Exchanges& exchanges, const ops::Fp8Operand& own, const Shape& shape, bool sides)
      : context_(c),
        exchanges_(exchanges),
        codes_(own.codes.view(shape)),
        blocks_(own.blocks),
        scales_(sides ? communicate(c, exchanges, own.inverse) : own.inverse) {}
  // `keep`: returns all codes.
  Tensor each(bool keep, const EachOperand& multiply) const {
    return gather_by_ring(context_, exchanges_.front(), codes_, keep, [&](const Tensor& part, std::int64_t first) {
      multiply({{}, part_of_ring(part, first, blocks_, scales_)}, first, part.shape()[0]);
    });
  }

 private:
  Context& context_;
  const Exchanges& exchanges_;
  Tensor codes_;
  ops::Fp8Blocks blocks_;
  Tensor scales_;
};

std::int64_t rows_of_ring(const Context& c, const Tensor& own) {
  return own.shape()[0] * c.groups.over({Axis::tp}).size();
}

// The input quantised, where the GEMM needs it; `saved` gets what backward needs of it. `keep_input`: that is the input as it arrived.
// `keeps_gathered`: it is what was gathered, unless both its sides are.
ops::Fp8Operand arrive(Context& c, const Fp8Gemms& gemms, const Exchanges& exchanges, const Tensor& x, bool keep_input,
                       bool keeps_gathered, LinearSaved& saved) {
  std::vector<Axis> gathered;
  bool gathers = true;
  for (const Exchange& e : exchanges) {
    gathers = gathers && e.what == Collective::all_gather && e.dim == 0;
    gathered.push_back(e.axis);
  }
  saved.shape = x.shape();
  ops::Fp8Operand in;
  if (gathered.empty()) {
    const Fp8Tensor q = gemms.input(c, matrix(x), keep_input ? Fp8Ways::straight : Fp8Ways::both);
    in = q.straight;
    if (keep_input) saved.x = x;
    saved.quantised.transposed = q.transposed;
  } else if (gathers && gemms.travels() && !keep_input) {
    saved.quantised = gemms.input(c, matrix(x), Fp8Ways::straight, gathered);
    in = saved.quantised.straight;
    in.codes = matrix(communicate_briefly(c, exchanges, in.codes.view(x.shape())));
    if (keeps_gathered) saved.quantised.straight.codes.reset(), saved.gathered = {in.codes};
  } else if (gathers && gemms.sides_are_gathered(matrix(x).shape()[0]) && !keep_input) {
    const Fp8Tensor q = gemms.input(c, matrix(x), Fp8Ways::both, gathered);
    saved.quantised.transposed = q.transposed;
    saved.own_side = true;
    in = q.straight;
    in.inverse = communicate(c, exchanges, in.inverse);
    const Shape own{x.shape()[0], x.shape()[1], in.codes.shape()[1]};
    in.codes = matrix(communicate_briefly(c, exchanges, in.codes.view(own)));
  } else {
    const Tensor whole = communicate_briefly(c, exchanges, x);
    if (keeps_gathered && !keep_input)
      saved.gathered = {whole};
    else
      saved.x = x;
    in = gemms.input(c, matrix(whole), Fp8Ways::straight).straight;
  }
  return in;
}

class Fp8Input final : public Arriving {
 public:
  Fp8Input(Context& c, const Fp8Gemms& gemms, const LinearSite& site, const Tensor& x, bool keep_input,
           LinearSaved& saved)
      : batch_(x.shape()[1]), width_(x.shape()[2]) {
    const Exchanges& exchanges = site.input.forward;
    const bool sides = gemms.sides_travel(matrix(x).shape()[0]);
    if (site.weight->trains && site.rings(exchanges) && (gemms.travels() || sides) && !keep_input) {
      rows_ = rows_of_ring(c, x);
      saved.shape = x.shape();
      const Fp8Tensor q = gemms.input(c, matrix(x), sides ? Fp8Ways::both : Fp8Ways::straight, {Axis::tp});
      (sides ? saved.quantised.transposed : saved.quantised.straight) = sides ? q.transposed : q.straight;
      saved.quantised.figures = q.figures;
      saved.own_side = sides;
      ring_.emplace(c, exchanges, q.straight, x.shape(), sides);
      return;
    }
    if (site.adapted) {
      plain_ = communicate_briefly(c, exchanges, x);
      whole_ = gemms.input(c, matrix(plain_), Fp8Ways::straight).straight;
      saved.x = x;
    } else if (site.weight->trains) {
      whole_ = arrive(c, gemms, exchanges, x, keep_input, site.keeps_gathered(c), saved);
    } else {
      LinearSaved dropped;  // that a frozen weight's gradient would need
      whole_ = arrive(c, gemms, exchanges, x, exchanges.empty(), false, dropped);
    }
    rows_ = whole_.codes.shape()[0] / batch_;
  }

  Shape shape() const override { return {rows_, batch_, width_}; }
  void each(const EachOperand& multiply) override {
    if (ring_)
      ring_->each(false, multiply);
    else
      multiply({{}, whole_}, 0, rows_);
  }
  Operand for_weight_gradient() const override { return {}; }  // input_again() knows
  Tensor plain() const override { return plain_; }

 private:
  std::int64_t batch_, width_, rows_ = 0;
  std::optional<Ring> ring_;
  ops::Fp8Operand whole_;
  Tensor plain_;
};

class Fp8Gradient final : public Arriving {
 public:
  Fp8Gradient(Context& c, const Fp8Gemms& gemms, const LinearSite& site, const Tensor& dy)
      : context_(c), gemms_(gemms), trains_(site.weight->trains), shape_(dy.shape()) {
    const Exchanges& exchanges = site.output.backward;
    const bool sides = gemms.sides_travel(matrix(dy).shape()[0]);
    if (trains_ && site.rings(exchanges) && (gemms.travels() || sides)) {
      shape_[0] = rows_of_ring(c, dy);
      quantised_ = gemms.gradient(c, matrix(dy), sides ? Fp8Ways::both : Fp8Ways::straight, {Axis::tp});
      if (sides) columns_.emplace(c, exchanges, quantised_.transposed);
      ring_ = [&c, &exchanges, own = quantised_.straight, shape = dy.shape(), sides] {
        return Ring(c, exchanges, own, shape, sides);
      };
      return;
    }
    plain_ = communicate(c, exchanges, dy);
    shape_ = plain_.shape();
    if (!trains_) return;
    quantised_ = gemms.gradient(c, matrix(plain_));
    plain_.reset();
  }

  Shape shape() const override { return shape_; }
  void each(const EachOperand& multiply) override {
    if (!trains_) {
      multiply({{}, gemms_.gradient(context_, matrix(plain_), Fp8Ways::straight).straight}, 0, shape_[0]);
    } else if (!ring_) {
      multiply({{}, quantised_.straight}, 0, shape_[0]);
    } else {
      const Tensor codes = ring_().each(!columns_, multiply);
      if (columns_) {
        quantised_.transposed = columns_->finish();
      } else {
        quantised_.straight.codes = matrix(codes);
        quantised_.transposed = gemms_.transpose(context_, quantised_.straight);
      }
    }
  }
  Operand for_weight_gradient() const override { return {{}, quantised_.transposed}; }
  Tensor plain() const override { return plain_; }

 private:
  Context& context_;
  const Fp8Gemms& gemms_;
  bool trains_;
  Shape shape_;
  Tensor plain_;
  Fp8Tensor quantised_;
  std::optional<Columns> columns_;  // where its sides travel
  std::function<Ring()> ring_;
};

// What there is of the input: its transposed side, codes to transpose, or the input itself.
class Fp8Again final : public ArrivingAgain {
 public:
  Fp8Again(Context& c, const Fp8Gemms& gemms, const Exchanges& exchanges, const LinearSaved& saved)
      : context_(c), gemms_(gemms), saved_(saved) {
    const Tensor& codes = saved.quantised.straight.codes;
    if (saved.own_side) columns_.emplace(c, exchanges, saved.quantised.transposed);
    if (saved.x || codes)
      rows_.emplace(c, exchanges, saved.x ? saved.x : codes.view(saved.shape), Communication::Use::brief);
  }
  Operand finish() override {
    const LinearSaved saved = std::exchange(saved_, {});
    if (saved.own_side) return {{}, columns_->finish()};
    if (!saved.gathered.empty()) return {{}, of_gathered(saved)};
    if (saved.x) return {{}, gemms_.input(context_, matrix(rows_->finish()), Fp8Ways::transposed).transposed};
    ops::Fp8Operand kept = saved.quantised.straight;
    if (!kept.codes) return {{}, saved.quantised.transposed};
    kept.codes = matrix(rows_->finish());
    return {{}, gemms_.transpose(context_, kept)};
  }

 private:
  ops::Fp8Operand of_gathered(const LinearSaved& saved) const {
    const Tensor whole = matrix(saved.gathered.front());
    ops::Fp8Operand codes = saved.quantised.straight;
    if (!codes.inverse) return gemms_.input(context_, whole, Fp8Ways::transposed).transposed;
    codes.codes = whole;
    return gemms_.transpose(context_, codes);
  }

  Context& context_;
  const Fp8Gemms& gemms_;
  LinearSaved saved_;
  std::optional<Communication> rows_;
  std::optional<Columns> columns_;
};

// An adapter's input, in 16 bits.
class PlainInput final : public ArrivingAgain {
 public:
  PlainInput(Context& c, const Exchanges& exchanges, const Tensor& x)
      : travelling_(c, exchanges, x, Communication::Use::brief) {}
  Operand finish() override { return {travelling_.finish()}; }

 private:
  Communication travelling_;
};

class Fp8LinearGemms final : public LinearGemms {
 public:
  Fp8LinearGemms(ParameterStore& store, const LinearSite& site, const Plan& plan, bool keep_input)
      : gemms_(store, *site.weight, plan), keep_input_(keep_input) {}

  bool fuses() const override { return false; }
  Operand weight(Context& c, const LinearSite& site, Side side) const override {
    const Tensor w = site.rows(site.weight->value);
    if (side == Side::outputs) return {{}, gemms_.weight(c, w, Fp8Ways::straight, 0, site.begin).straight};
    return {{}, gemms_.weight(c, w, Fp8Ways::transposed, 0, site.begin).transposed};
  }
  Operand part_of(const Operand& w, std::int64_t first, std::int64_t count) const override {
    return {{}, Fp8Gemms::part(w.fp8, first, count)};
  }
  std::int64_t multiple_of_outputs() const override { return gemms_.multiple_of_rows(); }
  void multiply(Context& c, const Operand& a, const Operand& w, Side, const Tensor& out, const Also&) const override {
    Fp8Gemms::multiply(c, a.fp8, w.fp8, matrix(out));
  }
  // A weight of its own, as frameworks have it: its rows lie together, and have a scale.
  void multiply_some(Context& c, const LinearSite& site, const Operand& x, const SomeOutputs& o,
                     const Tensor& y) const override {
    const Tensor w = site.rows(site.weight->value);
    const std::int64_t in = w.shape()[1], all = o.groups * o.count;
    const ops::Matrix chosen(w, o.count, in, o.step * in, o.first * in, o.width * in);
    const Tensor part = c.device.empty({all, in}, w.dtype(), Category::weights, "rows of a weight");
    run(c.device, ops::CopyBlocks{chosen, ops::Matrix(part, o.count, in, in, 0, o.count * in), o.groups});
    Fp8Gemms::multiply(c, x.fp8, gemms_.rows(c, part), matrix(y));
  }

  std::unique_ptr<Arriving> input(Context& c, const LinearSite& site, const Tensor& x,
                                  LinearSaved& saved) const override {
    return std::make_unique<Fp8Input>(c, gemms_, site, x, keep_input_, saved);
  }
  Operand whole_input(Context& c, const LinearSite& site, const Tensor& x) const override {
    LinearSaved of_input;  // which the caller keeps
    return {{}, arrive(c, gemms_, site.input.forward, x, true, false, of_input)};
  }
  std::unique_ptr<Arriving> gradient(Context& c, const LinearSite& site, const Tensor& dy) const override {
    return std::make_unique<Fp8Gradient>(c, gemms_, site, dy);
  }
  std::unique_ptr<ArrivingAgain> input_again(Context& c, const LinearSite& site, const LinearSaved& saved,
                                             bool) const override {
    if (site.adapted) return std::make_unique<PlainInput>(c, site.input.forward, saved.x);
    return std::make_unique<Fp8Again>(c, gemms_, site.input.forward, saved);
  }
  void add_weight_gradient(Context& c, const LinearSite& site, const Operand& gradient, const Operand& input,
                           const Tensor&) const override {
    WeightGradient made(c, *site.weight, site.rows(site.weight->gradient));
    Fp8Gemms::multiply(c, gradient.fp8, input.fp8, made.target(), made.beta());
    made.finish();
  }

 private:
  Fp8Gemms gemms_;
  bool keep_input_;
};

}  // namespace

std::shared_ptr<const LinearGemms> gemms_in_fp8(ParameterStore& store, const LinearSite& site, const Plan& plan,
                                                bool keep_input) {
  return std::make_shared<Fp8LinearGemms>(store, site, plan, keep_input);
}

}  // namespace mbench::nn
