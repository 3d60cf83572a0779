#include "engine/sim/cost/device.h"

#include <optional>
#include <type_traits>

#include "engine/ops/epilogue.h"
#include "engine/ops/ops.h"
#include "engine/sim/play/ticks.h"

namespace mbench::sim {
namespace {

template <class Op>
constexpr bool is_scan = std::is_same_v<Op, ops::StateScan> || std::is_same_v<Op, ops::StateScanGrad> ||
                         std::is_same_v<Op, ops::DeltaScan> || std::is_same_v<Op, ops::DeltaScanGrad>;

// Whether the machine's file has a rate for it other than the memory's.
template <class Op>
constexpr bool has_rate =
    std::is_same_v<Op, ops::Matmul> || std::is_same_v<Op, ops::Fp8Matmul> || std::is_same_v<Op, ops::GroupedMatmul> ||
    std::is_same_v<Op, ops::Attention> || std::is_same_v<Op, ops::AttentionGrad> || is_scan<Op>;

// What is told of a kernel besides its op. `parts`: of how many like kernels of one call it is, which run on streams of their own.
struct KernelCall {
  std::int64_t parts = 1;
  double rows_deviation = 0;
};
KernelCall call_of(const Device& device) {
  return {device.parts_of_call(), device.rows_deviation()};
}

// What an op takes on a machine.
template <class Op>
double seconds_of(CostModel& costs, const Op& op, const KernelCall&) {
  static_assert(!has_rate<Op>, "an op with a rate of its own needs an overload with these parameters");
  const Cost cost = op.cost();
  if (const auto measured = costs.measured_seconds(Op::name, cost)) return *measured;
  return costs.streaming_seconds(cost);
}
double seconds_of(CostModel& costs, const ops::Matmul& op, const KernelCall& call) {
  const double gemm =
      costs.gemm_seconds({op.a.rows, op.b.cols, op.a.cols, op.batch, op.a.data.dtype(),
                          op.beta != 0 && op.c.data.dtype() == DType::f32 && op.a.data.dtype() != DType::f32,
                          op.a.transposed   ? GemmForm::tn
                          : op.b.transposed ? GemmForm::nt
                                            : GemmForm::nn,
                          call.parts, call.rows_deviation},
                         op.cost());
  if (!op.has_epilogue()) return gemm;
  if (!costs.measures_ops()) return gemm + costs.epilogue_seconds(ops::cost_of_epilogue(op));
  double seconds = gemm;
  ops::for_each_part_of_epilogue(op, [&](const auto& part) { seconds += seconds_of(costs, part, call); });
  return seconds;
}
double seconds_of(CostModel& costs, const ops::Fp8Matmul& op, const KernelCall& call) {
  const bool accumulates = op.beta != 0 && op.c.dtype() == DType::f32;
  return costs.gemm_seconds(
      {op.m(), op.n(), op.k(), 1, op.a.codes.dtype(), accumulates, GemmForm::nn, call.parts, call.rows_deviation},
      op.cost());
}
double seconds_of(CostModel& costs, const ops::GroupedMatmul& op, const KernelCall& call) {
  const KernelCall each{call.parts * op.experts(), call.rows_deviation};
  double seconds = 0;
  for (std::int64_t e = 0; e < op.experts(); ++e)
    if (const ops::Matmul gemm = op.of(e); gemm.a.rows > 0) seconds += seconds_of(costs, gemm, each);
  return seconds;
}
template <class Op>
double attention_seconds(CostModel& costs, const Op& op, bool backward) {
  if (const auto measured = costs.measured_seconds(Op::name, op.cost())) return *measured;
  const ops::AttentionShape& s = op.shape;
  // A query with a window sees as many keys as one of a causal sequence twice as long does on average.
  const std::int64_t positions = s.window == 0 ? s.seq : std::min(s.seq, 2 * s.window);
  const bool causal = s.causal || s.window > 0;
  // So does one within its document.
  const double seen =
      s.documents ? (causal ? 2 : 1) * s.visible_pairs() / static_cast<double>(s.seq) : static_cast<double>(positions);
  const AttentionSize size{static_cast<double>(s.head_dim + s.v_dim()) / 2, std::max(1.0, seen), causal};
  return costs.attention_seconds(size, op.cost(), op.q.data.dtype(), backward);
}
double seconds_of(CostModel& costs, const ops::Attention& op, const KernelCall&) {
  return attention_seconds(costs, op, false);
}
// Of documents that are whole, each has the scores of its own.
double ordered_seconds(CostModel& costs, const ops::AttentionShape& s) {
  if (!s.documents || s.seq != s.documents->seq()) return costs.ordered_gradient_seconds(s.batch, s.heads, s.seq);
  double seconds = 0;
  for (std::int64_t d = 0; d < s.documents->count(); ++d)
    seconds += costs.ordered_gradient_seconds(s.batch, s.heads, s.documents->end(d) - s.documents->first(d));
  return seconds;
}
double seconds_of(CostModel& costs, const ops::AttentionGrad& op, const KernelCall&) {
  const bool orders = op.deterministic && size_of(op.q.data.dtype()) == 2 &&
                      !costs.measured_seconds(ops::AttentionGrad::name, op.cost());
  return attention_seconds(costs, op, true) + (orders ? ordered_seconds(costs, op.shape) : 0);
}

// A scan's kernels: its GEMMs, each with what it takes of a machine's units, and the states that pass from chunk to chunk.
template <class Op>
double scan_seconds(CostModel& costs, const Op& op) {
  if (const auto measured = costs.measured_seconds(Op::name, op.cost())) return *measured;
  double gemms = 0;
  for (const ops::ScanGemm& g : op.gemms())
    gemms += g.share * costs.gemm_seconds({g.m, g.n, g.k, g.batch, op.shape.xbc.dtype()}, {g.flops(), 0});
  return gemms + costs.streaming_seconds({0, op.cost().bytes});
}
double seconds_of(CostModel& costs, const ops::StateScan& op, const KernelCall&) {
  return scan_seconds(costs, op);
}
double seconds_of(CostModel& costs, const ops::StateScanGrad& op, const KernelCall&) {
  return scan_seconds(costs, op);
}
double seconds_of(CostModel& costs, const ops::DeltaScan& op, const KernelCall&) {
  return scan_seconds(costs, op);
}
double seconds_of(CostModel& costs, const ops::DeltaScanGrad& op, const KernelCall&) {
  return scan_seconds(costs, op);
}

template <class... Op>
bool streams(OpList<Op...>, std::string_view name) {
  return ((Op::name == name && (!has_rate<Op> || is_scan<Op>)) || ...);
}

// What a framework's kernels take where the engine has one op. A scan's GEMMs stay as they are.
template <class Op>
double unfused_seconds(CostModel& costs, const Op& op, const UnfusedOp& unfused, const KernelCall& call) {
  if constexpr (is_scan<Op>) {
    const Cost bytes{0, op.cost().bytes};
    return seconds_of(costs, op, call) - costs.streaming_seconds(bytes) + costs.streaming_seconds(bytes, unfused);
  }
  return costs.streaming_seconds(op.cost(), unfused);
}

// Kinds of an op that a framework may run otherwise than the rest of it. Its file names them where it does.
constexpr std::string_view kWeightedBias = "weighted_expert_bias", kWeightedBiasGrad = "weighted_expert_bias_grad",
                           kClampedGate = "clamped_swiglu", kClampedGateGrad = "clamped_swiglu_grad",
                           kHostAdam = "host_adam";  // of an offloaded optimizer

template <class Op>
std::string_view kind_of(const Op&) {
  return Op::name;
}
std::string_view kind_of(const ops::ExpertBias& op) {
  return op.weights ? kWeightedBias : op.name;
}
std::string_view kind_of(const ops::ExpertBiasGrad& op) {
  return op.weights ? kWeightedBiasGrad : op.name;
}
std::string_view kind_of(const ops::SwiGlu& op) {
  return op.gate == ops::Gate::clamped ? kClampedGate : op.name;
}
std::string_view kind_of(const ops::SwiGluGrad& op) {
  return op.gate == ops::Gate::clamped ? kClampedGateGrad : op.name;
}

// How often the calls come: those for biases of experts once for each expert.
template <class Op>
int times_of(const Op&) {
  return 1;
}
int times_of(const ops::ExpertBias& op) {
  return static_cast<int>(op.bias.shape()[0]);
}
int times_of(const ops::ExpertBiasGrad& op) {
  return static_cast<int>(op.dbias.shape()[0]);
}

// What the framework runs in place of the op; nothing where it is one kernel there too.
template <class Op>
std::optional<UnfusedOp> unfused_of(const CostModel& costs, const Op& op) {
  const UnfusedOp* found = costs.unfused(kind_of(op));
  if (!found) found = costs.unfused(Op::name);
  if (!found) return std::nullopt;
  UnfusedOp all = *found;
  all.calls *= times_of(op), all.extra_calls *= times_of(op);
  return all;
}

// What an op on the host's memory moves there.
template <class Op>
Cost host_cost(const CostModel* costs, const Op& op) {
  Cost cost = op.cost();
  if constexpr (std::is_same_v<Op, ops::Adam>)
    if (const UnfusedOp* found = costs ? costs->unfused(kHostAdam) : nullptr) cost.bytes *= found->traffic;
  return cost;
}

}  // namespace

bool can_be_unfused(std::string_view op) {
  return streams(AllOps(), op) || op == kWeightedBias || op == kWeightedBiasGrad || op == kClampedGate ||
         op == kClampedGateGrad || op == kHostAdam;
}

template <class Op>
void SimDevice::charge(const Op& op) {
  if (host_of_) return host_of_->charge_host(host_cost(host_of_->costs_.get(), op), part_of<Op>(), Op::name.data());
  if (const std::optional<UnfusedOp> unfused = costs_ ? unfused_of(*costs_, op) : std::nullopt)
    return charge_unfused(*unfused, unfused_seconds(*costs_, op, *unfused, call_of(*this)), op.cost(), part_of<Op>(),
                          Op::name);
  const bool called = charges_kernel();
  if (action_events_)
    return record_kernel(Op::name.data(), costs_ ? ticks_of(seconds_of(*costs_, op, call_of(*this))) : 0, op.cost(),
                         part_of<Op>(), called);
  if (!clock_) return;
  const TimeSpan span = clock_->kernel(ticks_of(seconds_of(*costs_, op, call_of(*this))), part_of<Op>(), called);
  if (timeline()) timeline()->add(Track::compute, Op::name, span.begin, span.end);
}

template <class Op>
void compute(SimDevice& device, const Op& op) {
  device.charge(op);
}

class SimDevice::Table final : public TableOf<SimDevice> {
 public:
  using TableOf<SimDevice>::TableOf;
};

SimDevice::SimDevice(std::size_t memory_limit)
    : Device(std::make_unique<CountedMemory>(), memory_limit),
      name_("counting device"),
      table_(std::make_unique<Table>(*this)) {}

SimDevice::SimDevice(std::string name, std::size_t memory_limit, std::unique_ptr<CostModel> costs, VirtualClock& clock)
    : Device(std::make_unique<CountedMemory>(), memory_limit),
      name_(std::move(name)),
      costs_(std::move(costs)),
      clock_(&clock),
      table_(std::make_unique<Table>(*this)) {
  clock.charge_to(&meter().seconds);
}

SimDevice::SimDevice(std::unique_ptr<CostModel> costs, ActionEvents** action_events)
    : Device(std::make_unique<CountedMemory>(), 0),
      name_("recording device"),
      costs_(std::move(costs)),
      action_events_(action_events),
      table_(std::make_unique<Table>(*this)) {
  memory().place_nothing();
}

SimDevice::SimDevice(SimDevice& device, std::size_t memory_limit)
    : Device(std::make_unique<CountedMemory>(), memory_limit),
      name_("host of " + device.name()),
      host_of_(&device),
      table_(std::make_unique<Table>(*this)) {}

SimDevice::~SimDevice() {
  if (clock_) clock_->charge_to(nullptr);
}

OpTable& SimDevice::ops() {
  return *table_;
}

// The last kernel is called as the engine's op is, those before it as the framework's small ops.
void SimDevice::charge_unfused(const UnfusedOp& op, double takes, const Cost& cost, TimePart part,
                               std::string_view name) {
  if (op.calls == 0) return;
  const bool called = charges_kernel();
  if (const int calls = op.calls - 1 + op.extra_calls; called && calls > 0) host_work(HostWork::call, calls);
  const double seconds = ticks_of(takes);
  if (action_events_) return record_kernel(name.data(), seconds, cost, part, called);
  if (!clock_) return;
  const TimeSpan span = clock_->kernel(seconds, part, called);
  if (timeline()) timeline()->add(Track::compute, name, span.begin, span.end);
}

void SimDevice::do_copy(const Tensor& from, const Tensor& to) {
  charge(ops::Copy{from, to});
}

void SimDevice::taken(const Tensor& made) {
  if (!costs_ || !costs_->fills() || made.bytes() == 0) return;
  const double seconds = whole_ticks(costs_->fill_seconds(static_cast<double>(made.bytes())));
  if (action_events_) return record_kernel("fill", seconds, {}, TimePart::elementwise, false);
  if (!clock_) return;
  const TimeSpan span = clock_->kernel(seconds, TimePart::elementwise, false);
  if (timeline()) timeline()->add(Track::compute, "fill", span.begin, span.end);
}

std::unique_ptr<Device> SimDevice::open_host() {
  const bool limited = costs_ && !action_events_;  // a recording's replay has the limit
  std::unique_ptr<Device> host(new SimDevice(*this, limited ? costs_->host_memory() : 0));
  if (action_events_) host->memory().place_nothing();
  return host;
}

void SimDevice::charge_host(const Cost& cost, TimePart part, const char* name) {
  if (action_events_) {
    ClockEvent event{ClockEvent::Kind::host_kernel, part};
    event.seconds = costs_ ? whole_ticks(costs_->host_seconds(cost)) : 0;
    event.what = name;
    (*action_events_)->clock.push_back(event);
  }
  if (!clock_) return;
  const TimeSpan span = clock_->host_kernel(whole_ticks(costs_->host_seconds(cost)), part);
  if (timeline()) timeline()->add(Track::host, name, span.begin, span.end);
}

// Where a copy is recorded, `number` names it; else it ends at `end`.
class SimDevice::Copy final : public HostCopy {
 public:
  Copy(SimDevice& device, std::uint32_t number, double end) : device_(device), number_(number), end_(end) {}
  void wait() override {
    record(ClockEvent::Kind::copy_wait);
    if (device_.clock_) device_.clock_->wait_until(end_, TimePart::copies);
  }
  void wait_on_host() override {
    record(ClockEvent::Kind::copy_host_wait);
    if (device_.clock_) device_.clock_->host_waits_until(end_, TimePart::copies);
  }

