#include "engine/train/trainer.h"

#include <limits>

#include "engine/comm/gather.h"
#include "engine/nn/moe/router.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench::train {
namespace {

// The memory of a recorded step is its own even while no tensor holds it.
class NothingMore final : public AllocationObserver {
 public:
  void allocated(const std::byte*, std::size_t size, Category, std::string_view what) override {
    fail(ErrorKind::internal, "record", "{} bytes for {} on a device whose step is replayed, need none", size, what);
  }
  void released(const std::byte*) override {}
};

}  // namespace

Trainer::Trainer(const Plan& plan, Device& device, comm::World& world, const TokenSource* data)
    : plan_(plan),
      device_(device),
      groups_(device, world, plan.mesh, plan.model.experts > 0, plan.stages_with_words()),
      pipeline_(groups_.over({Axis::pp})),
      stage_(groups_.coordinate(Axis::pp)),
      dp_rank_(groups_.over(kBatchAxes).rank()),
      context_{device, plan, groups_, {}, 0},
      store_(device, plan, groups_),
      splits_backward_(plan.splits_backward()) {
  nn::Parameter* word = nullptr;
  for (const ChunkPlan& chunk : plan.chunks[stage_]) {
    chunks_.emplace_back(store_, plan, chunk, word);
    if (!word) word = chunks_.back().word();
    has_loss_ = has_loss_ || chunk.last;
    if (chunk.last && !chunk.first && word && plan.model.ties_embedding()) shared_words_ = word->unit;
  }
  find_neighbours();
  store_.allocate_and_initialise();
  sync_ = std::make_unique<GradientSync>(device, plan, store_, groups_);
  optimizer_ = std::make_unique<Optimizer>(device, plan, store_, groups_);
  const RoutingSpec& routing = plan.model.parts().routing;
  if (plan.model.experts > 0 && (routing.balance_loss > 0 || routing.z_loss > 0))
    context_.router_losses = device.empty({1}, DType::f32, Category::other, "losses of routers");
  losses_ =
      device.empty({(1 + plan.model.mtp_layers) * plan.training.micro_batches}, DType::f32, Category::other, "losses");
  inputs_ = std::make_unique<StepInputs>(context_, stage_, dp_rank_, losses_, data);
  if (plan.capture || plan.captured.any())
    context_.step_on_device = device.empty({1}, DType::i64, Category::other, "number of the step");
  if (plan.capture) inputs_->keep_all();
  // On every rank, whether or not it has a layer to move.
  if (plan.offloaded.any() || plan.expert_room.on_host()) device.host();
  if (plan.expert_room.rows > 0)
    overflow_ = device.empty({1}, DType::f32, Category::other, "ranks whose experts had too little room");
  make_stash();
}

void Trainer::make_stash() {
  const auto& pages = plan_.expert_room.pages;
  if (!pages.empty()) context_.stash.make(device_, pages[static_cast<std::size_t>(stage_)]);
}

void Trainer::find_neighbours() {
  const auto at = [&](int position) {
    for (std::size_t stage = 0; stage < plan_.chunks.size(); ++stage)
      for (std::size_t chunk = 0; chunk < plan_.chunks[stage].size(); ++chunk)
        if (plan_.chunks[stage][chunk].position == position)
          return Neighbour{static_cast<int>(stage), static_cast<int>(chunk)};
    return Neighbour{};
  };
  for (const ChunkPlan& chunk : plan_.chunks[stage_]) {
    before_.push_back(at(chunk.position - 1));
    behind_.push_back(at(chunk.position + 1));
  }
}

// Distinct for every message of a step: which chunk it is for, which micro batch, activation or gradient.
int Trainer::tag(int chunk_position, const Action& action) const {
  const bool gradient = action.kind == Action::Kind::send_gradient || action.kind == Action::Kind::receive_gradient;
  return (chunk_position * static_cast<int>(plan_.training.micro_batches) + action.micro) * 2 + (gradient ? 1 : 0);
}

void Trainer::send(const Action& action, int to, int tag_chunk, Tensor& tensor) {
  Sending& slot = sending_[{to, action.kind == Action::Kind::send_activation}];
  if (slot.pending) slot.pending->wait();
  slot.tensor = std::exchange(tensor, Tensor());
  slot.pending = pipeline_.start(comm::Send{slot.tensor, to, tag(tag_chunk, action)});
}

// Of so many hidden activations, one behind the other along the first dim.
Tensor Trainer::receive(int from, int tag_chunk, const Action& action, int parts) {
  const Shape one = context_.hidden_shape();
  const Tensor x = context_.activation({parts * one[0], one[1], one[2]}, "received from the neighbouring stage");
  pipeline_.run(comm::Receive{x, from, tag(tag_chunk, action)});
  return x;
}

void Trainer::hand_over(const Neighbour& to, int micro, Tensor Slot::*place, Tensor& tensor) {
  if (to.stage == stage_) slots_[{to.chunk, micro}].*place = std::exchange(tensor, Tensor());
}

