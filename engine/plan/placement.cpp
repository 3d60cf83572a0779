#include "engine/plan/placement.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench {

Spread cut_as(const Spread& spread, int dim) {
  Spread cut;
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); spread[axis].sharded(dim)) cut.set(axis, shard(dim));
  return cut;
}

Exchange resolve(Axis axis, const Placement& from, const Placement& to) {
  using Kind = Placement::Kind;
  if (from == to) return {axis, Collective::none};
  if (from.kind == Kind::partial && to.kind == Kind::replicate) return {axis, Collective::all_reduce};
  if (from.kind == Kind::partial && to.kind == Kind::shard) return {axis, Collective::reduce_scatter, to.dim};
  if (from.kind == Kind::shard && to.kind == Kind::replicate) return {axis, Collective::all_gather, from.dim};
  if (from.kind == Kind::replicate && to.kind == Kind::shard) return {axis, Collective::scatter, to.dim};
  if (from.kind == Kind::shard && to.kind == Kind::shard) return {axis, Collective::all_to_all, from.dim, to.dim};
  fail(ErrorKind::internal, "placement", "no collective brings {} to {}", str(from), str(to));
}

Exchanges exchanges(const Spread& from, const Spread& to, const Mesh& mesh) {
  const auto cuts = [](const Exchange& e) {
    return e.what == Collective::scatter || e.what == Collective::reduce_scatter;
  };
  // What puts parts together goes from the innermost axis outwards, what cuts from the outermost inwards.
  Exchanges together, apart;
  for (int i = 0; i < kAxes; ++i) {
    const Axis axis = static_cast<Axis>(i);
    if (from[axis] == to[axis] || mesh.size(axis) == 1) continue;
    const Exchange e = resolve(axis, from[axis], to[axis]);
    if (cuts(e))
      apart.insert(apart.begin(), e);
    else
      together.push_back(e);
  }
  together.insert(together.end(), apart.begin(), apart.end());
  return together;
}

Transition Transition::between(const Flow& from, const Flow& to, const Mesh& mesh) {
  return {exchanges(from.value, to.value, mesh), exchanges(to.gradient, from.gradient, mesh)};
}

Axes reduce_over(const Spread& weight, const Spread& tokens, const Spread& outputs) {
  Axes axes;
  for (int i = 0; i < kAxes; ++i) {
    const Axis axis = static_cast<Axis>(i);
    if (weight[axis] == replicate && (tokens[axis].sharded() || outputs[axis].sharded())) axes.add(axis);
  }
  return axes;
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

std::string str(const Spread& spread, const Mesh& mesh) {
  std::string text;
  for (int i = 0; i < kAxes; ++i) {
    const Axis axis = static_cast<Axis>(i);
    if (mesh.size(axis) == 1 || spread[axis] == replicate) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(axis), str(spread[axis]));
  }
  return text.empty() ? "replicate" : text;
}

std::string_view name_of(Collective c) {
  static constexpr std::string_view names[] = {"none",           "all-reduce", "all-gather",
                                               "reduce-scatter", "scatter",    "all-to-all"};
  return names[static_cast<int>(c)];
}

std::string str(const Exchanges& list) {
  std::string text;
  for (const Exchange& e : list)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(e.what), name_of(e.axis));
  return text.empty() ? "none" : text;
}

}  // namespace mbench
