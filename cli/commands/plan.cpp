// mbench plan: what each point of a spec would be, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "api/point_simulator.h"
#include "cli/cli.h"
#include "cli/find_spec.h"
#include "cli/plan_memory.h"
#include "cli/preflight.h"
#include "cli/sensitivity.h"
#include "cli/trace_file.h"
#include "engine/base/text.h"
#include "engine/ops/route.h"
#include "engine/point/adapter_weights.h"
#include "engine/run/run_point.h"
#include "engine/sim/run/counting.h"
#include "search/advice.h"
#include "strategies/strategies.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

constexpr const char* kPlanHelp =
    "Prints each point's plan: ranks, placements and collectives, schedule, parameters and predicted memory.\n"
    "Memory is counted by running the engine without computing: it is what a run allocates, to the byte. With\n"
    "--on sim:<N>x<MACHINE> the step runs on that machine's model: its memory limit holds, and its time is printed.";

struct PlanOptions {
  sweeps::SpecOptions spec;
  formats::ImportOptions trainer;  // how a trainer's file is read
  std::string on = "cpu";
  bool schedule = false, sensitivities = false, advice = false, memory = false;
  std::string snapshot;
};

// A weight as the plan lays it out: the collectives before and after its product, forward and backward.
void print_weight(const Plan& plan, const WeightSpec& w) {
  const LinearPlan& linear = plan.role(w.role);
  std::string shape;
  for (int i = 0; i < w.shape.rank(); ++i) shape += fmt::format("{}{}", i ? " x " : "", w.shape[i]);
  std::string text = fmt::format("    {:<26} {:<14} {:<11}", w.name, shape, name_of(w.role));
  if (w.shape.rank() > 1 && !w.bias) {
    const Transition in = Transition::between(linear.input, linear.consumed, plan.mesh);
    const Transition out = Transition::between(linear.gemm, linear.output, plan.mesh);
    text += fmt::format(" {:<13} forward {} / {}, backward {} / {}", str(linear.weight, plan.mesh), str(in.forward),
                        str(out.forward), str(out.backward), str(in.backward));
  }
  fmt::print("{}\n", text);
}

std::string kept(const Plan& plan) {
  const Recompute dropped{plan.recompute.front()};
  const auto some = std::count(plan.recompute.begin(), plan.recompute.end(), dropped.regions);
  const std::string where = static_cast<std::size_t>(some) == plan.recompute.size()
                                ? ""
                                : fmt::format(", in {} of {} layers", some, plan.recompute.size());
  if (dropped == Recompute::none) return "everything";
  if (dropped == Recompute::full) return "layer inputs only (full recompute)" + where;
  if (dropped == Recompute::selective) return "everything but the attention core (selective recompute)" + where;
  if (dropped.regions.has(Region::alternate_gemms))
    return "layer inputs, what attention gives and every second GEMM" + where;
  return fmt::format("everything but {}{}", name_of(dropped), where);
}

std::string copies_of(const Plan& plan) {
  const int copies = plan.mesh.size(Axis::dp_replicate);
  return copies > 1 ? fmt::format(", {} copies", copies) : "";
}

ops::BalancedChoice choice_of(const Point& p) {
  const RoutingSpec& routing = p.model.parts().routing;
  ops::RouterRule rule;
  rule.groups = routing.groups, rule.chosen_groups = routing.chosen_groups, rule.local = p.router.local;
  return ops::BalancedChoice::of(rule, p.model.experts, p.model.active_experts);
}

