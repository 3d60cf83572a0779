#include "engine/train/trainer.h"

#include <limits>

#include "engine/comm/gather.h"
#include "engine/nn/replicas.h"
#include "engine/nn/router.h"
#include "engine/ops/attention_mask.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench {
namespace {

// "forward 3" or, where a stage has several chunks, "forward 3 of chunk 1".
std::string phase_name(const Action& a) {
  return a.chunk == 0 ? fmt::format("{} {}", name_of(a.kind), a.micro)
                      : fmt::format("{} {} of chunk {}", name_of(a.kind), a.micro, a.chunk);
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

// Of values for [positions, batch], those of the share's.
template <class T>
std::vector<T> rows_of(const SequenceShare& share, const std::vector<T>& all, std::int64_t batch) {
  std::vector<T> mine;
  mine.reserve(static_cast<std::size_t>(share.rows() * batch));
  for (std::int64_t row = 0; row < share.rows(); ++row) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(share.position(row) * batch);
    mine.insert(mine.end(), at, at + static_cast<std::ptrdiff_t>(batch));
  }
  return mine;
}

// [batch, positions] -> [chunks, batch, positions of a chunk].
std::vector<std::uint8_t> chunk_by_chunk(const std::vector<std::uint8_t>& all, std::int64_t batch,
                                         std::int64_t chunks) {
  const std::int64_t seq = static_cast<std::int64_t>(all.size()) / batch, length = seq / chunks;
  std::vector<std::uint8_t> out;
  out.reserve(all.size());
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(b * seq + chunk * length);
      out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(length));
    }
  return out;
}

// The memory of a recorded step is its own even while no tensor holds it.
class NothingMore final : public AllocationObserver {
 public:
  void allocated(const std::byte*, std::size_t size, Category, std::string_view what) override {
    fail(ErrorKind::internal, "record", "{} bytes for {} on a device whose step is replayed, need none", size, what);
  }
  void released(const std::byte*) override {}
};

}  // namespace

Trainer::Trainer(const Plan& plan, Device& device, World& world, const TokenSource* data)
    : plan_(plan),
      device_(device),
      groups_(device, world, plan.mesh, plan.model.experts > 0),
      pipeline_(groups_.over({Axis::pp})),
      stage_(groups_.coordinate(Axis::pp)),
      dp_rank_(groups_.over(kBatchAxes).rank()),
      context_{device, plan, groups_, {}, 0},
      store_(device, plan, groups_) {
  Parameter* word = nullptr;
  for (const ChunkPlan& chunk : plan.chunks[stage_]) {
    chunks_.emplace_back(store_, plan, chunk, word);
    if (!word) word = chunks_.back().word();
  }
  store_.allocate_and_initialise();
  sync_ = std::make_unique<GradientSync>(device, plan, store_, groups_);
  optimizer_ = std::make_unique<Optimizer>(device, plan, store_, groups_);
  const RoutingSpec& routing = plan.model.parts().routing;
  if (plan.model.experts > 0 && (routing.balance_loss > 0 || routing.z_loss > 0))
    context_.router_losses = device.empty({1}, DType::f32, Category::other, "losses of routers");
  losses_ = device.empty({(1 + plan.model.mtp_layers) * plan.training.micro_batches}, DType::f32,
                         Category::other, "losses");
  open_loader(data);
  if (!plan.capture) return;
  context_.step_on_device = device.empty({1}, DType::i64, Category::other, "number of the step");
  for (int micro = 0; micro < plan.training.micro_batches; ++micro) inputs_.push_back(allocate_inputs(micro));
}

