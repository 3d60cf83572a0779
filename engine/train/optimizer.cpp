#include "engine/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/ops/adam.h"
#include "engine/ops/adam_blockwise.h"
#include "engine/ops/copy.h"
#include "engine/ops/ranges.h"
#include "engine/ops/run.h"
#include "engine/ops/sgd.h"
#include "engine/ops/sum_squares.h"
#include "engine/train/adafactor.h"
#include "engine/train/muon.h"

namespace mbench::train {
namespace {

constexpr Axes kModelParallel{Axis::tp, Axis::pp};

void append(std::vector<ops::ElementRange>& ranges, const ops::ElementRange& next) {
  if (!ranges.empty() && ranges.back().end == next.begin)
    ranges.back().end = next.end;
  else
    ranges.push_back(next);
}

}  // namespace

void LossScaler::update(bool overflow) {
  if (!dynamic_) return;
  if (overflow) {
    scale_ = std::max(1.0f, scale_ / 2);
    good_steps_ = 0;
  } else if (++good_steps_ == kGrowthInterval) {
    scale_ *= 2;
    good_steps_ = 0;
  }
}

Optimizer::Optimizer(Device& device, const Plan& plan, const nn::ParameterStore& store, const nn::Groups& groups)
    : device_(device),
      plan_(plan),
      store_(store),
      groups_(groups),
      everyone_(plan.state.sharded() || plan.model.experts > 0),
      norm_group_(everyone_ ? groups.all() : groups.over(kModelParallel)),
      scaler_(plan.precision.loss_scaling) {
  allocate_states();
  norm_ = device.empty({1}, DType::f32, Category::optimizer, "gradient norm");
  if (plan.state.gradients_at == Residence::host)
    norm_on_host_ = device.host().empty({1}, DType::f32, Category::optimizer, "gradient norm");
  if (plan.capture)
    by_step_ = device.empty({ops::kAdamStep}, DType::f32, Category::optimizer, "what the optimizer's step reads");
  plan.optimizer.by_parameter() ? make_pieces_of_parameters() : make_pieces();
  if (plan.state.optimizer_at == Residence::host) open_host_update();
  for (const auto& p : store.all()) own_tensors_ += own_tensors(*p);
}

// Where experts lie in one tensor, [experts, out, in], they are as many weight tensors of the model's.
std::int64_t Optimizer::own_tensors(const nn::Parameter& p) const {
  const Tensor own = store_.own_gradient(p);
  if (!own) return 0;
  const std::int64_t one = p.local.rank() == 3 ? p.local.numel() / p.local[0] : p.local.numel();
  return (own.numel() + one - 1) / one;
}

// What is not read before it is written, the codes of blocks whose scale is zero, stays as it is.
void Optimizer::allocate_states() {
  const OptimizerPlan& plan = plan_.optimizer;
  const std::int64_t owned = store_.layout().owned(), on_host = store_.host_elements();
  Device& home = store_.at(plan_.state.optimizer_at);
  const auto make = [&](Device& device, std::int64_t elements, const OptimizerState& state) {
    const Tensor made = device.empty({elements}, state.dtype, Category::optimizer, state.name);
    if (is_float(state.dtype)) run(device, ops::Fill{made, 0});
    return made;
  };
  for (const OptimizerState& state : plan.states) {
    const bool of_all = state.of == StateOf::all;
    const std::int64_t elements = of_all && state.extent == StateExtent::element ? owned
                                  : of_all && state.extent == StateExtent::block ? owned / kStateBlock
                                                                                 : most_owned(state);
    const bool shared = on_host > 0 && on_host < owned;
    states_.push_back(make(home, shared ? on_host : elements, state));
    if (shared) states_beside_.push_back(make(device_, owned - on_host, state));
  }
}

Optimizer::Piece Optimizer::piece_at(std::int64_t at, std::int64_t begin, std::int64_t size) const {
  const StatePlan& state = store_.state();
  const auto part_of = [&](const Tensor& flat, const Placement& place) {
    return flat.part(place.sharded() ? at : begin, {size});
  };
  Piece piece;
  piece.at = at;
  piece.gradients = part_of(store_.gradients(), state.gradients);
  // What lives in FP8 has originals alone, of which a step makes it (Fp8Parameters), and so has what is cast for each gather.
  if (begin < store_.layout().fp8_begin() && store_.weights()) piece.main = part_of(store_.weights(), state.weights);
  if (store_.main_on_device()) piece.main_on_device = part_of(store_.main_on_device(), state.optimizer);
  if (beside_host(at)) {
    keep_beside(piece, at - store_.host_elements(), size);
    return piece;
  }
  if (store_.main_separate()) piece.model = std::exchange(piece.main, part_of(store_.main(), store_.main_placement()));
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const StateExtent extent = plan_.optimizer.states[i].extent;
    if (plan_.optimizer.states[i].of != StateOf::all) continue;
    if (extent == StateExtent::element) piece.states.push_back(states_[i].part(at, {size}));
    if (extent == StateExtent::block)
      piece.states.push_back(states_[i].part(at / kStateBlock, {elements_of(extent, {size})}));
  }
  return piece;
}

