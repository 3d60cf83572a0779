#include "engine/nn/state/parameters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/device/on_stream.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// Elements of a weight from which its gradient is not set to zero with all others but made by its first product: fewer are
// written sooner than another launch begins.
constexpr std::int64_t kWorthMultiplying = std::int64_t{1} << 18;

// Of what a rank owns, the elements whose optimizer state is in host memory: the first ones, in whole cache lines.
std::int64_t share_on_host(const StatePlan& state, std::int64_t owned) {
  if (state.optimizer_at == Residence::device) return 0;
  constexpr std::int64_t kLine = 64;
  const auto share = static_cast<std::int64_t>(std::ceil(static_cast<double>(owned) * state.host_share));
  return std::min(owned, (share + kLine - 1) / kLine * kLine);
}

}  // namespace

void zero_if_stale(Device& device, Parameter& p) {
  if (std::exchange(p.stale, false)) run(device, ops::Fill{p.gradient, 0});
}

Parameter* ParameterStore::add(const WeightSpec& spec, const Spread& placement, const Spread& tokens,
                               const Spread& outputs) {
  auto p = std::make_unique<Parameter>();
  p->spec = spec;
  p->placement = placement;
  p->reduce_over = plan_.mesh.real(reduce_over(placement, tokens, outputs));
  p->local = spec.shape;
  for (int i = 0; i < kAxes; ++i)
    if (const Placement& place = placement[static_cast<Axis>(i)]; place.sharded())
      p->local[place.dim] /= plan_.mesh.size(static_cast<Axis>(i));
  p->unit = unit_count();
  p->trains = !plan_.adapter.on() || spec.adapter || spec.thawed;
  if (!p->trains) return frozen_.add(std::move(p));
  p->index = parameters_.size();
  parameters_.push_back(std::move(p));
  return parameters_.back().get();
}

int ParameterStore::close_unit() {
  Unit unit;
  for (; closed_ < parameters_.size(); ++closed_) unit.parameters.push_back(parameters_[closed_].get());
  units_.push_back(std::move(unit));
  return unit_count() - 1;
}

Tensor ParameterStore::add_state(const Shape& shape, std::string_view what) {
  const Tensor state = device_.empty(shape, DType::f32, Category::other, what);
  run(device_, ops::Fill{state, 0});
  return state;
}

Tensor ParameterStore::add_constants(const Shape& shape, const std::vector<float>& values, std::string_view what) {
  const Tensor constants = device_.empty(shape, plan_.precision.model, Category::other, what);
  const std::int64_t each = constants.numel() / static_cast<std::int64_t>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    run(device_, ops::Fill{constants.part(static_cast<std::int64_t>(i) * each, {each}), values[i]});
  return constants;
}

void ParameterStore::lay_out() {
  std::vector<StateLayout::Item> items;
  for (const auto& p : parameters_)
    items.push_back({p->local.numel(), p->reduce_over & kDataAxes, p->unit, p->shared_by_ends, p->fp8 >= 0,
                     plan_.optimizer.two_kinds() && is_matrix_of_layers(p->spec) ? 1 : 0});
  layout_ = StateLayout(state(), items, {unit_count(), chunk_starts_}, bucket_elements(), plan_.optimizer.alignment(),
                        [&](Axes data) {
                          const comm::Group& group = groups_.over(data & kStateAxes);
                          return StateLayout::Peers{group.rank(), group.size()};
                        });
  for (const auto& p : parameters_) p->offset = layout_.range(p->index).begin;
  buckets_.resize(layout_.buckets().size());
  if (!state().sharded()) return;
  for (const auto& p : parameters_)
    for (const int b : layout_.buckets_of(p->unit))
      if (p->offset >= layout_.buckets()[static_cast<std::size_t>(b)].begin &&
          p->offset < layout_.buckets()[static_cast<std::size_t>(b)].end)
        bucket_of_.push_back(b);
}