// Steps take batches as their forwards come, or all before they are replayed.
void Trainer::open_loader(const TokenSource* data) {
  const bool replicated = is_replicated(context_);
  if (!data || (replicated && dp_rank_ > 0)) return;  // the first replica has the samples of all
  const TrainingPlan& p = plan_.training;
  std::vector<int> order;
  if (plan_.capture)
    for (int micro = 0; micro < p.micro_batches; ++micro) order.push_back(micro);
  else
    for (const Action& a : plan_.schedule[stage_])
      if (a.kind == Action::Kind::forward) order.push_back(a.micro);
  loader_ = std::make_unique<Loader>(
      [this, data, replicated](std::int64_t step, int micro) {
        const TrainingPlan& t = plan_.training;
        const auto make = [&](std::int64_t first) {
          return make_batch(*data, plan_.model, t.seed, step, first, t.micro_batch, t.seq);
        };
        if (!replicated) return make(first_sample(micro));
        std::vector<HostBatch> of_replicas;
        for (int r = 0; r < plan_.mesh.size(kBatchAxes); ++r)
          of_replicas.push_back(make(first_sample(micro) + r * t.micro_batch));
        return join(of_replicas);
      },
      std::move(order), plan_.loader.workers);
}

std::int64_t Trainer::first_sample(int micro) const {
  return (static_cast<std::int64_t>(micro) * plan_.mesh.size(kBatchAxes) + dp_rank_) * plan_.training.micro_batch;
}

MicroBatch Trainer::allocate_inputs(int micro) {
  const TrainingPlan& p = plan_.training;
  const ModelParts& parts = plan_.model.parts();
  const SequenceShare share = context_.share();
  const std::int64_t b = p.micro_batch;
  MicroBatch batch;
  batch.sample0 = first_sample(micro);
  const auto make = [&](const Shape& shape, DType dtype, const char* what) {
    return device_.empty(shape, dtype, Category::activations, what);
  };
  const Shape rows{share.rows(), b};
  // What the loss is computed of: of replicas of one process the first has that of all.
  const bool replicated = is_replicated(context_), has_loss = !replicated || dp_rank_ == 0;
  const std::int64_t losses = replicated ? plan_.mesh.size(kBatchAxes) : 1;
  batch.tokens = make(rows, DType::i64, "tokens");
  if (has_loss) batch.labels = make({losses * rows[0], b}, DType::i64, "labels");
  batch.positions = make(rows, DType::i64, "positions");
  if (has_loss) batch.weights = make({losses * rows[0], b}, DType::f32, "loss weights");
  for (std::int64_t d = 0; d < plan_.model.mtp_layers; ++d) {
    MicroBatch::Ahead& ahead = batch.ahead.emplace_back();
    ahead.labels = make(rows, DType::i64, "labels further on");
    ahead.weights = make(rows, DType::f32, "their loss weights");
    ahead.loss = losses_.slice((d + 1) * p.micro_batches + micro, 1);
  }
  if (parts.token_types > 0) batch.token_types = make(rows, DType::i64, "token types");
  if (parts.objective == Objective::masked_words_and_order) {
    // Attention reads it chunk by chunk, or whole.
    const std::int64_t chunks = share.chunks() == 1 ? 1 : share.chunks() * share.ranks();
    batch.keep = make({chunks, b, p.seq / chunks}, DType::u8, "padding mask");
    if (has_loss) batch.order_labels = make({losses * b}, DType::i64, "sentence-order labels");
  }
  batch.loss = losses_.slice(micro, 1);
  if (plan_.capture) batch.factors = make({plan_.model.mtp_layers + 2, 2}, DType::f32, "factors of losses");
  return batch;
}