// How tokens meet the experts of other ranks, and what of a layer and a micro batch goes one way.
void print_ways_of_tokens(const Point& p, const Plan& plan) {
  const std::int64_t ranks = plan.mesh.size(Axis::ep), own_parts = p.sequence_parallel ? p.tp / p.expert_tp() : 1;
  const std::int64_t tokens = p.seq / p.cp / own_parts * p.micro_batch;  // that a rank dispatches
  const std::vector<std::int64_t> visits = ops::balanced_visits(tokens, choice_of(p), ranks);
  const std::int64_t visited = std::accumulate(visits.begin(), visits.end(), std::int64_t{0});
  const std::string of_ranks =
      fmt::format("{:.2f} of {} ranks{}", static_cast<double>(visited) / static_cast<double>(tokens), ranks,
                  plan.router.routing == Routing::balanced ? "" : ", were they balanced");
  std::int64_t rows = tokens * p.model.active_experts;
  std::string what = fmt::format("a row for each of {} experts of a token, on {}", p.model.active_experts, of_ranks);
  if (p.ep_communication == EpCommunication::all_gather)
    rows = tokens * ranks, what = fmt::format("all tokens of {} ranks to each", ranks);
  if (p.ep_communication == EpCommunication::flex)
    rows = visited, what = fmt::format("a token once to each of {}", of_ranks);
  const double bytes = static_cast<double>(rows * p.model.hidden) * static_cast<double>(size_of(plan.precision.model));
  fmt::print("               over ep by {}: {}, {:.1f} MiB a layer and micro batch each way\n",
             name_of(p.ep_communication), what, bytes / (1 << 20));
}

void print_documents(const Point& p, const Documents& documents) {
  const double seq = static_cast<double>(p.seq);
  std::int64_t shortest = p.seq, longest = 0;
  double pairs = 0;
  for (std::int64_t d = 0; d < documents.count(); ++d) {
    const std::int64_t length = documents.end(d) - documents.first(d);
    shortest = std::min(shortest, length), longest = std::max(longest, length);
    pairs += static_cast<double>(length) * static_cast<double>(length);
  }
  const std::string tokens =
      shortest == longest ? fmt::format("{}", longest) : fmt::format("{} to {}", shortest, longest);
  fmt::print("  documents    {}: {} in a sequence, of {} tokens, with {:.1f} % of its pairs\n", str(p.document_lengths),
             documents.count(), tokens, 100 * pairs / (seq * seq));
}