void ParameterStore::begin_gradients() {
  // Sharded ones begin with zeros in the tensors that micro batches fill, and add up in this one. On a device that only counts,
  // the first micro batch stands for all of them (engine/sim/recording/recorder.h).
  if (plan_.keeps().zeroed_gradients || !device_.real() || state().gradients.sharded() ||
      state().cut == StatePlan::Cut::first)
    return run(at(state().gradients_at), ops::Fill{gradients_, 0});
  // Parameters lie in the order in which they were added, or in one that the layout chose.
  std::vector<Parameter*> stale;
  for (const auto& p : parameters_) {
    p->stale = p->local.rank() > 1 && p->local.numel() >= kWorthMultiplying;
    if (p->stale) stale.push_back(p.get());
  }
  std::sort(stale.begin(), stale.end(), [](const Parameter* a, const Parameter* b) { return a->offset < b->offset; });
  std::int64_t from = 0;
  const auto fill_to = [&](std::int64_t end) {
    if (from < end) run(device_, ops::Fill{gradients_.part(from, {end - from}), 0});
  };
  for (const Parameter* p : stale) {
    fill_to(p->offset);
    from = p->offset + p->local.numel();
  }
  fill_to(gradients_.numel());
}

ParameterStore::Use ParameterStore::use(std::vector<int> units, Gradients gradients, const std::vector<int>& next,
                                        const std::vector<int>& then) {
  // Units that are used together travel together.
  if (state().weights.sharded() && units.size() > 1 && gradients != Gradients::rest)
    for (const int unit : units)
      for (const int b : layout_.buckets_of(unit)) fetch(b);
  for (const int unit : units) begin_use(unit, gradients);
  if (state().weights.sharded())
    for (const int unit : next) {
      for (const int b : layout_.buckets_of(unit)) fetch(b);
      frozen_.fetch(unit);
    }
  if (state().weights_at == Residence::host)
    for (const int unit : then)
      for (const int b : layout_.buckets_of(unit)) bring(b);
  return Use(*this, std::move(units), gradients);
}

void ParameterStore::begin_use(int index, Gradients gradients) {
  Unit& unit = units_[static_cast<std::size_t>(index)];
  if (gradients != Gradients::rest && unit.users++ == 0) {
    for (const int b : layout_.buckets_of(index)) {
      if (state().weights.sharded()) fetch(b);
      wait_for(b, gradients == Gradients::no);
    }
    for (Parameter* p : unit.parameters)
      p->value =
          state().weights.sharded() ? within(bucket(bucket_of(*p)).weights, *p) : weights_at(p->offset, p->local);
    frozen_.begin_use(index);
  }
  if (gradients == Gradients::no || unit.gradient_users++ > 0) return;
  if (state().gradients.sharded())
    for (const int b : layout_.buckets_of(index)) open_gradients(b);
  for (Parameter* p : unit.parameters)
    p->gradient = state().gradients.sharded() ? within(bucket(bucket_of(*p)).gradients, *p) : gradient_of(*p);
}

void ParameterStore::end_use(int index, Gradients gradients) {
  Unit& unit = units_[static_cast<std::size_t>(index)];
  if (gradients != Gradients::no && --unit.gradient_users == 0)
    for (Parameter* p : unit.parameters) {
      if (gradients != Gradients::partly) zero_if_stale(device_, *p);
      p->gradient.reset();
    }
  if (gradients == Gradients::rest || --unit.users > 0) return;
  for (Parameter* p : unit.parameters) {
    if (std::exchange(p->lent, false)) run(device_, ops::Fill{p->value, 0});
    p->value.reset();
  }
  frozen_.end_use(index);
  if (state().weights.sharded())
    for (const int b : layout_.buckets_of(index)) bucket(b).weights.reset();
}

Tensor ParameterStore::within(const Tensor& whole, const Parameter& p) const {
  return whole.part(p.offset - layout_.buckets()[static_cast<std::size_t>(bucket_of(p))].begin, p.local);
}