void Trainer::forward(const Action& a, Slot& slot) {
  slot.batch = inputs_->of(a.micro, optimizer_->loss_scale());
  if (plan_.single_process) {
    store_.fetch_updated();
    device_.host_work(HostWork::replicas);
  }
  const ChunkPlan& chunk = plan_.chunks[stage_][a.chunk];
  if (context_.stash.on())
    context_.stash.begin_forward(slot.stashed, chunk.expert_layers - (chunk.backward_follows() ? 1 : 0));
  slot.output = chunks_[a.chunk].forward(context_, slot.batch, slot.input, slot.saved);
  if (context_.stash.on()) context_.stash.end_forward();
  slot.input.reset();
  hand_over(behind_[a.chunk], a.micro, &Slot::input, slot.output);
  if (chunk.last) device_.host_work(HostWork::loss);
  if (inputs_->brings_mask()) slot.batch.attention_mask.reset();
  if (plan_.single_process) device_.host_work(HostWork::alone);
}

void Trainer::backward(const Action& a, Slot& slot) {
  const bool last = --backwards_left_[a.chunk] == 0;
  // Where a product is deferred, gradients of its chunk are complete with it. A table that a chunk behind this one uses too has the
  // gradients of both when all is done.
  const bool wait = last && plan_.deferred_gemms > 0 && plan_.chunks[stage_][a.chunk].last;
  const auto ready = [this, last, wait](int unit) {
    if (wait || (last && unit == shared_words_))
      wait_for_deferred_.push_back(unit);
    else
      sync_->ready(unit, last);
  };
  const bool leaves = splits_backward_ || plan_.delay_wgrad;
  context_.later = leaves ? &slot.later : nullptr;
  if (context_.stash.on())
    context_.stash.begin_backward(device_, slot.stashed, !plan_.chunks[stage_][a.chunk].backward_follows());
  slot.dinput =
      chunks_[a.chunk].backward(context_, slot.batch, std::exchange(slot.doutput, Tensor()), slot.saved, [&](int unit) {
        if (leaves)
          slot.later.emplace_back([ready, unit] { ready(unit); });
        else
          ready(unit);
      });
  if (plan_.delay_wgrad) context_.make_left();
  context_.later = nullptr;
  if (context_.stash.on()) context_.stash.end_backward();
  hand_over(before_[a.chunk], a.micro, &Slot::doutput, slot.dinput);
  if (!splits_backward_) sync_->end_of_micro_batch();
  slot.saved = {};
  slot.batch = {};
}

void Trainer::weight_gradient(Slot& slot) {
  context_.later = &slot.later;
  context_.make_left();
  context_.later = nullptr;
  sync_->end_of_micro_batch();
}

void Trainer::go_on(const Action& a, Slot& slot, nn::Context::Way way) {
  Allocator& memory = device_.memory();
  if (a.part == 0)
    slot.fiber = std::make_unique<Fiber>([this, a, &slot, way](Fiber&) {
      if (way == nn::Context::Way::forward)
        forward(a, slot);
      else
        backward(a, slot);
    });
  const ModelPart before = memory.part();
  memory.part(slot.stopped_in);
  context_.way = way, context_.fiber = slot.fiber.get();
  context_.later = way == nn::Context::Way::backward && (splits_backward_ || plan_.delay_wgrad) ? &slot.later : nullptr;
  const auto leave = [&] {
    context_.fiber = nullptr, context_.later = nullptr;
    slot.stopped_in = memory.part();
    memory.part(before);
  };
  bool ended = false;
  try {
    ended = slot.fiber->resume();
  } catch (...) {
    leave();
    throw;
  }
  leave();
  const int pauses = plan_.chunks[stage_][a.chunk].pauses;
  check(ended == (a.part == pauses), "trainer", "{} has more or fewer pauses than the plan's {}", phase_name(a),
        pauses);
  if (!ended) return;
  slot.fiber.reset();
  slot.stopped_in = {};
}

void Trainer::perform(const Action& a) {
  const ChunkPlan& chunk = plan_.chunks[stage_][a.chunk];
  const int position = chunk.position, before = before_[a.chunk].stage, behind = behind_[a.chunk].stage;
  Slot& slot = slots_[{a.chunk, a.micro}];
  const Span span(device_, Track::phase, [&] { return phase_name(a); });
  switch (a.kind) {
    case Action::Kind::receive_activation:
      slot.input = receive(before, position, a, chunk.receives);
      break;
    case Action::Kind::forward:
      if (chunk.pauses > 0)
        go_on(a, slot, nn::Context::Way::forward);
      else
        forward(a, slot);
      break;
    case Action::Kind::send_activation:
      send(a, behind, position + 1, slot.output);
      break;
    case Action::Kind::receive_gradient:
      slot.doutput = receive(behind, position, a, chunk.sends);
      break;
    case Action::Kind::backward:
      if (chunk.pauses > 0)
        go_on(a, slot, nn::Context::Way::backward);
      else
        backward(a, slot);
      break;
    case Action::Kind::send_gradient:
      send(a, before, position - 1, slot.dinput);
      break;
    case Action::Kind::weight_gradient:
      weight_gradient(slot);
      break;
  }
}