void print_layout(const Point& p, const Plan& plan) {
  fmt::print("  ranks        {} = tp {}{} x dp {} x pp {} (tp innermost)\n", plan.mesh.world(), p.tp,
             p.cp > 1 ? fmt::format(" x cp {}", p.cp) : "", p.dp, p.pp);
  if (const SequenceShare share = plan.share_of(0); p.cp > 1)
    fmt::print("  sequence     {} positions = cp {} x {} of {}, which meet in attention by {}\n", p.seq, p.cp,
               share.chunks() == 1 ? "a range" : "2 chunks", share.length(), name_of(p.cp_communication));
  if (plan.training.documents) print_documents(p, *plan.training.documents);
  if (p.model.experts > 0)
    fmt::print("  experts      etp {} x ep {} x edp {}, {} of {} and {} shared for a token, router {}\n",
               plan.mesh.size(Axis::etp), plan.mesh.size(Axis::ep), plan.mesh.size(Axis::edp), p.model.active_experts,
               p.model.experts, p.model.shared_experts, str(plan.router));
  if (plan.mesh.size(Axis::ep) > 1) print_ways_of_tokens(p, plan);
  fmt::print("  parameters   {} ({} words padded to {})\n", parameter_count(p.model, p.tp, p.vocab_multiple_used()),
             p.model.vocab, plan.vocab);
  if (p.adapter.on())
    fmt::print("  adapter      {}: {} parameters are trained, those above are frozen{}\n", str(p.adapter),
               adapter_parameter_count(p.model, p.adapter), p.model.labels > 0 ? " but for the classifier's" : "");
  fmt::print("  batch        {} samples = {} micro batches of {} x dp {}\n", p.global_batch, p.micro_batches(),
             p.micro_batch, p.dp);
  fmt::print("  keeps        {}, {} attention, framework {}\n", kept(plan), name_of(p.attention), name_of(p.framework));
  if (plan.splits_backward())
    fmt::print("  backward     gives the gradient of its input; gradients of weights are actions of their own\n");
  if (plan.deferred_gemms > 0)
    fmt::print(
        "  deferred     the gradient of the logits' weight, of {} micro batches, to the end of the last backward\n",
        plan.deferred_gemms);
  if (plan.tp_gathers == TpGathers::gemm) fmt::print("  over tp      each GEMM of a block gathers its input\n");
  if (plan.tp_comm_overlap) fmt::print("  over tp      what layers exchange overlaps with their GEMMs, in parts\n");
  fmt::print("  activations  [seq, batch, hidden]: {}\n", str(plan.hidden.value, plan.mesh));
  if (plan.state.sharded())
    fmt::print("  state        zero {}: weights {}, gradients {}, optimizer state {}, over {} ranks{}\n",
               name_of(p.zero), str(plan.state.weights), str(plan.state.gradients), str(plan.state.optimizer),
               plan.mesh.size({Axis::cp, Axis::dp}), copies_of(plan));
  if (plan.state.sharded() && p.model.experts > 0)
    fmt::print("               of experts over {} ranks{}\n", plan.mesh.size(Axis::edp), copies_of(plan));
  if (plan.precision.fp8_parameters)
    fmt::print("  fp8          {}: weights of layers' GEMMs in FP8 only, of their f32 originals\n",
               name_of(*plan.precision.fp8));
  if (plan.state.optimizer_at == Residence::host)
    fmt::print("  offload      {}{}{}{} in host memory, updated there\n",
               plan.state.host_share < 1 ? fmt::format("{:.4g} % of the ", plan.state.host_share * 100) : "",
               plan.state.weights_at == Residence::host ? "weights and " : "",
               plan.state.main_on_device ? "moments and a copy of the f32 weights" : "optimizer state",
               plan.state.gradients_at == Residence::host ? ", and gradients in f32," : "");
  if (plan.offloaded.any())
    fmt::print(
        "  offload      activations of {} in host memory until their backward{}\n", name_of(plan.offloaded),
        plan.min_offloaded_elements > 0 ? fmt::format(", of {} elements or more", plan.min_offloaded_elements) : "");
  fmt::print("  weights      of the first layer of a kind for all {}{}; collectives before / after the GEMM\n",
             p.model.layers,
             p.model.mtp_layers > 0 ? fmt::format(" and {} of multi-token prediction", p.model.mtp_layers) : "");
  for (const WeightSpec& w : weights_of(embedding_of(p.model, plan.vocab))) print_weight(plan, w);
  for (const std::int64_t kind : kinds_of_layers(p.model))
    for (const WeightSpec& w : weights_of(layer_of(p.model, kind))) print_weight(plan, w);
  for (const WeightSpec& w : weights_of(head_of(p.model, plan.vocab))) print_weight(plan, w);
  if (p.model.mtp_layers > 0)
    for (const WeightSpec& w : weights_of(depth_of(p.model, 0, plan.vocab))) print_weight(plan, w);
  for (const auto& stage : plan.chunks)
    for (const ChunkPlan& c : stage)
      fmt::print("  stage {:<2}     {}{}{}{}\n", c.stage,
                 c.layers > 0 ? fmt::format("layers {}-{}", c.first_layer, c.first_layer + c.layers - 1) : "no layers",
                 c.first ? ", embedding" : "", c.last ? ", head" : "", c.depths > 0 ? ", multi-token prediction" : "");
}

// One letter and two numbers an action: F0.3 is the forward of micro batch 3 in chunk 0. B: backward, W: the gradients of weights,
// where backward leaves them out. F0.3/1 is its second part, where it takes turns with a backward.
void print_schedule(const Plan& plan) {
  for (std::size_t stage = 0; stage < plan.schedule.size(); ++stage) {
    fmt::print("  schedule {:<3}", stage);
    for (const Action& a : plan.schedule[stage]) {
      const char letter = a.kind == Action::Kind::forward           ? 'F'
                          : a.kind == Action::Kind::backward        ? 'B'
                          : a.kind == Action::Kind::weight_gradient ? 'W'
                                                                    : ' ';
      if (letter == ' ') continue;
      fmt::print(" {}{}.{}", letter, a.chunk, a.micro);
      if (a.part > 0) fmt::print("/{}", a.part);
    }
    fmt::print("\n");
  }
}