// Starts to copy this rank's part of a bucket from the host, unless that or the bucket is there or under way.
void ParameterStore::bring(int b) {
  Bucket& mine = bucket(b);
  if (mine.weights || mine.arrived || mine.shard) return;
  const Tensor own = own_weights(layout_.own_of(b).front());
  mine.shard = device_.empty(own.shape(), own.dtype(), Category::weights, "weights of a unit from the host");
  mine.copy = device_.start_copy(CopyWay::to_device, own, mine.shard);
}

void ParameterStore::wait_for_copy(int b) {
  if (const auto copy = std::move(bucket(b).copy)) copy->wait();
}

// This rank's part of a bucket in the model's type, made of its f32 originals.
Tensor ParameterStore::cast(int b) {
  const StateLayout::Own own = layout_.own_of(b).front();
  Tensor& shard = bucket(b).shard;
  shard = device_.empty({own.size()}, plan_.precision.model, Category::weights, "weights of a rank's part, cast");
  run(device_, ops::Copy{main_.part(own.at, {own.size()}), shard});
  return shard;
}

// Starts to gather a bucket of sharded weights, unless it is there or under way.
void ParameterStore::fetch(int b) {
  Bucket& mine = bucket(b);
  if (mine.weights || mine.arrived) return;
  // The part that is sent, and what arrives.
  const OnStream gathers(MemoryStream::gathers);
  const bool from_host = state().weights_at == Residence::host;
  if (from_host) bring(b);
  const StateLayout::Own part = layout_.own_of(b).front();
  const bool casts = casts_gathers() && part.begin < layout_.fp8_begin();
  const Tensor own = casts ? cast(b) : from_host ? mine.shard : own_weights(part);
  if (alone(b)) {
    mine.weights = own;
    return;
  }
  wait_for_copy(b);
  const StateLayout::Bucket& all = layout_.buckets()[static_cast<std::size_t>(b)];
  Tensor& gathered = plan_.keeps().copied_gathers ? mine.arrived : mine.weights;
  gathered = device_.empty({all.size()}, own.dtype(), Category::weights, "gathered weights of a unit");
  mine.arriving.push_back(groups_.over(all.sharers()).start(comm::AllGather{own, gathered}));
}

void ParameterStore::fetch_updated() {
  fp8_.quantise(device_, groups_);
  if (gathers_in_gradients())
    for (const auto& p : parameters_) p->lent = p->fp8 >= 0;
  if (!state().sharded() || state().weights.sharded()) return;
  // In the order in which they are used first.
  const auto first_unit = [&](int b) { return layout_.buckets()[static_cast<std::size_t>(b)].units.front(); };
  std::vector<int> order(buckets_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, first_unit);
  for (const int b : order) {
    if (alone(b)) continue;
    const StateLayout::Bucket& all = layout_.buckets()[static_cast<std::size_t>(b)];
    comm::Group& peers = groups_.over(all.sharers());
    auto& arriving = bucket(b).arriving;
    for (const StateLayout::Part& part : all.parts) {
      const Tensor weights =
          main_whole() ? main_.part(part.begin, {part.size()}) : weights_at(part.begin, {part.size()});
      if (state().cut == StatePlan::Cut::first)
        peers.run(comm::Broadcast{weights, part.owner});
      else
        arriving.push_back(peers.start(comm::Broadcast{weights, part.owner}));
    }
    if (all.parts.empty())
      arriving.push_back(
          peers.start(comm::AllGather{own_weights(layout_.own_of(b).front()), weights_at(all.begin, {all.size()})}));
  }
  if (plan_.overlap_param_gather) return;
  for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) wait_for(b);
}