// A piece that the device updates though the host has the state of others: from `at` on among those.
void Optimizer::keep_beside(Piece& piece, std::int64_t at, std::int64_t size) const {
  piece.on_host = false;
  const Tensor main = store_.main_beside() ? store_.main_beside().part(at, {size}) : piece.main_on_device;
  if (main) piece.model = std::exchange(piece.main, main);
  piece.main_on_device = Tensor();
  for (const Tensor& state : states_beside_) piece.states.push_back(state.part(at, {size}));
}

// What this rank owns; a range of which the host has the state in part is two.
std::vector<nn::StateLayout::Own> Optimizer::owned_ranges() const {
  std::vector<nn::StateLayout::Own> all;
  for (const nn::StateLayout::Own& own : store_.layout().own()) {
    const std::int64_t on_host = store_.host_elements() - own.at;
    if (store_.host_elements() == 0 || on_host <= 0 || on_host >= own.size()) {
      all.push_back(own);
      continue;
    }
    all.push_back({{own.begin, own.begin + on_host}, own.bucket, own.at});
    all.push_back({{own.begin + on_host, own.end}, own.bucket, own.at + on_host});
  }
  return all;
}

void Optimizer::make_pieces() {
  const std::vector<nn::StateLayout::Own> all = owned_ranges();
  const StatePlan& state = store_.state();
  const bool everywhere_sharded = state.weights.sharded() && state.gradients.sharded();
  for (std::size_t i = 0; i < all.size();) {
    // What lies together in every tensor is updated together.
    std::size_t next = i + 1;
    const bool in_fp8 = all[i].begin >= store_.layout().fp8_begin();
    while (next < all.size() && (everywhere_sharded || all[next].begin == all[next - 1].end) &&
           (all[next].begin >= store_.layout().fp8_begin()) == in_fp8 &&
           beside_host(all[next].at) == beside_host(all[i].at))
      ++next;
    const nn::StateLayout::Own &first = all[i], &last = all[next - 1];
    Piece piece = piece_at(first.at, first.begin, last.at + last.size() - first.at);
    for (; i < next; ++i) mark(all[i], piece, all[i].at - piece.at);
    pieces_.push_back(std::move(piece));
  }
}