void Trainer::write_inputs(MicroBatch& batch, int micro) {
  const TrainingPlan& p = plan_.training;
  const SequenceShare share = context_.share();
  const std::int64_t b = p.micro_batch;
  batch.gradient_scale =
      optimizer_->loss_scale() / static_cast<float>(p.micro_batches * plan_.mesh.size(kBatchAxes));
  // The loss is of the first position alone: along cp it is a sum to which the other ranks add nothing.
  if (batch.order_labels)
    batch.order_inv_weight_sum = share.position(0) == 0 ? 1.0f / static_cast<float>(b) : 0.0f;
  const double depth_share =
      plan_.model.parts().mtp_loss_scaling_factor / static_cast<double>(batch.ahead.size());
  for (MicroBatch::Ahead& ahead : batch.ahead)
    ahead.gradient_scale = batch.gradient_scale * static_cast<float>(depth_share);
  if (is_replicated(context_)) return write_of_all(batch, micro);
  if (!loader_) return;
  HostBatch host = loader_->take(context_.step, micro);
  const auto put = [&](const Tensor& t, const auto& values) { device_.write(t, bytes_of(values)); };
  // Of a value for each position, those of this rank's share.
  const auto put_rows = [&](const Tensor& t, const auto& values) {
    share.ranks() > 1 ? put(t, rows_of(share, values, b)) : put(t, values);
  };
  put_rows(batch.tokens, host.tokens);
  put_rows(batch.labels, host.labels);
  put_rows(batch.positions, host.positions);
  put_rows(batch.weights, host.weights);
  batch.inv_weight_sum = static_cast<float>(1 / host.weight_sum);
  for (std::size_t d = 0; d < batch.ahead.size(); ++d) {
    put_rows(batch.ahead[d].labels, host.ahead[d].labels);
    put_rows(batch.ahead[d].weights, host.ahead[d].weights);
    batch.ahead[d].inv_weight_sum = static_cast<float>(1 / host.ahead[d].weight_sum);
  }
  if (batch.token_types) put_rows(batch.token_types, host.token_types);
  if (batch.keep) put(batch.keep, chunk_by_chunk(host.keep, b, batch.keep.shape()[0]));
  if (batch.order_labels) put(batch.order_labels, host.order_labels);
  if (batch.factors) write_factors(batch);
}

// The first replica writes what all of them read, and scatters it; what the loss needs stays with it.
void Trainer::write_of_all(MicroBatch& batch, int micro) {
  const std::int64_t replicas = plan_.mesh.size(kBatchAxes);
  HostBatch host;
  if (loader_) host = loader_->take(context_.step, micro);
  const auto share_out = [&](const Tensor& mine, const auto& values, const char* what) {
    if (!mine) return;
    Tensor all;
    if (dp_rank_ == 0) {
      all = device_.empty({replicas, mine.numel()}, mine.dtype(), Category::activations, what);
      if (loader_) device_.write(all, bytes_of(values));
    }
    scatter_from_first(context_, all, mine);
  };
  share_out(batch.tokens, host.tokens, "tokens of all replicas");
  share_out(batch.positions, host.positions, "positions of all replicas");
  share_out(batch.token_types, host.token_types, "token types of all replicas");
  share_out(batch.keep, host.keep, "padding masks of all replicas");
  batch.inv_weight_sum = 1;
  if (!loader_) return;
  device_.write(batch.labels, bytes_of(host.labels));
  device_.write(batch.weights, bytes_of(host.weights));
  if (batch.order_labels) device_.write(batch.order_labels, bytes_of(host.order_labels));
}

void Trainer::write_factors(const MicroBatch& batch) {
  std::vector<float> factors;
  const auto add = [&](float inv_weight_sum, float gradient_scale) {
    factors.push_back(inv_weight_sum);
    factors.push_back(gradient_scale * inv_weight_sum);
  };
  add(batch.inv_weight_sum, batch.gradient_scale);
  for (const MicroBatch::Ahead& ahead : batch.ahead) add(ahead.inv_weight_sum, ahead.gradient_scale);
  add(batch.order_inv_weight_sum, batch.gradient_scale);
  device_.write(batch.factors, bytes_of(factors));
}

// Whether a mask that no causal attention reads comes with a micro batch.
bool Trainer::brings_mask() const {
  return plan_.graph.mask_in_batch && plan_.model.parts().objective == Objective::next_token &&
         plan_.mesh.size(Axis::cp) == 1;
}

// What a forward reads: fetched for it, or there since before the step.
MicroBatch Trainer::inputs_of(int micro) {
  MicroBatch batch;
  if (plan_.capture) {
    batch = inputs_[static_cast<std::size_t>(micro)];
  } else {
    device_.host_work(HostWork::micro_batch);
    batch = allocate_inputs(micro);
    write_inputs(batch, micro);
  }
  if (plan_.graph.attention_mask) {
    const TrainingPlan& p = plan_.training;
    batch.attention_mask = device_.empty({batch.keep ? p.micro_batch : 1, p.seq, p.seq}, DType::u8,
                                         Category::activations, "attention mask");
    run(device_, ops::AttentionMask{keys_of(batch), batch.attention_mask});
  }
  if (brings_mask()) {
    const TrainingPlan& p = plan_.training;
    batch.attention_mask = device_.empty({p.micro_batch, p.seq, p.seq}, DType::u8, Category::activations,
                                         "attention mask of a micro batch");
    run(device_, ops::AttentionMask{Tensor(), batch.attention_mask});
  }
  return batch;
}