float Trainer::mean_loss(std::int64_t depth) {
  // Only the stage with the head knows the losses: every tp rank of it the same ones, a cp rank those of its positions.
  if (!device_.real()) return std::numeric_limits<float>::quiet_NaN();
  double sum = 0;
  if (has_loss_ && groups_.coordinate(Axis::tp) == 0) {
    const std::int64_t count = plan_.training.micro_batches;
    std::vector<float> values(static_cast<std::size_t>(count));
    device_.read(losses_.slice(depth * count, count), std::as_writable_bytes(std::span(values)));
    for (const float v : values) sum += v;
  }
  double total = 0;
  for (const double v : comm::gather_all(groups_.all(), sum)) total += v;
  return static_cast<float>(total / static_cast<double>(plan_.training.micro_batches * plan_.mesh.size(kBatchAxes)));
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
  for (const double v : comm::gather_all(groups_.all(), static_cast<double>(own))) total += v;
  // Ranks that the sequence is split over have parts of a sum, others of a stage the same.
  const Mesh& mesh = plan_.mesh;
  const int split = mesh.size(nn::sequence_axes(plan_.hidden.value, mesh));
  const double same = mesh.size(Axis::tp) * mesh.size(Axis::cp) / split;
  return static_cast<float>(loss +
                            total / same / static_cast<double>(plan_.training.micro_batches * mesh.size(kBatchAxes)));
}

bool Trainer::rows_overflowed() {
  const bool own = context_.stash.overflowed() || context_.over_budget;
  context_.over_budget = false;
  const float mine = own ? 1 : 0;
  if (device_.real()) device_.write(overflow_, std::as_bytes(std::span(&mine, 1)));
  groups_.all().run(comm::AllReduce{overflow_});
  // Simulated ranks have as many rows as strategies/expert_room.cpp says, which fit.
  return device_.read(overflow_, 0) > 0;
}

// From fetching weights to summed gradients.
void Trainer::enqueue(const Watcher& before) {
  pass(before, false);
  // The rows of a step that is replayed are known beforehand, and fit.
  const bool known = plan_.expert_room.rows == 0 || (plan_.capture && device_.real());
  if (known || !rows_overflowed()) return;
  ++context_.router_load.reruns;
  context_.rerun = true;
  context_.stash.release();
  pass(before, true);
  context_.rerun = false;
  make_stash();
}

void Trainer::pass(const Watcher& before, bool again) {
  context_.roundings = 0;
  const bool shared = store_.gathers_in_gradients();
  if (shared) store_.begin_gradients();
  if (!plan_.single_process && !again) store_.fetch_updated();
  if (!shared) store_.begin_gradients();
  if (context_.router_losses) run(device_, ops::Fill{context_.router_losses, 0});
  backwards_left_.assign(chunks_.size(), 0);
  for (const Action& action : plan_.schedule[stage_])
    if (action.kind == Action::Kind::backward && action.part == 0) ++backwards_left_[action.chunk];
  for (const Action& action : plan_.schedule[stage_]) {
    if (before) before(&action);
    perform(action);
  }
  if (before) before(nullptr);
  if (plan_.deferred_gemms > 0) {
    for (const model::ModelChunk& chunk : chunks_) chunk.make_deferred(context_);
    if (before) before(nullptr);
  }
  for (const int unit : std::exchange(wait_for_deferred_, {})) sync_->ready(unit, true);
  for (auto& [key, sending] : sending_)
    if (sending.pending) sending.pending->wait();
  sending_.clear();
  slots_.clear();
  const Span span(device_, "gradient sync");
  sync_->finish();
}

Optimizer::Outcome Trainer::replay(const Watcher& before) {
  inputs_->write_kept(optimizer_->loss_scale());
  optimizer_->prepare();
  const auto step = [&] {
    enqueue(before);
    const Span span(device_, "optimizer");
    optimizer_->enqueue();
    after_update();
  };
  if (recorded_) {
    const Span span(device_, "replayed step");
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

void Trainer::after_update() {
  for (const model::ModelChunk& chunk : chunks_) chunk.after_step(context_);
  store_.scales().end_step(device_, groups_, context_.step, context_.step_on_device);
}

StepResult Trainer::step(const Watcher& before) {
  device_.host_work(HostWork::step);
  if (context_.step_on_device && device_.real())
    device_.write(context_.step_on_device, std::as_bytes(std::span(&context_.step, 1)));
  context_.graphs.begin_step(device_, context_.step);
  Optimizer::Outcome outcome;
  if (plan_.capture) {
    outcome = replay(before);
  } else {
    enqueue(before);
    const Span span(device_, "optimizer");
    outcome = optimizer_->step();
    after_update();
  }
  device_.host_work(HostWork::next_step);
  ++context_.step;
  return {outcome.gradient_norm, outcome.skipped};
}

Trainer::~Trainer() {
  if (guard_) device_.memory().observe(nullptr);
}

}  // namespace mbench::train
