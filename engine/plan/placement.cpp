#include "engine/plan/placement.h"

#include "engine/base/error.h"

namespace mbench {

Collective resolve(const Placement& from, const Placement& to) {
  using Kind = Placement::Kind;
  if (from == to) return Collective::none;
  if (from.kind == Kind::partial && to.kind == Kind::replicate) return Collective::all_reduce;
  if (from.kind == Kind::partial && to.kind == Kind::shard) return Collective::reduce_scatter;
  if (from.kind == Kind::shard && to.kind == Kind::replicate) return Collective::all_gather;
  if (from.kind == Kind::replicate && to.kind == Kind::shard) return Collective::split;
  fail(ErrorKind::internal, "placement", "no collective brings {} to {}", str(from), str(to));
}

Transition Transition::between(const Flow& from, const Flow& to, int axis_size) {
  if (axis_size == 1) return {};
  return {resolve(from.value, to.value), resolve(to.gradient, from.gradient)};
}

std::string str(const Placement& p) {
  switch (p.kind) {
    case Placement::Kind::replicate:
      return "replicate";
    case Placement::Kind::partial:
      return "partial";
    case Placement::Kind::shard:
      return fmt::format("shard({})", p.dim);
  }
  return "?";
}

std::string_view name_of(Collective c) {
  switch (c) {
    case Collective::none:
      return "none";
    case Collective::all_reduce:
      return "all-reduce";
    case Collective::all_gather:
      return "all-gather";
    case Collective::reduce_scatter:
      return "reduce-scatter";
    case Collective::split:
      return "split";
  }
  return "?";
}

}  // namespace mbench