// Distinct for every message of a step: which chunk it is for, which micro batch, activation or gradient.
int Trainer::tag(int chunk_position, const Action& action) const {
  const bool gradient =
      action.kind == Action::Kind::send_gradient || action.kind == Action::Kind::receive_gradient;
  return (chunk_position * static_cast<int>(plan_.training.micro_batches) + action.micro) * 2 +
         (gradient ? 1 : 0);
}

void Trainer::send(const Action& action, int to, int tag_chunk, Tensor& tensor) {
  Sending& slot = sending_[{to, action.kind == Action::Kind::send_activation}];
  if (slot.pending) slot.pending->wait();
  slot.tensor = std::exchange(tensor, Tensor());
  slot.pending = pipeline_.start_send(slot.tensor, to, tag(tag_chunk, action));
}

Tensor Trainer::receive(int from, int tag_chunk, const Action& action) {
  const Tensor x = context_.activation(context_.hidden_shape(), "received from the neighbouring stage");
  pipeline_.receive(x, from, tag(tag_chunk, action));
  return x;
}

void Trainer::forward(const Action& a, Slot& slot) {
  slot.batch = inputs_of(a.micro);
  if (plan_.single_process) {
    store_.fetch_updated();
    device_.host_work(HostWork::replicas);
  }
  slot.output = chunks_[a.chunk].forward(context_, slot.batch, slot.input, slot.saved);
  slot.input.reset();
  if (plan_.chunks[stage_][a.chunk].last) device_.host_work(HostWork::loss);
  if (brings_mask()) slot.batch.attention_mask.reset();
  if (plan_.single_process) device_.host_work(HostWork::alone);
}

void Trainer::backward(const Action& a, Slot& slot) {
  const bool last = --backwards_left_[a.chunk] == 0;
  // Where a product is deferred, gradients of its chunk are complete with it.
  const bool wait = last && plan_.deferred_products > 0 && plan_.chunks[stage_][a.chunk].last;
  slot.dinput = chunks_[a.chunk].backward(context_, slot.batch, std::exchange(slot.doutput, Tensor()), slot.saved, [&](int unit) {
    if (wait)
      wait_for_deferred_.push_back(unit);
    else
      sync_->ready(unit, last);
  });
  sync_->end_of_micro_batch();
  slot.saved = {};
  slot.batch = {};
}

void Trainer::perform(const Action& a) {
  const int stages = plan_.mesh.size(Axis::pp);
  const int position = plan_.chunks[stage_][a.chunk].position;
  const int next = (stage_ + 1) % stages, previous = (stage_ + stages - 1) % stages;
  Slot& slot = slots_[{a.chunk, a.micro}];
  const Span span(device_, Track::phase, [&] { return phase_name(a); });
  switch (a.kind) {
    case Action::Kind::receive_activation:
      slot.input = receive(previous, position, a);
      break;
    case Action::Kind::forward:
      forward(a, slot);
      break;
    case Action::Kind::send_activation:
      send(a, next, position + 1, slot.output);
      break;
    case Action::Kind::receive_gradient:
      slot.doutput = receive(next, position, a);
      break;
    case Action::Kind::backward:
      backward(a, slot);
      break;
    case Action::Kind::send_gradient:
      send(a, previous, position - 1, slot.dinput);
      break;
  }
}

float Trainer::mean_loss(std::int64_t depth) {
  // Only the last stage knows the losses: every tp rank of it the same ones, a cp rank those of its positions.
  if (!device_.real()) return std::numeric_limits<float>::quiet_NaN();
  double sum = 0;
  if (stage_ == plan_.mesh.size(Axis::pp) - 1 && groups_.coordinate(Axis::tp) == 0) {
    const std::int64_t count = plan_.training.micro_batches;
    std::vector<float> values(static_cast<std::size_t>(count));
    device_.read(losses_.slice(depth * count, count), std::as_writable_bytes(std::span(values)));
    for (const float v : values) sum += v;
  }
  double total = 0;
  for (const double v : gather_all(groups_.all(), sum)) total += v;
  return static_cast<float>(total /
                            static_cast<double>(plan_.training.micro_batches * plan_.mesh.size(kBatchAxes)));
}