void ParameterStore::wait_for(int b, bool holds) {
  wait_for_copy(b);
  Bucket& mine = bucket(b);
  for (auto& pending : mine.arriving) pending->wait();
  if (main_whole() && !mine.arriving.empty()) {
    const StateLayout::Bucket& all = layout_.buckets()[static_cast<std::size_t>(b)];
    run(device_, ops::Copy{main_.part(all.begin, {all.size()}), weights_at(all.begin, {all.size()})});
  }
  mine.arriving.clear();
  mine.shard.reset();
  if (const Tensor arrived = std::exchange(mine.arrived, Tensor())) {
    mine.weights = device_.empty(arrived.shape(), arrived.dtype(), Category::weights, "weights of a unit");
    run(device_, ops::Copy{arrived, mine.weights});
    // FSDP2 frees it in forward once the next has arrived, so that the next copy to send does not wait for this one.
    if (holds) arrived_last_ = arrived;
  }
}

void ParameterStore::open_gradients(int b) {
  Bucket& mine = bucket(b);
  if (mine.gradients) return;
  if (alone(b) && state().gradients_at == Residence::device) {
    mine.gradients = own_gradients(layout_.own_of(b).front());
    return;
  }
  // Some frameworks make room for a full one, however few are in it.
  const std::int64_t size = layout_.buckets()[static_cast<std::size_t>(b)].size();
  const bool full = plan_.framework->buckets.whole && !state().weights.sharded();
  const std::int64_t room = full ? std::max(size, bucket_elements()) : size;
  const DType dtype = copies_gradients(b) ? plan_.precision.model : plan_.precision.gradients;
  mine.gradients = device_.empty({room}, dtype, Category::gradients, "gradients of a bucket").part(0, {size});
  run(device_, ops::Fill{mine.gradients, 0});
}

Tensor ParameterStore::gradients_to_reduce(int b) {
  Bucket& mine = bucket(b);
  if (copies_gradients(b)) {
    const Tensor made = std::exchange(mine.gradients, Tensor());
    mine.gradients =
        device_.empty(made.shape(), plan_.precision.gradients, Category::gradients, "gradients of a bucket to reduce");
    run(device_, ops::Copy{made, mine.gradients});
  }
  return bucket_gradients(b);
}

Tensor ParameterStore::bucket_gradients(int b) const {
  if (state().gradients.sharded()) return buckets_[static_cast<std::size_t>(b)].gradients;
  const StateLayout::Bucket& all = layout_.buckets()[static_cast<std::size_t>(b)];
  return gradients_.part(all.begin, {all.size()});
}

Tensor ParameterStore::own_gradient(const Parameter& p) const {
  if (!state().sharded()) return gradient_of(p);
  for (const StateLayout::Own& own : layout_.own_of(bucket_of(p))) {
    const std::int64_t begin = std::max(own.begin, p.offset), end = std::min(own.end, p.offset + p.local.numel());
    if (begin < end) return own_gradients(own).part(begin - own.begin, {end - begin});
  }
  return Tensor();
}

void ParameterStore::allocate_and_initialise() {
  lay_out();
  frozen_.allocate_and_initialise(unit_count(), initial_);
  scales_.allocate(device_);
  const PrecisionPlan& precision = plan_.precision;
  const auto elements = [&](const Placement& place) {
    return Shape{place.sharded() ? layout_.owned() : layout_.size()};
  };
  const Shape weights{state().weights.sharded() ? layout_.fp8_at() : layout_.fp8_begin()};
  Device &weights_home = at(state().weights_at), &optimizer_home = at(state().optimizer_at);
  if (!casts_gathers()) weights_ = weights_home.empty(weights, precision.model, Category::weights, "weights");
  const bool gradients_on_host = state().gradients_at == Residence::host;
  gradients_ = at(state().gradients_at)
                   .empty(elements(state().gradients), gradients_on_host ? DType::f32 : precision.gradients,
                          Category::gradients, "gradients");
  Shape main = elements(main_placement());
  host_elements_ = share_on_host(state(), layout_.owned());
  if (host_elements_ > 0) main = Shape{host_elements_};
  main_ =
      main_separate() ? optimizer_home.empty(main, precision.main, Category::optimizer, "f32 main weights") : weights_;
  const std::int64_t beside = layout_.owned() - host_elements_;
  if (host_elements_ > 0 && beside > 0 && precision.main_weights() && !state().main_on_device)
    main_beside_ = device_.empty({beside}, precision.main, Category::optimizer, "f32 main weights");
  if (state().main_on_device)
    main_on_device_ =
        device_.empty(elements(state().optimizer), precision.main, Category::optimizer, "f32 main weights");
  fp8_.allocate(device_, plan_, layout_, main_, gradients_, scales_);
  run(optimizer_home, ops::Fill{main_, 0});
  if (main_beside_) run(device_, ops::Fill{main_beside_, 0});
  if (main_on_device_) run(device_, ops::Fill{main_on_device_, 0});
  run(at(state().gradients_at), ops::Fill{gradients_, 0});
  // Where the f32 originals are all on the device, and in one place, values are drawn there.
  const bool whole = main_.numel() == layout_.size() && !state().weights.sharded() &&
                     state().optimizer_at == Residence::device && precision.main == DType::f32;
  if (!whole && main_separate() && weights_) run(weights_home, ops::Fill{weights_, 0});
  for (const auto& p : parameters_) whole ? initialise(*p) : initialise_by_blocks(*p);
  if (whole && main_separate()) run(device_, ops::Copy{main_.part(0, weights), weights_});
}

