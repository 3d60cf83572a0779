#include <optional>
#include <utility>

#include "engine/nn/linear/linear_gemms.h"
#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/nn/runtime/tensor_overlap.h"
#include "engine/nn/state/nf4_weights.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {

namespace {

// The whole, or the parts of a ring.
class Plain final : public Arriving {
 public:
  // `keep`: all of it is needed after each() too. Otherwise it is read once.
  Plain(Context& c, const LinearSite& site, const Exchanges& exchanges, const Tensor& own, bool keep)
      : context_(c), exchanges_(exchanges), keep_(keep), rings_(site.rings(exchanges)) {
    if (rings_)
      own_ = own;
    else
      whole_ = keep ? communicate(c, exchanges, own) : communicate_briefly(c, exchanges, own);
  }

  Shape shape() const override {
    Shape s = rings_ ? own_.shape() : whole_.shape();
    if (rings_) s[0] *= context_.groups.over({Axis::tp}).size();
    return s;
  }
  void each(const EachOperand& multiply) override {
    if (!rings_) return multiply({whole_}, 0, whole_.shape()[0]);
    whole_ = gather_by_ring(context_, exchanges_.front(), std::exchange(own_, Tensor()), keep_,
                            [&](const Tensor& part, std::int64_t first) { multiply({part}, first, part.shape()[0]); });
  }
  Operand for_weight_gradient() const override { return {whole_}; }
  Tensor plain() const override { return whole_; }

 private:
  Context& context_;
  const Exchanges& exchanges_;
  bool keep_, rings_;
  Tensor own_, whole_;
};

class PlainAgain final : public ArrivingAgain {
 public:
  PlainAgain(Context& c, const Exchanges& exchanges, const Tensor& x, bool starts)
      : context_(c), exchanges_(exchanges), x_(x) {
    if (starts) travelling_.emplace(c, exchanges, x, Communication::Use::brief);
  }
  Operand finish() override {
    return {travelling_ ? travelling_->finish() : communicate_briefly(context_, exchanges_, x_)};
  }

 private:
  Context& context_;
  const Exchanges& exchanges_;
  Tensor x_;
  std::optional<Communication> travelling_;
};

class ModelTypeGemms final : public LinearGemms {
 public:
  explicit ModelTypeGemms(const Nf4Weights* nf4) : nf4_(nf4) {}

  bool fuses() const override { return true; }
  Operand weight(Context& c, const LinearSite& site, Side) const override {
    return {site.rows(nf4_ ? nf4_->dequantised(c, *site.weight) : site.weight->value)};
  }
  Operand part_of(const Operand& w, std::int64_t first, std::int64_t count) const override {
    return {w.plain.slice(first, count)};
  }
  std::int64_t multiple_of_outputs() const override { return 1; }
  void multiply(Context& c, const Operand& a, const Operand& w, Side side, const Tensor& out,
                const Also& also) const override {
    const ops::Matrix weight(w.plain);
    ops::Matmul gemm{ops::Matrix(a.plain), side == Side::outputs ? weight.t() : weight, ops::Matrix(out)};
    gemm.bias = also.bias, gemm.gelu_input = also.gelu_input, gemm.gelu_grad_input = also.gelu_grad_input;
    run(c.device, gemm);
  }
  void multiply_some(Context& c, const LinearSite& site, const Operand& x, const SomeOutputs& o,
                     const Tensor& y) const override {
    const Tensor w = weight(c, site, Side::outputs).plain;
    const std::int64_t in = w.shape()[1], tokens = y.shape().rows(), all = o.groups * o.count;
    const ops::Matrix chosen(w, o.count, in, o.step * in, o.first * in, o.width * in);
    ops::Matmul gemm{{x.plain, tokens, in, in}, chosen.t(), {y, tokens, o.count, all, 0, o.count}};
    gemm.batch = o.groups;
    run(c.device, gemm);
  }

  std::unique_ptr<Arriving> input(Context& c, const LinearSite& site, const Tensor& x,
                                  LinearSaved& saved) const override {
    const bool gathered = site.keeps_gathered(c);
    if (site.keeps_input() && !gathered) saved.x = x;
    auto arriving = std::make_unique<Plain>(c, site, site.input.forward, x, gathered);
    if (gathered) saved.gathered = {arriving->plain()};
    return arriving;
  }
  Operand whole_input(Context& c, const LinearSite& site, const Tensor& x) const override {
    return {communicate_briefly(c, site.input.forward, x)};
  }
  std::unique_ptr<Arriving> gradient(Context& c, const LinearSite& site, const Tensor& dy) const override {
    return std::make_unique<Plain>(c, site, site.output.backward, dy, true);
  }
  std::unique_ptr<ArrivingAgain> input_again(Context& c, const LinearSite& site, const LinearSaved& saved,
                                             bool starts) const override {
    static const Exchanges none;
    if (!saved.gathered.empty()) return std::make_unique<PlainAgain>(c, none, saved.gathered.front(), false);
    return std::make_unique<PlainAgain>(c, site.input.forward, saved.x, starts);
  }
  void add_weight_gradient(Context& c, const LinearSite& site, const Operand& gradient, const Operand& input,
                           const Tensor& bias_gradient) const override {
    WeightGradient made(c, *site.weight, site.rows(site.weight->gradient));
    ops::Matmul gemm{ops::Matrix(gradient.plain).t(), ops::Matrix(input.plain), ops::Matrix(made.target())};
    gemm.beta = made.beta();
    gemm.bias_gradient = bias_gradient;
    run(c.device, gemm);
    made.finish();
  }

 private:
  const Nf4Weights* nf4_;
};

}  // namespace

std::shared_ptr<const LinearGemms> gemms_in_model_type(const Nf4Weights* nf4) {
  return std::make_shared<ModelTypeGemms>(nf4);
}

}  // namespace mbench::nn
