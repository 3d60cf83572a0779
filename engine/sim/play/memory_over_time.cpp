#include "engine/sim/play/memory_over_time.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace mbench::sim {
namespace {

using Moments = std::vector<MemoryOverStep::Moment>;

// "forward of chunk 1" of "forward 3 of chunk 1": what micro batches have in common. Empty of what is no action of a micro batch.
std::string kind_of(const std::string& name) {
  const bool computes =
      name.starts_with("forward ") || name.starts_with("backward ") || name.starts_with("weight gradient ");
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto begin = std::find_if(name.begin(), name.end(), digit);
  if (!computes || begin == name.end()) return "";
  return std::string(name.begin(), begin) + std::string(std::find_if_not(begin, name.end(), digit), name.end());
}

std::vector<TimelineSpan> actions_of(const Timeline& timeline) {
  std::vector<TimelineSpan> actions;
  for (const TimelineSpan& span : timeline.spans())
    if (span.track.kind == Track::phase && !kind_of(span.name).empty()) actions.push_back(span);
  std::stable_sort(actions.begin(), actions.end(),
                   [](const TimelineSpan& a, const TimelineSpan& b) { return a.begin < b.begin; });
  return actions;
}

class OverTime {
 public:
  explicit OverTime(const MemoryOverStep& over) : over_(over), of_part_(over.parts.size()) {
    for (std::size_t i = 0; i < over.parts.size(); ++i) number_.emplace(over.parts[i], i);
    for (const MemoryOverStep::Moment& m : over.moments)
      if (const auto part = static_cast<std::size_t>(m.at); part < of_part_.size()) {
        of_part_[part].push_back(m);
        of_part_[part].back().at -= static_cast<double>(part);
      }
  }

  void add(const std::string& name, double begin_ms, double end_ms) {
    const std::string kind = kind_of(name);
    const auto own = number_.find(name);
    if (own == number_.end() && !last_.contains(kind)) return;
    const std::size_t part = own != number_.end() ? own->second : last_.at(kind);
    if (!kind.empty()) last_[kind] = part;
    made_.parts.push_back({name, begin_ms});
    for (MemoryOverStep::Moment m : of_part_[part]) {
      m.at = begin_ms + m.at * (end_ms - begin_ms);
      made_.moments.push_back(m);
    }
  }

  MemoryOverTime finish(double end_ms) {
    made_.moments.push_back({end_ms, over_.moments.back().bytes});
    return std::move(made_);
  }

 private:
  const MemoryOverStep& over_;
  std::vector<Moments> of_part_;
  std::map<std::string, std::size_t> number_, last_;  // of a part by its name; of the last one of a kind
  MemoryOverTime made_;
};

}  // namespace

std::optional<MemoryOverTime> over_time(const MemoryOverStep& over, const Timeline& timeline) {
  const std::vector<TimelineSpan> actions = actions_of(timeline);
  if (actions.empty()) return std::nullopt;
  double start = actions.front().begin, end = actions.back().end;
  for (const TimelineSpan& span : timeline.spans()) start = std::min(start, span.begin), end = std::max(end, span.end);
  const auto ms = [&](double seconds) { return (seconds - start) * 1e3; };
  OverTime made(over);
  made.add("begin", 0, ms(actions.front().begin));
  double last = actions.front().begin;
  for (const TimelineSpan& a : actions) made.add(a.name, ms(a.begin), ms(a.end)), last = std::max(last, a.end);
  made.add("optimizer", ms(last), ms(end));
  return made.finish(ms(end));
}

}  // namespace mbench::sim
