#include "reports/records/bound.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printed_part.h"
#include "engine/point/choices.h"
#include "engine/point/result.h"

namespace mbench::reports {
namespace {

// How many nodes the neighbours of an axis span, each `stride` ranks from the next.
int nodes_of(std::int64_t size, std::int64_t stride, int devices_per_node) {
  if (devices_per_node <= 0 || size <= 1) return 1;
  return static_cast<int>((size * stride + devices_per_node - 1) / devices_per_node);
}

// "TP 16 spans 2 nodes, a tp of 8 stays within one"
std::string across_nodes(const char* axis, const char* field, std::int64_t size, std::int64_t stride, int per_node) {
  const int nodes = nodes_of(size, stride, per_node);
  if (nodes < 2) return "";
  const std::int64_t inside = per_node / stride;
  return fmt::format("{} {} spans {} nodes{}", axis, size, nodes,
                     inside > 1 ? fmt::format(", {} of {} stays within one", field, inside) : "");
}

std::string of_data(const Point& p) {
  const std::int64_t m = p.micro_batches();
  if (p.zero == Zero::stage_3 || (p.zero == Zero::fsdp))
    return m > 1 ? fmt::format("zero {} gathers weights for each of {} micro batches, a larger micro_batch needs fewer",
                               name_of(p.zero), m)
                 : fmt::format("zero {} gathers weights twice, a lower zero once", name_of(p.zero));
  if ((p.zero == Zero::stage_2 || p.zero == Zero::oss_sdp) && m > 1)
    return fmt::format("zero {} reduces gradients in each of {} micro batches, zero 1 once a step", name_of(p.zero), m);
  return "a larger global_batch hides and shares it";
}

// What would make a part less; empty for one that no layout can spare.
std::string help_for(TimePart part, const Point& p, int per_node) {
  switch (part) {
    case TimePart::gemms:
      if (p.recompute == Recompute::full) return "full recompute runs every layer's forward twice";
      return "";
    case TimePart::attention:
      return p.attention == AttentionKind::core ? "attention flash does not store scores" : "";
    case TimePart::elementwise:
      return p.tp > 1 && !p.sequence_parallel
                 ? fmt::format("sequence_parallel shares it among the {} ranks of tp", p.tp)
                 : "";
    case TimePart::optimizer:
      return p.zero == Zero::none && p.dp > 1 ? fmt::format("zero 1 shares it among {} ranks", p.dp * p.cp) : "";
    case TimePart::copies:
      return "";
    case TimePart::host:
      return p.model.masks_words()
                 ? "the device waits for its host or its loader: more loader_workers, or a larger micro_batch"
                 : "the device waits for its host: a larger micro_batch or a smaller tp makes kernels longer";
    case TimePart::bubble:
      if (p.pp == 1) return "";
      return fmt::format("{} stages with {} micro batches: {}", p.pp, p.micro_batches(),
                         splits_backward(p.schedule) ? "a smaller micro_batch shortens it"
                         : p.schedule == ScheduleKind::interleaved
                             ? "more virtual_stages or a smaller micro_batch shorten it"
                             : "a smaller micro_batch or schedule interleaved shortens it");
    case TimePart::communication_tp: {
      const std::string across = across_nodes("TP", "tp", p.tp, 1, per_node);
      if (!across.empty()) return across;
      if (p.tp_gathers == TpGathers::gemm) return "tp_gathers block gathers once for all GEMMs of a block";
      return p.sequence_parallel && !p.tp_comm_overlap
                 ? "a smaller tp sends less, tp_comm_overlap overlaps it with GEMMs"
                 : "a smaller tp sends less";
    }
    case TimePart::communication_cp: {
      const std::string across = across_nodes("CP", "cp", p.cp, p.tp, per_node);
      return across.empty() ? "a smaller cp sends less" : across;
    }
    case TimePart::communication_ep: {
      const std::string across = across_nodes("EP", "ep", p.ep, p.expert_tp(), per_node);
      return across.empty() ? "a smaller ep sends less" : across;
    }
    case TimePart::communication_dp:
      return of_data(p);
    case TimePart::communication_pp:
      return "fewer stages or virtual_stages send less";
    case TimePart::communication_other:
      return "";
  }
  return "";
}

}  // namespace

std::optional<TimeShares> time_shares(const PointResult& r) {
  if (!r.time_anatomy_ms || !r.iteration_ms || r.iteration_ms->mean <= 0) return std::nullopt;
  TimeShares shares;
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    const double share = (*r.time_anatomy_ms)[part] / r.iteration_ms->mean;
    (part == TimePart::host               ? shares.host
     : part == TimePart::bubble           ? shares.bubble
     : part >= TimePart::communication_tp ? shares.communication
                                          : shares.compute) += share;
  }
  return shares;
}

std::string bound_by(const PointResult& r, int per_node) {
  if (!time_shares(r)) return "";
  const auto share = [&](TimePart part) { return (*r.time_anatomy_ms)[part] / r.iteration_ms->mean; };
  TimePart largest = TimePart::gemms;
  std::optional<TimePart> spare;  // the largest of those that could be less
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    if (share(part) > share(largest)) largest = part;
    if (!help_for(part, r.point, per_node).empty() && (!spare || share(part) > share(*spare))) spare = part;
  }
  const auto reported = [&](TimePart part) {
    return fmt::format("{} {:.0f} %", printed_name(part), share(part) * 100);
  };
  constexpr double kWorthTelling = 0.02;
  if (!spare || share(*spare) < kWorthTelling) return reported(largest);
  const std::string help = help_for(*spare, r.point, per_node);
  if (*spare == largest) return reported(largest) + ": " + help;
  return fmt::format("{}; {}: {}", reported(largest), reported(*spare), help);
}

}  // namespace mbench::reports
