#include "engine/plan/plan.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench {
SequenceShare Plan::share_of(int cp_rank) const {
  return {training.seq, mesh.size(Axis::cp), cp_rank, cp_communication != CpCommunication::all_to_all};
}

Flow Plan::whole_share() const {
  Flow flow = hidden;
  for (const Axis axis : ((kDenseAxes | kExpertAxes) - Axes{Axis::cp}).list())
    if (flow.value[axis].sharded(0)) flow = flow.with(axis, replicate, replicate);
  return flow;
}

bool ExpertRoom::on_host() const {
  return std::ranges::any_of(
      pages, [](const auto& stage) { return std::ranges::any_of(stage, [](const Pages& p) { return p.host > 0; }); });
}

int Plan::stage_at(int position) const {
  for (const auto& stage : chunks)
    for (const ChunkPlan& chunk : stage)
      if (chunk.position == position) return chunk.stage;
  fail(ErrorKind::internal, "plan", "chunk {} of the model's layers is on no stage, need one", position);
}

bool Plan::splits_backward() const {
  return std::ranges::any_of(schedule.front(), [](const Action& a) { return a.kind == Action::Kind::weight_gradient; });
}

std::vector<int> Plan::stages_with_words() const {
  int last = 0;
  for (const auto& stage : chunks)
    for (const ChunkPlan& chunk : stage)
      if (chunk.last) last = chunk.stage;
  int ahead = last;
  for (const auto& stage : chunks)
    for (const ChunkPlan& chunk : stage)
      if (chunk.depths > 0) ahead = chunk.stage;
  std::vector<int> stages{0};
  if (ahead != 0) stages.push_back(ahead);
  if (last > ahead && model.ties_embedding()) stages.push_back(last);
  return stages;
}

std::string phase_name(const Action& a) {
  const std::string part = a.part > 0 ? fmt::format(", part {}", a.part) : "";
  return a.chunk == 0 ? fmt::format("{} {}{}", name_of(a.kind), a.micro, part)
                      : fmt::format("{} {} of chunk {}{}", name_of(a.kind), a.micro, a.chunk, part);
}

std::string_view name_of(Action::Kind kind) {
  static constexpr std::string_view names[] = {"receive activation", "forward",  "send activation",
                                               "receive gradient",   "backward", "send gradient",
                                               "weight gradient"};
  return names[static_cast<int>(kind)];
}

}  // namespace mbench
