#include "engine/sim/cluster.h"

#include <algorithm>

#include "engine/ops/attention_pieces.h"
#include "engine/plan/plan.h"
#include "engine/point/point.h"
#include "engine/sim/device.h"
#include "engine/sim/world.h"

namespace mbench {

std::uint64_t library_memory(const Plan& plan, const Framework& f) {
  return f.memory.always + (plan.model.experts > 0 ? f.memory.experts : 0) + (plan.tp_comm_overlap ? f.memory.tp_comm_overlap : 0);
}

std::uint64_t attention_workspace(const Point& p, const Machine& m) {
  const bool halves = p.precision != Precision::f32 && p.precision != Precision::tf32;
  const std::string& kernels_of = p.framework.host.empty() ? p.framework.preset : p.framework.host;
  if (kernels_of != "mbench" || m.immediate || p.attention != AttentionKind::flash || !halves) return 0;
  const std::int64_t ranks = p.tp * (p.cp_communication == CpCommunication::all_to_all ? p.cp : 1),
                     blocks = p.cp_communication == CpCommunication::all_to_all || p.cp == 1 ? 1 : 2 * p.cp;
  const std::int64_t heads = std::max<std::int64_t>(1, p.model.heads / ranks), seq = p.seq / blocks,
                     all_groups = p.model.kv_heads == 0 ? p.model.heads : p.model.kv_heads,
                     groups = std::max<std::int64_t>(1, all_groups / ranks), group = std::max<std::int64_t>(1, heads / groups);
  if (!framework_of(p.framework)->keeps.deterministic_attention)  // gradients of queries in f32, and row sums
    return static_cast<std::uint64_t>(p.micro_batch * heads * seq * (p.model.head_dim() + 1) * 4);
  const bool shared = group > 1;
  const ops::AttentionPieces piece = ops::attention_pieces(shared ? p.micro_batch * groups : p.micro_batch,
                                                           shared ? group : heads, seq, shared);
  const std::int64_t row_sums = piece.samples * piece.heads * seq * 4;
  return static_cast<std::uint64_t>(ops::score_gradient_bytes(piece.samples, piece.heads, seq) + row_sums);
}

namespace {

HostTimes estimated_times(const Point& p, const Machine& m, const Framework& f) {
  HostTimes t;
  const HostCosts& host = f.host;
  const bool fills = framework_of(p.framework)->keeps.filled_tensors;
  const double kernel = host.kernel + (fills ? host.fill : 0);
  t.launch = m.host.launch + kernel / m.host.speed;
  // Python's interpreter runs one thread at a time; backward is C++'s, a thread for each device.
  const bool locked = p.replicas == Replicas::single_process && f.interpreter_lock;
  t.launch_together = m.host.launch + kernel / m.host.speed * static_cast<double>(locked ? p.dp : 1);
  t.collective = m.host.launch + host.collective / m.host.speed;
  t.message = m.host.launch + host.message / m.host.speed;
  t.synchronize = m.host.synchronize;
  for (const HostCost& cost : kHostCosts) t.work[cost.work] = host.work[cost.work] / m.host.speed;
  t.work[HostWork::call] = m.host.launch + (host.work[HostWork::call] + (fills ? host.call_fill : 0)) / m.host.speed;
  // Tokens and their positions go to the first stage, labels and the loss's mask to the last, the mask of attention to both. The stages
  // between get none, but are no slower than those for what they are charged here.
  double& micro_batch = t.work[HostWork::micro_batch];
  if (p.tp > 1 && host.broadcasts > 0) micro_batch += t.collective * (p.pp == 1 ? host.broadcasts : (host.broadcasts + 1) / 2);
  // Who makes samples of masked words decides for each token whether to mask it: workers, beside all else, or the step itself.
  if (p.model.parts().objective == Objective::masked_words_and_order) {
    const double making = host.masked_token * static_cast<double>(p.seq * p.micro_batch) / m.host.speed;
    if (p.loader_workers > 0)
      t.loader = making / static_cast<double>(p.loader_workers);
    else
      micro_batch += making;
  }
  t.overlap_slowdown = m.device.communication_multiprocessors / m.device.multiprocessors;
  t.messages_block = f.messages_block == MessagesBlock::always ||
                     (f.messages_block == MessagesBlock::unless_interleaved && p.virtual_stages == 1);
  t.loss_blocks = f.loss_blocks;
  t.tensor_collectives_block = f.tensor_collectives_block;
  t.immediate = m.immediate;
  t.progress_in_calls = m.measured && m.measured->progress_in_calls;
  if (!p.capture) return t;
  // A replayed step is one call of the framework's; what is left of its ops is the driver's, or, where the host is the
  // device, a call each.
  t.launch = t.launch_together = t.collective = t.message = m.immediate ? m.host.launch : m.host.graph_node;
  const double micro = t.work[HostWork::micro_batch], step = t.work[HostWork::step];
  t.work = {};
  t.work[HostWork::micro_batch] = micro, t.work[HostWork::step] = step + m.host.graph_launch, t.work[HostWork::call] = t.launch;
  t.messages_block = t.loss_blocks = false;
  return t;
}

}  // namespace

HostTimes host_times(const Point& p, const Machine& m, const Framework& f) {
  HostTimes t = estimated_times(p, m, f);
  for (double* time : {&t.launch, &t.launch_together, &t.collective, &t.message, &t.synchronize, &t.loader}) *time = whole_ticks(*time);
  for (double& time : t.work) time = whole_ticks(time);
  return t;
}

namespace {

// Peer-to-peer access can be switched off, as NCCL's users do.
bool direct_links(const Point& point) {
  const auto off = point.env.find("NCCL_P2P_DISABLE");
  return off == point.env.end() || off->second == "0";
}

}  // namespace

std::optional<std::string> why_lacking(const Point& p, const Machine& machine, const Framework& framework) {
  if (p.offload != Offload::none && !machine.knows_host_memory())
    return fmt::format("offload {} on {}, whose file has no host.memory_mib, memory_gbps, adam_efficiency and copy_gbps, need them or offload none",
                       name_of(p.offload), machine.name);
  // Attention can be one op where it is core too.
  const bool one_op = p.attention == AttentionKind::flash || framework_of(p.framework)->keeps.fused_attention;
  if (one_op && !machine.attention_on(framework.attention))
    return fmt::format("framework {} runs on the first FlashAttention, got {}, whose file has no attention.forward_flash_attention_1 and "
                       "backward_flash_attention_1, need them, another framework, or attention core with a framework that keeps its scores, as megatron-core does",
                       framework.name, machine.name);
  // Storage in 16 bits needs no units for it; tf32 is nothing but its units.
  const bool converted = machine.immediate && p.precision != Precision::tf32;
  if (machine.device.peak_flops[static_cast<std::size_t>(p.precision)] > 0 || converted) return std::nullopt;
  std::string has;
  for (int i = 0; i < kPrecisionCount; ++i)
    if (machine.device.peak_flops[i] > 0) has += (has.empty() ? "" : ", ") + std::string(name_of(static_cast<Precision>(i)));
  return fmt::format("{} has no {}, need one of {}", machine.name, name_of(p.precision), has);
}

Links links_of(const Point& point, const Machine& machine) {
  return Links(machine, direct_links(point));
}

std::unique_ptr<sim::CostModel> costs_of(const Point& point, const Machine& machine,
                                         const Framework& framework) {
  // The ranks of a node share its processor where that is the device.
  const int ranks_on_node = std::min<int>(static_cast<int>(point.world()), machine.node.devices);
  const double share = machine.immediate ? 1.0 / ranks_on_node : 1;
  return std::make_unique<sim::CostModel>(machine, framework, share, point.precision, ranks_on_node,
                                          framework_of(point.framework)->keeps.filled_tensors);
}

namespace {

class Cluster final : public SimulatedCluster {
 public:
  Cluster(const Point& point, const Machine& machine, const Framework& framework, int stages,
          int ranks_per_stage)
      : point_(point),
        machine_(machine),
        framework_(framework),
        links_(links_of(point, machine)),
        network_(stages, ranks_per_stage),
        clocks_(static_cast<std::size_t>(stages), VirtualClock(host_times(point, machine, framework))) {
    const int size = stages * ranks_per_stage;
    for (int s = 0; s < stages; ++s)
      worlds_.emplace_back(s * ranks_per_stage, size, network_, links_, clocks_[static_cast<std::size_t>(s)]);
  }

  std::unique_ptr<Device> open_device(int stage, std::size_t memory_limit) override {
    return std::make_unique<sim::SimDevice>(machine_.name, memory_limit,
                                            costs_of(point_, machine_, framework_),
                                            clocks_[static_cast<std::size_t>(stage)]);
  }
  World& world(int stage) override { return worlds_[static_cast<std::size_t>(stage)]; }
  void leave(int stage) override { network_.leave(stage); }
  bool is_echo(const std::exception_ptr& error) const override {
    try {
      std::rethrow_exception(error);
    } catch (const SimNetwork::Stopped&) {
      return true;
    } catch (...) {
      return false;
    }
  }

 private:
  const Point& point_;
  const Machine& machine_;
  const Framework& framework_;
  Links links_;
  SimNetwork network_;
  std::vector<VirtualClock> clocks_;
  std::vector<SimWorld> worlds_;
};

}  // namespace

std::unique_ptr<SimulatedCluster> open_cluster(const Point& point, const Machine& machine,
                                               const Framework& framework, int stages, int ranks_per_stage) {
  return std::make_unique<Cluster>(point, machine, framework, stages, ranks_per_stage);
}

}  // namespace mbench