void print_memory(const std::vector<MemoryUse>& peaks, const std::vector<std::size_t>& reserved, int world,
                  std::string_view of = "peak memory") {
  if (peaks.empty()) return;
  fmt::print("  {}, MiB a rank\n    {:<12}{:>12}", of, "ranks", "total");
  for (int c = 0; c < kCategories; ++c) fmt::print("{:>13}", name_of(static_cast<Category>(c)));
  fmt::print("{:>12}\n", "reserved");
  const int ranks = world / static_cast<int>(peaks.size());
  for (int stage = 0; stage < static_cast<int>(peaks.size()); ++stage) {
    const MemoryUse& use = peaks[static_cast<std::size_t>(stage)];
    constexpr double mib = 1048576;
    const int first = stage * ranks;
    fmt::print("    {:<12}{:>12.1f}",
               ranks == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + ranks - 1),
               static_cast<double>(use.total) / mib);
    for (const std::size_t bytes : use.by_category) fmt::print("{:>13.1f}", static_cast<double>(bytes) / mib);
    fmt::print("{:>12.1f}\n", static_cast<double>(reserved[static_cast<std::size_t>(stage)]) / mib);
  }
}

constexpr std::string_view kHostMemory = "peak of host memory";

// Of all ranks, which share a CPU's memory.
std::uint64_t reserved_together(const sim::MemoryForecast& f, int world) {
  std::uint64_t bytes = 0;
  for (const auto* stages : {&f.reserved_by_stage, &f.host_reserved_by_stage})
    for (const std::size_t of_rank : *stages) bytes += of_rank * static_cast<std::size_t>(world) / stages->size();
  return bytes;
}

void print_forecast(const Point& point, const Plan& plan, api::PointSimulator& simulator, const PlanOptions& options) {
  if (!point.simulated()) {
    const sim::MemoryForecast f = sim::forecast_memory(plan, point.memory_limit);
    print_memory(f.peak_by_stage, f.reserved_by_stage, plan.mesh.world());
    print_memory(f.host_peak_by_stage, f.host_reserved_by_stage, plan.mesh.world(), kHostMemory);
    if (point.device == "cpu")
      if (const std::string why = does_not_fit(plan.mesh.world(), reserved_together(f, plan.mesh.world()));
          !why.empty())
        fmt::print("  does not fit {}\n", why);
    return;
  }
  const sim::Simulation s = simulator.simulate(point);
  print_memory(s.peak_by_stage, s.reserved_by_stage, plan.mesh.world());
  print_memory(s.host_peak_by_stage, s.host_reserved_by_stage, plan.mesh.world(), kHostMemory);
  const sim::Machine& machine = simulator.machine_of(point);
  fmt::print("  device       {}: {} for the allocator of {}\n", machine.name, format_bytes(machine.usable_memory()),
             format_bytes(machine.device.memory_bytes));
  const PointResult& r = s.result;
  fmt::print("  simulated    {:.4g} ms a step, {:.4g} samples/s, framework {}", r.iteration_ms->mean, *r.samples_per_s,
             name_of(point.framework));
  if (r.mfu) fmt::print(", MFU {:.1f} %", *r.mfu * 100);
  // Of different ranks, so that they may be more than the step together.
  const auto of_rank = [&](double share, const std::optional<std::int64_t>& rank) {
    return point.world() > 1 && rank && share > 0 ? fmt::format(" (rank {})", *rank) : std::string();
  };
  fmt::print(", communication {:.1f} %{}, bubble {:.1f} %{}\n", *r.communication_fraction * 100,
             of_rank(*r.communication_fraction, s.rank_of_communication), *r.bubble_fraction * 100,
             of_rank(*r.bubble_fraction, s.rank_of_bubble));
  const auto simulate = [&](const Point& other) { return simulator.simulate(other); };
  // A user looks for it in the layout else.
  if (const auto loader = options.advice ? std::nullopt : search::loader_decides(point, s, simulate, 0.02))
    fmt::print("  loader       {}\n", *loader);
  if (options.advice) {
    const auto said = search::advise(point, s, machine, simulate);
    const char* head = "advice";
    for (const std::string& text : said) fmt::print("  {:<12} {}\n", std::exchange(head, ""), text);
    if (said.empty()) fmt::print("  {:<12} none: nothing that was tried is faster\n", head);
  }
  if (options.sensitivities) fmt::print("\n{}", sensitivities(point, simulator));
}

