#include "engine/run/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/comm/gather.h"
#include "engine/point/result.h"

namespace mbench {
namespace {

void add_joules(double joules, PointResult& r) {
  r.energy_joules = joules;
  r.tokens_per_joule = static_cast<double>(r.point.global_batch * r.point.seq) / joules;
}

}  // namespace

std::vector<EnergyReading> gather_energy(comm::Group& all, const EnergyReading& mine) {
  // Its numbers, then its texts, the first ended by a zero.
  const double numbers[] = {mine.joules.value_or(-1), mine.seconds};
  std::vector<char> bytes(sizeof numbers);
  std::memcpy(bytes.data(), numbers, sizeof numbers);
  bytes.insert(bytes.end(), mine.counted.begin(), mine.counted.end());
  bytes.push_back('\0');
  bytes.insert(bytes.end(), mine.source.begin(), mine.source.end());
  std::vector<EnergyReading> ranks;
  for (const std::vector<char>& theirs : comm::gather_all(all, bytes)) {
    double read[2];
    std::memcpy(read, theirs.data(), sizeof read);
    const auto text = theirs.begin() + sizeof read, end = std::find(text, theirs.end(), '\0');
    ranks.push_back({read[0] < 0 ? std::nullopt : std::optional(read[0]), read[1], std::string(text, end),
                     std::string(end + 1, theirs.end())});
  }
  return ranks;
}

void add_counted_energy(const std::vector<EnergyReading>& ranks, PointResult& r) {
  if (!r.iteration_ms) return;
  std::map<std::string, const EnergyReading*> counters;
  for (const EnergyReading& rank : ranks) {
    if (!rank.joules) {
      r.energy_source = "unknown: " + rank.source;
      return;
    }
    counters.emplace(rank.counted, &rank);
  }
  if (counters.empty()) return;
  double watts = 0;
  for (const auto& [name, c] : counters) watts += *c->joules / c->seconds;
  r.energy_source = ranks.front().source;
  if (counters.size() > 1) r.energy_source += fmt::format(", of {}", counters.size());
  add_joules(watts * r.iteration_ms->mean * 1e-3, r);
}

double joules_of(const TimeByPart& parts, double seconds, const PowerCurve& watts) {
  double joules = 0, rest = seconds;
  for (int p = 0; p < kTimeParts; ++p) {
    const auto part = static_cast<TimePart>(p);
    if (part == TimePart::host) continue;
    const double s = parts[static_cast<std::size_t>(p)];
    joules += s * watts_of(part, watts);
    rest -= s;
  }
  return joules + std::max(0.0, rest) * watts.idle;
}

void add_simulated_energy(double joules, const std::string& source, PointResult& r) {
  if (!r.iteration_ms || joules <= 0) return;
  r.energy_source = source;
  add_joules(joules, r);
}

}  // namespace mbench