 private:
  void record(ClockEvent::Kind kind) {
    if (!device_.action_events_) return;
    ClockEvent event{kind, TimePart::copies};
    event.pending = number_;
    (*device_.action_events_)->clock.push_back(event);
  }
  SimDevice& device_;
  std::uint32_t number_;
  double end_;
};

std::unique_ptr<HostCopy> SimDevice::do_start_copy(CopyWay way, const Tensor& from, const Tensor&) {
  const double seconds = costs_ ? whole_ticks(costs_->host_copy_seconds(static_cast<double>(from.bytes()))) : 0;
  if (action_events_) {
    ClockEvent event{ClockEvent::Kind::copy, TimePart::copies};
    event.group = static_cast<std::uint16_t>(way);
    event.seconds = seconds;
    event.pending = copies_;
    event.what = "copy";
    (*action_events_)->clock.push_back(event);
    return std::make_unique<Copy>(*this, copies_++, 0);
  }
  if (!clock_) return std::make_unique<Copy>(*this, 0, 0);
  const TimeSpan span = clock_->start_copy(way, seconds);
  if (timeline()) timeline()->add({Track::copies, mbench::name_of(way)}, "copy", span.begin, span.end);
  return std::make_unique<Copy>(*this, 0, span.end);
}

void SimDevice::record_kernel(const char* what, double seconds, const Cost& cost, TimePart part, bool called) {
  ClockEvent event{ClockEvent::Kind::kernel, part};
  event.seconds = seconds;
  event.times = called ? 1 : 0;
  event.in_layer = in_layer();
  event.what = what;
  if (cost.matmul) event.flops = cost.flops - cost.epilogue;
  (*action_events_)->clock.push_back(event);
}

double SimDevice::synchronize() {
  if (action_events_) (*action_events_)->clock.push_back({ClockEvent::Kind::synchronize});
  return clock_ ? clock_->synchronize() : 0;
}

// A copy from the host costs its call; the inputs of a step are small.
void SimDevice::write(const Tensor&, std::span<const std::byte>) {
  check(!action_events_, "sim", "values written while a step is recorded");
  if (clock_) clock_->host(clock_->times().launch);
}

float SimDevice::read(const Tensor&, float declared) {
  synchronize();
  return declared;
}

void SimDevice::read(const Tensor&, std::span<std::byte>) {
  fail(ErrorKind::internal, "sim", "values read from a device that has none");
}

void SimDevice::phase(const char* name, bool begins) {
  if (!action_events_) return;
  ClockEvent event{begins ? ClockEvent::Kind::span_begins : ClockEvent::Kind::span_ends};
  event.what = name;
  (*action_events_)->clock.push_back(event);
}

void SimDevice::host_work(HostWork work, int times) {
  if (work == HostWork::graph || work == HostWork::graph_goes_on) in_graph_ = true;
  if (work == HostWork::graph_end) in_graph_ = false;
  if (action_events_) {
    ClockEvent event{ClockEvent::Kind::host_work};
    event.work = work;
    event.times = static_cast<std::uint32_t>(times);
    event.in_layer = in_layer();
    (*action_events_)->clock.push_back(event);
  }
  if (clock_) clock_->host_work(work, times);
}

}  // namespace mbench::sim
