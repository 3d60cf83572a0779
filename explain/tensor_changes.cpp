#include "explain/tensor_changes.h"

#include <algorithm>
#include <functional>

namespace mbench::explain {
namespace {

using sim::TensorsAtPeak;
using Left = std::vector<const TensorsAtPeak*>;

// "forward 3" and "forward of 4 micro batches" are both of the forward.
std::string_view pass_of(const TensorsAtPeak& t) {
  return std::string_view(t.made_by).substr(0, t.made_by.find(' '));
}

std::int64_t bytes_of(const std::optional<TensorsAtPeak>& t) {
  return t ? static_cast<std::int64_t>(t->bytes) : 0;
}

TensorChange change_of(const TensorsAtPeak* from, const TensorsAtPeak* to) {
  TensorChange change{TensorChange::Kind::grew, from ? std::optional(*from) : std::nullopt,
                      to ? std::optional(*to) : std::nullopt};
  change.bytes = bytes_of(change.to) - bytes_of(change.from);
  change.kind = !from              ? TensorChange::Kind::came
                : !to              ? TensorChange::Kind::went
                : change.bytes < 0 ? TensorChange::Kind::shrank
                                   : TensorChange::Kind::grew;
  return change;
}

// Takes pairs that are alike out of both lists, which keep their order.
void pair_up(Left& from, Left& to, const std::function<bool(const TensorsAtPeak&, const TensorsAtPeak&)>& alike,
             std::vector<TensorChange>& changes) {
  for (const TensorsAtPeak*& old : from) {
    const auto same = std::find_if(to.begin(), to.end(), [&](const TensorsAtPeak* t) { return t && alike(*old, *t); });
    if (same == to.end()) continue;
    changes.push_back(change_of(old, *same));
    old = *same = nullptr;
  }
  std::erase(from, nullptr);
  std::erase(to, nullptr);
}

}  // namespace

std::string_view name_of(TensorChange::Kind kind) {
  switch (kind) {
    case TensorChange::Kind::came:
      return "came";
    case TensorChange::Kind::went:
      return "went";
    case TensorChange::Kind::grew:
      return "grew";
    case TensorChange::Kind::shrank:
      return "shrank";
  }
  return "";
}

std::vector<TensorChange> changed_tensors(const sim::PeakByTensor& from, const sim::PeakByTensor& to) {
  const auto all = [](const sim::PeakByTensor& peak) {
    Left left;
    for (const TensorsAtPeak& t : peak.tensors) left.push_back(&t);
    return left;
  };
  Left before = all(from), after = all(to);
  std::vector<TensorChange> changes;
  const auto named = [](const TensorsAtPeak& a, const TensorsAtPeak& b) {
    return a.what == b.what && a.category == b.category;
  };
  const auto of_pass = [&](const TensorsAtPeak& a, const TensorsAtPeak& b) {
    return named(a, b) && pass_of(a) == pass_of(b);
  };
  pair_up(
      before, after,
      [&](const TensorsAtPeak& a, const TensorsAtPeak& b) {
        return of_pass(a, b) && a.shape == b.shape && a.dtype == b.dtype;
      },
      changes);
  pair_up(
      before, after, [&](const auto& a, const auto& b) { return of_pass(a, b) && a.where == b.where; }, changes);
  pair_up(before, after, of_pass, changes);
  pair_up(before, after, named, changes);
  for (const TensorsAtPeak* t : before) changes.push_back(change_of(t, nullptr));
  for (const TensorsAtPeak* t : after) changes.push_back(change_of(nullptr, t));
  std::erase_if(changes, [](const TensorChange& c) { return c.bytes == 0; });
  std::stable_sort(changes.begin(), changes.end(),
                   [](const TensorChange& a, const TensorChange& b) { return std::abs(a.bytes) > std::abs(b.bytes); });
  return changes;
}

}  // namespace mbench::explain
