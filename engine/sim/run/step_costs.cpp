#include "engine/sim/run/step_costs.h"

#include <algorithm>
#include <utility>

#include "engine/ops/attention_pieces.h"
#include "engine/plan/plan.h"
#include "engine/sim/cost/device.h"
#include "engine/sim/machine/straggler.h"

namespace mbench::sim {

std::uint64_t library_memory(const Plan& plan) {
  const FrameworkMemory& held = plan.framework->memory;
  return held.always + (plan.model.experts > 0 ? held.experts : 0) + (plan.tp_comm_overlap ? held.tp_comm_overlap : 0);
}

// Of what attention takes at a time: a block of the sequence, a document, or a chunk of one.
std::int64_t longest_of(const Plan& plan, std::int64_t blocks) {
  if (blocks > 1) return plan.training.seq / blocks;
  std::int64_t longest = 0;
  for (const std::int64_t chunk : plan.model.attention_chunks()) {
    const DocumentsOrNone documents = in_chunks(plan.training.documents, plan.training.seq, chunk);
    if (!documents) return plan.training.seq;
    for (std::int64_t d = 0; d < documents->count(); ++d)
      longest = std::max(longest, documents->end(d) - documents->first(d));
  }
  return longest;
}

std::uint64_t attention_workspace(const Plan& plan, const Machine& m) {
  if (!plan.framework->attention_workspace || m.immediate || plan.attention != AttentionKind::flash ||
      plan.precision.model == DType::f32)
    return 0;
  const std::int64_t tp = plan.mesh.size(Axis::tp), cp = plan.mesh.size(Axis::cp), samples = plan.training.micro_batch;
  const bool all_to_all = plan.cp_communication == CpCommunication::all_to_all;
  const std::int64_t ranks = tp * (all_to_all ? cp : 1), blocks = all_to_all || cp == 1 ? 1 : 2 * cp;
  const std::int64_t heads = std::max<std::int64_t>(1, plan.model.heads / ranks), seq = longest_of(plan, blocks),
                     all_groups = plan.model.kv_heads == 0 ? plan.model.heads : plan.model.kv_heads,
                     groups = std::max<std::int64_t>(1, all_groups / ranks),
                     group = std::max<std::int64_t>(1, heads / groups);
  if (!plan.keeps().deterministic_attention)  // gradients of queries in f32, and row sums
    return static_cast<std::uint64_t>(samples * heads * seq * (plan.model.head_dim() + 1) * 4);
  const bool shared = group > 1;
  const ops::AttentionPieces piece =
      ops::attention_pieces(shared ? samples * groups : samples, shared ? group : heads, seq, shared);
  const std::int64_t row_sums = piece.samples * piece.heads * seq * 4;
  return static_cast<std::uint64_t>(ops::score_gradient_bytes(piece.samples, piece.heads, seq) + row_sums);
}

namespace {

HostTimes estimated_times(const Plan& plan, const Machine& m) {
  HostTimes t;
  const Framework& f = *plan.framework;
  const HostCosts& host = f.host;
  const bool fills = f.keeps.filled_tensors;
  const std::int64_t tp = plan.mesh.size(Axis::tp), dp = plan.mesh.size(Axis::dp);
  const double kernel = host.kernel + (fills ? host.fill : 0);
  t.launch = m.host.launch + kernel / m.host.speed;
  // Python's interpreter runs one thread at a time; backward is C++'s, a thread for each device.
  const bool locked = plan.single_process && f.interpreter_lock;
  t.launch_together = m.host.launch + kernel / m.host.speed * static_cast<double>(locked ? dp : 1);
  t.collective = m.host.launch + host.collective / m.host.speed;
  t.message = m.host.launch + host.message / m.host.speed;
  t.synchronize = m.host.synchronize;
  for (const HostCost& cost : kHostCosts) t.work[cost.work] = host.work[cost.work] / m.host.speed;
  t.work[HostWork::call] = m.host.launch + (host.work[HostWork::call] + (fills ? host.call_fill : 0)) / m.host.speed;
  // Tokens and their positions go to the first stage, labels and the loss's mask to the last, the mask of attention to both. The stages
  // between get none, but are no slower than those for what they are charged here.
  double& micro_batch = t.work[HostWork::micro_batch];
  const auto& ends = plan.chunks.front();  // the first stage's: of one stage, or of stages in a V, it has the loss too
  const bool both = std::ranges::any_of(ends, [](const ChunkPlan& c) { return c.last; });
  if (tp > 1 && host.broadcasts > 0) micro_batch += t.collective * (both ? host.broadcasts : (host.broadcasts + 1) / 2);
  // Who makes samples of masked words decides for each token whether to mask it: workers, beside all else, or the step itself.
  if (plan.model.masks_words()) {
    const double making =
        host.masked_token * static_cast<double>(plan.training.seq * plan.training.micro_batch) / m.host.speed;
    if (plan.loader.workers > 0)
      t.loader = making / static_cast<double>(plan.loader.workers);
    else
      micro_batch += making;
  }
  t.overlap_slowdown = m.device.communication_multiprocessors / m.device.multiprocessors;
  const bool interleaved = plan.chunks[0].size() > 1;
  t.messages_block = f.messages_block == MessagesBlock::always ||
                     (f.messages_block == MessagesBlock::unless_interleaved && !interleaved);
  t.receives_ahead = f.posts_receives_ahead(plan.chunks[0].size());
  t.loss_blocks = f.loss_blocks;
  t.tensor_collectives_block = f.tensor_collectives_block;
  t.immediate = m.immediate;
  t.progress_in_calls = m.measured && m.measured->progress_in_calls;
  t.graph_node = m.immediate ? m.host.launch : m.host.graph_node;
  t.work[HostWork::graph] += m.immediate ? 0 : m.host.graph_launch;
  if (!plan.capture) return t;
  // A replayed step is one call of the framework's; what is left of its ops is the driver's, or, where the host is the
  // device, a call each.
  t.launch = t.launch_together = t.collective = t.message = t.graph_node;
  const double micro = t.work[HostWork::micro_batch], step = t.work[HostWork::step];
  t.work = {};
  t.work[HostWork::micro_batch] = micro, t.work[HostWork::step] = step + m.host.graph_launch,
  t.work[HostWork::call] = t.launch;
  t.messages_block = t.loss_blocks = false;
  return t;
}

}  // namespace

HostTimes host_times(const Plan& plan, const Machine& m) {
  HostTimes t = estimated_times(plan, m);
  for (double* time :
       {&t.launch, &t.launch_together, &t.collective, &t.message, &t.graph_node, &t.synchronize, &t.loader})
    *time = whole_ticks(*time);
  for (double& time : t.work) time = whole_ticks(time);
  return t;
}

std::optional<std::string> why_lacking(const Needs& p, const Machine& machine, const Framework& framework) {
  if (p.offload != Offload::none && !machine.knows_host_memory())
    return fmt::format(
        "offload {} on {}, whose file has no host.memory_mib, memory_gbps, adam_efficiency and copy_gbps, need them or "
        "offload none",
        name_of(p.offload), machine.name);
  if (p.offload_activations.any() && !machine.knows_host_memory())
    return fmt::format(
        "offload_activations {} on {}, whose file has no host.memory_mib and copy_gbps, need them or "
        "offload_activations none",
        name_of(p.offload_activations), machine.name);
  if (p.paged_stash_host > 0 && !machine.knows_host_memory())
    return fmt::format(
        "paged_stash_host {} on {}, whose file has no host.memory_mib and copy_gbps, need them or paged_stash_host 0",
        p.paged_stash_host, machine.name);
  // Attention can be one op where it is core too.
  const bool one_op = p.attention == AttentionKind::flash || framework.keeps.fused_attention;
  if (one_op && !machine.attention_on(framework.attention))
    return fmt::format(
        "framework {} runs on the first FlashAttention, got {}, whose file has no attention.forward_flash_attention_1 "
        "and "
        "backward_flash_attention_1, need both or another framework. A framework that keeps its scores, such as "
        "megatron-core, also runs attention core",
        framework.name, machine.name);
  for (const auto& [op, _] : framework.unfused)
    if (!can_be_unfused(op))
      return fmt::format(
          "framework {} has unfused {}, which is no op of the engine, need one such as rms_norm, swiglu or adam",
          framework.name, op);
  // Storage in 16 bits needs no units for it; tf32 is nothing but its units.
  const bool converted = machine.immediate && p.precision != Precision::tf32;
  if (p.precision == Precision::fp8 && p.fp8_recipe == Fp8Recipe::mxfp8 && !machine.device.mxfp8 && !converted)
    return fmt::format(
        "{} multiplies no MXFP8 (its file has no device.mxfp8), need a machine that does, such as B200-180GB, or "
        "precision.fp8_recipe delayed, tensorwise or blockwise",
        machine.name);
  if (machine.device.peak_flops[static_cast<std::size_t>(p.precision)] > 0 || converted) return std::nullopt;
  std::string has;
  for (int i = 0; i < kPrecisionCount; ++i)
    if (machine.device.peak_flops[i] > 0)
      has += (has.empty() ? "" : ", ") + std::string(name_of(static_cast<Precision>(i)));
  return fmt::format("{} has no {}, need one of {}", machine.name, name_of(p.precision), has);
}

Plan plan_for(Plan plan, const Machine& machine) {
  plan.precision.turned_fp8 = machine.device.fp8_any_layout;
  return plan;
}

std::unique_ptr<CostModel> costs_of(const Plan& plan, Machine machine, std::int64_t ranks) {
  // The ranks of a node share its processor where that is the device.
  const int ranks_on_node = std::min<int>(static_cast<int>(ranks), machine.node.devices);
  const double share = machine.immediate ? 1.0 / ranks_on_node : 1;
  return std::make_unique<CostModel>(std::move(machine), *plan.framework, share, plan.precision.units, ranks_on_node,
                                     plan.keeps().filled_tensors);
}

std::unique_ptr<CostModel> costs_of(const Plan& plan, const Machine& machine) {
  return costs_of(plan, slowest_of(machine, plan.mesh.world()), plan.mesh.world());
}

std::uint64_t memory_limit(const RunSpec& run, const Plan& plan, const Machine& machine) {
  const std::uint64_t all = machine.usable_memory(),
                      limit = run.memory_limit == 0 ? all : std::min(all, run.memory_limit);
  const std::uint64_t workspace = attention_workspace(plan, machine);
  if (limit <= workspace)
    fail(ErrorKind::out_of_memory, "sim", "{} of {} MiB for the workspace of attention flash's gradient, need more",
         workspace >> 20, limit >> 20);
  return limit - workspace;
}

}  // namespace mbench::sim