void ParameterStore::initialise(const Parameter& p) {
  initial_.set_rows(p, main_.part(p.offset, p.local), 0);
}

// Only what is kept here of the parameter: all of it in 16 bit where weights are whole, and the originals of this rank's
// own part.
void ParameterStore::initialise_by_blocks(const Parameter& p) {
  const auto owned = layout_.own_of(bucket_of(p));
  initial_.by_blocks(
      p,
      [&](std::int64_t begin, std::int64_t end) {
        return (!state().weights.sharded() && p.fp8 < 0) ||
               std::any_of(owned.begin(), owned.end(),
                           [&](const StateLayout::Own& own) { return own.begin < end && begin < own.end; });
      },
      [&](const Tensor& block, std::int64_t begin) { keep_block(block, p, begin); });
}

// Initial values that stand from element `begin` of the flat space on.
void ParameterStore::keep_block(const Tensor& block, const Parameter& p, std::int64_t begin) {
  const std::int64_t end = begin + block.numel();
  const bool in_fp8 = p.fp8 >= 0;  // made of the originals
  if (!state().weights.sharded() && !in_fp8) run(device_, ops::Copy{block, weights_.part(begin, {block.numel()})});
  for (const StateLayout::Own& own : layout_.own_of(bucket_of(p))) {
    const std::int64_t from = std::max(begin, own.begin), to = std::min(end, own.end);
    if (from >= to) continue;
    const Tensor values = block.part(from - begin, {to - from});
    const auto place = [&](const Tensor& flat) { return flat.part(own.at + from - own.begin, {to - from}); };
    const bool on_device = state().weights_at == Residence::device;
    if (main_on_device_) run(device_, ops::Copy{values, place(main_on_device_)});
    if (state().weights.sharded() && on_device && !in_fp8 && weights_) run(device_, ops::Copy{values, place(weights_)});
    if (state().optimizer_at == Residence::host)
      keep_main(values, own.at + from - own.begin);
    else if (main_separate())
      run(device_, ops::Copy{values, place(main_)});
    if (!on_device && main_separate()) run(device_.host(), ops::Copy{place(main_), place(weights_)});
  }
}

// Originals that stand from `at` on among what this rank owns: the host's, and behind them the device's.
void ParameterStore::keep_main(const Tensor& values, std::int64_t at) {
  const std::int64_t on_host = std::clamp<std::int64_t>(host_elements_ - at, 0, values.numel());
  const std::int64_t beside = values.numel() - on_host;
  if (on_host > 0)
    device_.start_copy(CopyWay::to_host, values.part(0, {on_host}), main_.part(at, {on_host}))->wait_on_host();
  if (beside > 0 && main_beside_)
    run(device_, ops::Copy{values.part(on_host, {beside}), main_beside_.part(at + on_host - host_elements_, {beside})});
}

}  // namespace mbench::nn