// Of each parameter what this rank owns of it, without the alignment behind it.
void Optimizer::make_pieces_of_parameters() {
  std::vector<std::int64_t> used(states_.size(), 0);  // of states by rows and columns
  for (const nn::StateLayout::Own& own : owned_ranges())
    for (const auto& p : store_.all()) {
      const std::int64_t begin = std::max(own.begin, p->offset), end = std::min(own.end, p->offset + p->local.numel());
      if (begin >= end) continue;
      const std::int64_t at = own.at + begin - own.begin;
      Piece piece = piece_at(at, begin, end - begin);
      piece.parameter = p.get();
      mark({{begin, end}, own.bucket, at}, piece, 0);
      for (std::size_t i = 0; i < states_.size(); ++i) {
        const OptimizerState& state = plan_.optimizer.states[i];
        const bool by_side = state.extent == StateExtent::row || state.extent == StateExtent::column;
        if ((state.of == StateOf::all && !by_side) || !state.holds(p->spec)) continue;
        check(end - begin == p->local.numel(), "optimizer", "{} is cut, and all of it is needed", p->name());
        const std::int64_t count = elements_of(state.extent, p->local);
        piece.states.push_back(states_[i].part(used[i], {count}));
        used[i] += room_of(state, *p);
      }
      pieces_.push_back(std::move(piece));
    }
}

// What a state of one parameter takes among those of others: rows and columns lie close, and elements begin where vectors fit.
std::int64_t Optimizer::room_of(const OptimizerState& state, const nn::Parameter& p) const {
  if (!state.holds(p.spec)) return 0;
  const std::int64_t count = elements_of(state.extent, p.local), unit = plan_.optimizer.alignment();
  return state.extent == StateExtent::element ? (count + unit - 1) / unit * unit : count;
}

// Of the parameters that a rank owns; where whole ones have owners, of the rank with most, so that all have as much memory.
std::int64_t Optimizer::most_owned(const OptimizerState& state) const {
  const nn::StateLayout& layout = store_.layout();
  if (!store_.state().sharded()) {
    std::int64_t all = 0;
    for (const auto& p : store_.all()) all += room_of(state, *p);
    return all;
  }
  std::map<Axes, std::map<int, std::int64_t>> by_owner;
  for (const nn::StateLayout::Bucket& bucket : layout.buckets())
    for (const nn::StateLayout::Part& part : bucket.parts)
      for (const auto& p : store_.all())
        if (p->offset >= part.begin && p->offset < part.end) by_owner[bucket.data][part.owner] += room_of(state, *p);
  std::int64_t most = 0;
  for (const auto& [axes, owners] : by_owner) {
    std::int64_t of_axes = 0;
    for (const auto& [owner, elements] : owners) of_axes = std::max(of_axes, elements);
    most += of_axes;
  }
  return most;
}

// Whether this rank counts what it owns of a parameter: of the ranks that own the same, the first does.
bool Optimizer::counts(const nn::Parameter& p) const {
  if (!p.counted) return false;
  constexpr Axes kDense = kDenseAxes - Axes{Axis::pp}, kExperts = kExpertAxes - Axes{Axis::pp};
  Axes copies = !everyone_ ? Axes{Axis::tp} : is_expert(p.spec.role) ? kExperts : kDense;
  if (store_.state().sharded()) copies = copies - (p.reduce_over & kStateAxes);
  for (const Axis axis : copies.list())
    if (groups_.coordinate(axis) > 0 && !p.placement[axis].sharded()) return false;
  return true;
}

// Which elements of an own part, that begins there in the piece, count in the norm and which are not decayed. The alignment gaps between parameters have zero gradients
// and weights and so may be part of any range.
void Optimizer::mark(const nn::StateLayout::Own& own, Piece& piece, std::int64_t begin) const {
  for (const auto& p : store_.all()) {
    const nn::StateLayout::Range& all = store_.layout().range(p->index);
    const std::int64_t from = std::max(all.begin, own.begin), to = std::min(all.end, own.end);
    if (from >= to) continue;
    const ops::ElementRange range{begin + from - own.begin, begin + to - own.begin};
    if (counts(*p)) append(piece.counted, range);
    if (!p->decays()) append(piece.undecayed, range);
  }
}

void Optimizer::sum_squares(const std::vector<Tensor>& gradients) {
  Device& home = store_.at(plan_.state.gradients_at);
  const Tensor& sum = norm_on_host_ ? norm_on_host_ : norm_;
  run(home, ops::Fill{sum, 0});
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    if (const auto& counted = pieces_[i].counted; !counted.empty())
      run(home, ops::SumSquares{gradients[i], sum, counted});
  if (norm_on_host_) device_.start_copy(CopyWay::to_device, norm_on_host_, norm_)->wait();
  norm_group_.run(comm::AllReduce{norm_});
}

