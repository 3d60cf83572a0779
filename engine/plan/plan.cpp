#include "engine/plan/plan.h"

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

std::vector<int> Plan::stages_with_words() const {
  const int last = mesh.size(Axis::pp) - 1;
  int ahead = last;
  for (const auto& stage : chunks)
    for (const ChunkPlan& chunk : stage)
      if (chunk.depths > 0) ahead = chunk.stage;
  std::vector<int> stages{0};
  if (ahead != 0) stages.push_back(ahead);
  if (last > ahead && model.parts().tied_embedding) stages.push_back(last);
  return stages;
}

std::string phase_name(const Action& a) {
  return a.chunk == 0 ? fmt::format("{} {}", name_of(a.kind), a.micro)
                      : fmt::format("{} {} of chunk {}", name_of(a.kind), a.micro, a.chunk);
}

std::string_view name_of(Action::Kind kind) {
  static constexpr std::string_view names[] = {"receive activation", "forward",  "send activation",
                                               "receive gradient",   "backward", "send gradient"};
  return names[static_cast<int>(kind)];
}

}  // namespace mbench