// Whether there is a plan, or a reason why there can be none; false if something went wrong on the way.
bool print_point(const sweeps::SpecPoint& point, const sweeps::Spec& spec, const PlanOptions& options,
                 api::PointSimulator& simulator) {
  bool good = true;
  fmt::print("{}  {}\n", point.id, printable(point.label));
  try {
    const Plan plan = strategies::make_plan(point.point);
    print_layout(point.point, plan);
    if (options.schedule) print_schedule(plan);
    if (!options.snapshot.empty())
      fmt::print("  snapshot     {}\n",
                 write_memory_snapshot(trace_path(options.snapshot, spec, point.point), point.point, plan, simulator));
    if (options.memory) fmt::print("{}", memory_by_tensor(point.point, plan, simulator));
    print_forecast(point.point, plan, simulator, options);
  } catch (const Error& e) {
    good = outcome_of(e.kind()).has_value();
    fmt::print("  {}: {}\n", good ? "cannot run" : "failed", printable(e.what()));
    fmt::print(stderr, "mbench: {} {}\n", point.id, printable(e.what()));
  } catch (const std::system_error&) {  // standard output is full
    throw;
  } catch (const std::exception& e) {
    good = false;
    fmt::print("  failed: {}\n", e.what());
    fmt::print(stderr, "mbench: {} {}\n", point.id, printable(e.what()));
  }
  fmt::print("\n");
  return good;
}

}  // namespace

void add_plan(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", kPlanHelp);
  command
      ->add_option("SPEC", options->spec.path,
                   "The sweep's spec; or a results.json or the folder of a sweep or search, whose points are planned")
      ->required();
  command->add_option("--set", options->spec.set, "field=value: set a field of every point (repeatable)");
  command->add_option("--filter", options->spec.filter, "field=value: only points with that value (repeatable)");
  add_import_options(*command, options->trainer);
  command->add_flag("--sensitivities", options->sensitivities,
                    "Simulated: what 10 % more of each figure of the machine's file gives");
  command->add_flag("--advice", options->advice,
                    "Simulated: sizes that the machine's units do not like, stages out of balance, tp across nodes, "
                    "and what each costs");
  command->add_flag("--memory", options->memory,
                    "What the fullest rank holds at its peak, tensor by tensor, and which single change frees most");
  command
      ->add_option("--memory-snapshot", options->snapshot,
                   "Write what the fullest rank allocates in a step to FILE, for PyTorch's memory viewer: a pickle, or "
                   "JSON where FILE ends in .json. With several points, the point's id stands before the extension")
      ->type_name("FILE");
  command->add_flag("--schedule", options->schedule, "Print every stage's forwards and backwards in order");
  command
      ->add_option("--on", options->on, "Device: cpu, cuda (counted as on the CPU) or sim:<N>x<MACHINE>; default cpu")
      ->type_name("DEVICE");
  command->callback([options, &exit] {
    options->spec.device = device_asked(options->on);
    find_and_import(options->spec, options->trainer);
    const char* simulated = options->sensitivities ? "--sensitivities" : options->advice ? "--advice" : nullptr;
    if (simulated && !options->on.starts_with("sim:"))
      fail(ErrorKind::bad_input, simulated, "is of a simulated machine, got --on {}, need sim:<N>x<MACHINE>",
           options->on);
    api::PointSimulator simulator;
    const sweeps::Spec spec = sweeps::read_spec(options->spec);
    for (const sweeps::SpecPoint& p : spec.points) {
      if (p.point.simulated()) simulator.check(p.point);
      if (!print_point(p, spec, *options, simulator)) exit.code = Exit::kFailed;
    }
  });
}

}  // namespace mbench::cli