// What the host updates by comes over as it is, but where the device keeps f32 originals it has f32 gradients for them too. An optimizer with
// moments in 16 bits (Megatron-Core's --use-precision-aware-optimizer) reads 16-bit gradients as they are, but with FP8 whose scales are not
// delayed (use_precision_aware_optimizer_no_fp8_or_ds_fp8 of its optimizer_config.py).
bool Optimizer::copies_gradients() const {
  const PrecisionPlan& precision = plan_.precision;
  const bool reads_them = precision.moments != DType::f32 && (!precision.fp8 || *precision.fp8 == Fp8Recipe::delayed);
  return plan_.keeps().gradient_copy_in_f32 && store_.gradients().dtype() != DType::f32 && !reads_them &&
         (plan_.state.optimizer_at == Residence::device || plan_.state.main_on_device);
}

std::vector<Tensor> Optimizer::in_f32(float scale) {
  std::vector<Tensor> gradients;
  const Tensor copy =
      device_.empty({store_.layout().owned()}, DType::f32, Category::gradients, "f32 copy of the gradients");
  for (const Piece& piece : pieces_) {
    gradients.push_back(copy.part(piece.at, piece.gradients.shape()));
    run(device_, ops::Copy{piece.gradients, gradients.back(), scale});
  }
  return gradients;
}

float Optimizer::learning_rate() const {
  const TrainingPlan& p = plan_.training;
  const double ramp =
      p.lr_warmup > 0 ? std::min(1.0, static_cast<double>(steps_seen_ + 1) / static_cast<double>(p.lr_warmup)) : 1.0;
  return static_cast<float>(p.learning_rate * ramp);
}

Optimizer::Outcome Optimizer::step() {
  const TrainingPlan& p = plan_.training;
  float scale = 1 / scaler_.scale();
  std::vector<Tensor> gradients;  // by piece
  if (copies_gradients()) {
    gradients = in_f32(scale);
    scale = 1;
  } else {
    for (const Piece& piece : pieces_) gradients.push_back(piece.gradients);
  }
  sum_squares(gradients);
  Outcome outcome;
  outcome.gradient_norm = std::sqrt(device_.read(norm_, 1.0f)) * scale;
  device_.host_work(HostWork::parameter, static_cast<int>(own_tensors_));
  const bool overflow = !std::isfinite(outcome.gradient_norm);
  outcome.skipped = overflow && plan_.precision.loss_scaling;
  scaler_.update(outcome.skipped);
  const float lr = learning_rate();
  ++steps_seen_;
  if (overflow) return outcome;  // in other precisions the caller calls the point wrong

  if (p.clip_grad > 0) scale *= std::min(1.0f, static_cast<float>(p.clip_grad) / (outcome.gradient_norm + 1e-6f));
  ++steps_taken_;
  const Update how{lr, static_cast<float>(p.weight_decay), scale, steps_taken_};
  if (host_update_) {
    // The device updates its own while gradients travel.
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (!pieces_[i].on_host) update(pieces_[i], gradients[i], how);
    update_on_host(gradients, how);
  } else if (plan_.optimizer.kind == OptimizerKind::adafactor) {
    update_matrices(gradients, how);
  } else if (plan_.optimizer.kind == OptimizerKind::muon) {
    update_by_muon(gradients, how);
  } else {
    for (std::size_t i = 0; i < pieces_.size(); ++i) update(pieces_[i], gradients[i], how);
  }
  return outcome;
}

void Optimizer::open_host_update() {
  // What is owned, which is as much on every rank, not the largest piece.
  const bool converted =
      plan_.precision.main_weights() && plan_.state.weights_at == Residence::device && !plan_.state.main_on_device;
  std::optional<DType> come;
  if (plan_.state.gradients_at == Residence::device)
    come = copies_gradients() ? DType::f32 : store_.gradients().dtype();
  host_update_.emplace(device_, store_.host_elements(), come,
                       converted ? std::optional(plan_.precision.model) : std::nullopt);
}

