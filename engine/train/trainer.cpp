#include "engine/train/trainer.h"

#include <limits>

#include "engine/comm/gather.h"
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

}  // namespace

Trainer::Trainer(const Plan& plan, Device& device, World& world, const TokenSource* data)
    : plan_(plan),
      device_(device),
      groups_(device, world, plan.mesh, plan.model.experts > 0),
      data_(data),
      pipeline_(groups_.over({Axis::pp})),
      stage_(groups_.coordinate(Axis::pp)),
      dp_rank_(groups_.coordinate(Axis::dp)),
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
}

MicroBatch Trainer::upload(int micro) {
  const TrainingPlan& p = plan_.training;
  const ModelParts& parts = plan_.model.parts();
  const SequenceShare share = context_.share();
  const std::int64_t b = p.micro_batch, dp = plan_.mesh.size(Axis::dp), rows = share.rows();
  device_.host_work(HostWork::micro_batch);
  MicroBatch batch;
  batch.sample0 = (static_cast<std::int64_t>(micro) * dp + dp_rank_) * b;
  const auto make = [&](const Shape& shape, DType dtype, const char* what) {
    return device_.empty(shape, dtype, Category::activations, what);
  };
  HostBatch host;
  if (data_) host = make_batch(*data_, plan_.model, p.seed, context_.step, batch.sample0, b, p.seq);
  const auto put = [&](const auto& values, const Shape& shape, DType dtype, const char* what) {
    const Tensor t = make(shape, dtype, what);
    if (data_) device_.write(t, bytes_of(values));
    return t;
  };
  // Of a value for each position, those of this rank's share.
  const auto put_rows = [&](auto& values, DType dtype, const char* what) {
    if (data_ && share.ranks() > 1) values = rows_of(share, values, b);
    return put(values, {rows, b}, dtype, what);
  };
  batch.tokens = put_rows(host.tokens, DType::i64, "tokens");
  batch.labels = put_rows(host.labels, DType::i64, "labels");
  batch.positions = put_rows(host.positions, DType::i64, "positions");
  batch.weights = put_rows(host.weights, DType::f32, "loss weights");
  batch.inv_weight_sum = data_ ? static_cast<float>(1 / host.weight_sum) : 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(plan_.model.mtp_layers); ++d) {
    HostBatch::Ahead none, &own = data_ ? host.ahead[d] : none;
    batch.ahead.push_back({put_rows(own.labels, DType::i64, "labels further on"),
                           put_rows(own.weights, DType::f32, "their loss weights"),
                           data_ ? static_cast<float>(1 / own.weight_sum) : 1,
                           losses_.slice((static_cast<std::int64_t>(d) + 1) * p.micro_batches + micro, 1)});
  }
  const bool masked = parts.objective == Objective::masked_words_and_order;
  if (parts.token_types > 0) batch.token_types = put_rows(host.token_types, DType::i64, "token types");
  if (masked) {
    // Attention reads it chunk by chunk, or whole.
    const std::int64_t chunks = share.chunks() == 1 ? 1 : share.chunks() * share.ranks();
    if (data_) host.keep = chunk_by_chunk(host.keep, b, chunks);
    batch.keep = put(host.keep, {chunks, b, p.seq / chunks}, DType::u8, "padding mask");
    batch.order_labels = put(host.order_labels, {b}, DType::i64, "sentence-order labels");
  }
  if (plan_.graph.attention_mask) {
    batch.attention_mask = make({masked ? b : 1, p.seq, p.seq}, DType::u8, "attention mask");
    run(device_, ops::AttentionMask{keys_of(batch), batch.attention_mask});
  }
  batch.loss = losses_.slice(micro, 1);
  batch.gradient_scale = optimizer_->loss_scale() / static_cast<float>(p.micro_batches * dp);
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
  slot.batch = upload(a.micro);
  slot.output = chunks_[a.chunk].forward(context_, slot.batch, slot.input, slot.saved);
  slot.input.reset();
}

void Trainer::backward(const Action& a, Slot& slot) {
  const bool last = --backwards_left_[a.chunk] == 0;
  slot.dinput = chunks_[a.chunk].backward(context_, slot.batch, std::exchange(slot.doutput, Tensor()),
                                          slot.saved, [&](int unit) { sync_->ready(unit, last); });
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
                            static_cast<double>(plan_.training.micro_batches * plan_.mesh.size(Axis::dp)));
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
      loss + total / same / static_cast<double>(plan_.training.micro_batches * mesh.size(Axis::dp)));
}

StepResult Trainer::step(const Watcher& before) {
  device_.host_work(HostWork::step);
  store_.fetch_updated();
  run(device_, ops::Fill{store_.gradients(), 0});
  if (context_.router_losses) run(device_, ops::Fill{context_.router_losses, 0});
  backwards_left_.assign(chunks_.size(), 0);
  for (const Action& action : plan_.schedule[stage_])
    if (action.kind == Action::Kind::backward) ++backwards_left_[action.chunk];
  for (const Action& action : plan_.schedule[stage_]) {
    if (before) before(&action);
    perform(action);
  }
  if (before) before(nullptr);
  for (auto& [key, sending] : sending_)
    if (sending.pending) sending.pending->wait();
  sending_.clear();
  slots_.clear();
  {
    const Span span(device_, Track::phase, [] { return "gradient sync"; });
    sync_->finish();
  }
  const Span span(device_, Track::phase, [] { return "optimizer"; });
  const Optimizer::Outcome outcome = optimizer_->step();
  for (const ModelChunk& chunk : chunks_) chunk.after_step(context_);
  device_.host_work(HostWork::next_step);
  ++context_.step;
  return {outcome.gradient_norm, outcome.skipped};
}

}  // namespace mbench
