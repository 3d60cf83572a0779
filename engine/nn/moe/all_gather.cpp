#include "engine/nn/moe/all_gather.h"

#include <utility>

namespace mbench::nn {

AllGather::AllGather(const Plan& plan, const MoeSpec& spec, std::optional<HostWork> host)
    : host_(host), own_(plan, spec), ways_(plan, spec) {}

std::unique_ptr<TokenDispatcher::Saved> AllGather::preprocess(Context& c, const MicroBatch&, const Tokens& own,
                                                              Router::Load* load) const {
  auto saved = std::make_unique<Saved>();
  saved->rows.weights = communicate(c, ways_.tokens.forward, own.weights);
  const Tensor experts = communicate(c, ways_.tokens.forward, own.experts);
  const Tensor rows = c.device.empty(experts.shape(), DType::i64, Category::activations, "rows of tokens");
  own_.plan(c, experts, rows, experts.shape().rows(), 0, true, *saved);
  if (load) *load = own_.load(c, own.experts);
  return saved;
}

RowsInFlight AllGather::dispatch(Context& c, const MicroBatch&, Tensor x, Saved& saved) const {
  return own_.dispatch(c, communicate_briefly(c, ways_.tokens.forward, x), saved);
}

Tensor AllGather::combine(Context& c, Tensor made, Saved& saved) const {
  const Tensor sum = c.activation(saved.rows.tokens, "combined outputs of experts");
  {
    const FullestRank fullest(c.device, saved.sizes.fullest);
    own_.permutation().unpermute(c, std::move(made), sum, saved.rows);
  }
  return communicate(c, ways_.sums.forward, sum);
}

RowsInFlight AllGather::combine_backward(Context& c, Tensor dsum, Saved& saved) const {
  RowsInFlight sent{{}, {}, Context::Way::backward, communicate(c, ways_.sums.backward, dsum)};
  dsum.reset();
  saved.rows.tokens = sent.source.shape();
  saved.dweights = c.device.empty(saved.rows.rows.shape(), DType::f32, Category::activations, "gradient of weights");
  const FullestRank fullest(c.device, saved.sizes.fullest);
  sent.x = RowExchange::InFlight(own_.permutation().unpermute_backward(c, sent.source, saved.dweights, saved.rows));
  return sent;
}

TokenDispatcher::Gradients AllGather::dispatch_backward(Context& c, const MicroBatch&, Tensor drows,
                                                        Tensor dweights_of_rows, Saved& saved) const {
  own_.weights_backward(c, dweights_of_rows, saved);
  Tensor dx = c.activation(saved.rows.tokens, "gradient of dispatched tokens");
  {
    const FullestRank fullest(c.device, saved.sizes.fullest);
    own_.permutation().permute_backward(c, drows, dx, saved.rows);
  }
  drows.reset();
  saved.rows.rows.reset();
  Gradients made{std::make_unique<Communication>(c, ways_.tokens.backward, dx), {}};
  dx.reset();
  made.weights = communicate(c, ways_.tokens.backward, std::exchange(saved.dweights, Tensor()));
  return made;
}

}  // namespace mbench::nn