void Optimizer::update_on_host(const std::vector<Tensor>& gradients, const Update& how) {
  const bool weights_on_host = plan_.state.weights_at == Residence::host;
  std::vector<HostUpdate::Piece> pieces;
  std::vector<std::size_t> numbers;  // of them, in pieces_
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (!piece.on_host) continue;
    numbers.push_back(i);
    const Tensor& to = piece.main_on_device ? piece.main_on_device : piece.model;
    pieces.push_back({gradients[i], weights_on_host ? Tensor() : to});
  }
  host_update_->run(pieces, [&](const HostUpdate::Chunk& c) {
    const Piece& piece = pieces_[numbers[c.piece]];
    const auto part = [&](const Tensor& all) { return all ? all.part(c.begin, {c.size}) : Tensor(); };
    const auto undecayed = ops::ranges_within(piece.undecayed, c.begin, c.begin + c.size);
    ops::Adam adam{part(piece.main), c.gradients, part(piece.states[0]), part(piece.states[1]),
                   weights_on_host ? part(piece.model) : c.converted};
    adam.lr = how.lr;
    adam.weight_decay = how.weight_decay;
    adam.grad_scale = how.gradient_scale;
    adam.step = how.step;
    adam.undecayed = undecayed;
    mbench::run(device_.host(), adam);
    return c.converted ? c.converted : adam.param;
  });
  for (const Piece& piece : pieces_)
    if (piece.on_host && piece.main_on_device && piece.model)
      run(device_, ops::Copy{piece.main_on_device, piece.model});
}

void Optimizer::update(const Piece& piece, const Tensor& gradients, const Update& how) {
  // What every op of an optimizer takes.
  const auto run_on = [&](auto op) {
    op.param = piece.main, op.grad = gradients, op.model = piece.model;
    op.lr = how.lr, op.weight_decay = how.weight_decay, op.grad_scale = how.gradient_scale;
    op.undecayed = piece.undecayed;
    run(device_, op);
  };
  switch (plan_.optimizer.kind) {
    case OptimizerKind::adamw:
    case OptimizerKind::muon: {  // of what is no matrix of a layer
      ops::Adam adam;
      adam.m = piece.states[0], adam.v = piece.states[1], adam.step = how.step;
      return run_on(adam);
    }
    case OptimizerKind::adamw8bit: {
      ops::AdamBlockwise adam;
      adam.m = piece.states[0], adam.m_scale = piece.states[1];
      adam.v = piece.states[2], adam.v_scale = piece.states[3], adam.step = how.step;
      return run_on(adam);
    }
    case OptimizerKind::sgd: {
      ops::Sgd sgd;
      sgd.velocity = piece.states[0];
      return run_on(sgd);
    }
    case OptimizerKind::adafactor:
      break;  // all of its matrices together
  }
  fail(ErrorKind::internal, "optimizer", "no op for {}", name_of(plan_.optimizer.kind));
}

void Optimizer::update_by_muon(const std::vector<Tensor>& gradients, const Update& how) {
  std::vector<Muon::Item> items;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (is_matrix_of_layers(piece.parameter->spec))
      items.push_back({piece.parameter, piece.main, gradients[i], piece.model, piece.states[0]});
    else
      update(piece, gradients[i], how);
  }
  Muon(device_, plan_, groups_).step(items, {how.lr, how.weight_decay, how.gradient_scale});
}

void Optimizer::update_matrices(const std::vector<Tensor>& gradients, const Update& how) {
  std::vector<Adafactor::Item> items;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    items.push_back({piece.parameter, piece.main, gradients[i], piece.model, piece.states[0], piece.states[1]});
  }
  Adafactor(device_, plan_, groups_).step(items, {how.lr, how.weight_decay, how.gradient_scale, how.step});
}

}  // namespace mbench::train