std::optional<float> Trainer::auxiliary_loss() {
  const std::int64_t depths = plan_.model.mtp_layers;
  if (depths == 0 && !context_.router_losses) return std::nullopt;
  double loss = 0;
  for (std::int64_t d = 1; d <= depths; ++d)
    loss += mean_loss(d) * plan_.model.parts().mtp_loss_scaling_factor / static_cast<double>(depths);
  if (!context_.router_losses || !device_.real()) return static_cast<float>(loss);
  float own = 0;
  device_.read(context_.router_losses, std::as_writable_bytes(std::span(&own, 1)));
  double total = 0;
  for (const double v : gather_all(groups_.all(), static_cast<double>(own))) total += v;
  // Ranks that the sequence is split over have parts of a sum, others of a stage the same.
  const Mesh& mesh = plan_.mesh;
  const int split = mesh.size(sequence_axes(plan_.hidden.value, mesh));
  const double same = mesh.size(Axis::tp) * mesh.size(Axis::cp) / split;
  return static_cast<float>(
      loss + total / same / static_cast<double>(plan_.training.micro_batches * mesh.size(kBatchAxes)));
}

// From fetching weights to summed gradients.
void Trainer::enqueue(const Watcher& before) {
  if (!plan_.single_process) store_.fetch_updated();
  store_.begin_gradients();
  if (context_.router_losses) run(device_, ops::Fill{context_.router_losses, 0});
  backwards_left_.assign(chunks_.size(), 0);
  for (const Action& action : plan_.schedule[stage_])
    if (action.kind == Action::Kind::backward) ++backwards_left_[action.chunk];
  for (const Action& action : plan_.schedule[stage_]) {
    if (before) before(&action);
    perform(action);
  }
  if (before) before(nullptr);
  for (const ModelChunk& chunk : chunks_) chunk.make_deferred(context_);
  for (const int unit : std::exchange(wait_for_deferred_, {})) sync_->ready(unit, true);
  for (auto& [key, sending] : sending_)
    if (sending.pending) sending.pending->wait();
  sending_.clear();
  slots_.clear();
  const Span span(device_, Track::phase, [] { return "gradient sync"; });
  sync_->finish();
}

Optimizer::Outcome Trainer::replay(const Watcher& before) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    device_.host_work(HostWork::micro_batch);
    write_inputs(inputs_[i], static_cast<int>(i));
  }
  optimizer_->prepare();
  if (device_.real()) device_.write(context_.step_on_device, std::as_bytes(std::span(&context_.step, 1)));
  const auto step = [&] {
    enqueue(before);
    const Span span(device_, Track::phase, [] { return "optimizer"; });
    optimizer_->enqueue();
    for (const ModelChunk& chunk : chunks_) chunk.after_step(context_);
  };
  if (recorded_) {
    const Span span(device_, Track::phase, [] { return "replayed step"; });
    recorded_->replay();
  } else if (context_.step == 1 && device_.real()) {
    recorded_ = device_.record(step);
    guard_ = std::make_unique<NothingMore>();
    device_.memory().observe(guard_.get());
  } else {
    step();
  }
  return optimizer_->settle();
}

StepResult Trainer::step(const Watcher& before) {
  device_.host_work(HostWork::step);
  Optimizer::Outcome outcome;
  if (plan_.capture) {
    outcome = replay(before);
  } else {
    enqueue(before);
    const Span span(device_, Track::phase, [] { return "optimizer"; });
    outcome = optimizer_->step();
    for (const ModelChunk& chunk : chunks_) chunk.after_step(context_);
    store_.scales().end_step(device_, groups_, context_.step);
  }
  device_.host_work(HostWork::next_step);
  ++context_.step;
  return {outcome.gradient_norm, outcome.skipped};
}

Trainer::~Trainer() {
  if (guard_) device_.memory().observe(nullptr);
}

}  // namespace mbench
