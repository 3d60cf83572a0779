#include "sweeps/run/rank_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/text.h"

namespace mbench::sweeps {
namespace {

using nlohmann::json;

// The most of the time between two looks that counts: this process runs ten times a second, or it was itself stopped.
constexpr double kMostAwake = 1;
constexpr std::size_t kMostNamed = 4;
// What ranks may take to come up, beyond the limit: a launcher that reaches many hosts, a program on a slow disk.
constexpr double kSlowStart = 60;
constexpr std::string_view kAlive = "{\"alive\"";

bool holds(const std::vector<std::int64_t>& ranks, std::int64_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed)));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kMostNamed ? fmt::format(" and {} more", names.size() - kMostNamed) : "");
}

// "4, 5 and 6".
std::string numbers(const std::vector<std::int64_t>& ranks) {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

bool RankWatch::take(std::string_view line) {
  if (!line.starts_with(kAlive)) {
    up_ = up_ || line.find(kAlive) != std::string_view::npos;
    return false;
  }
  const json root = json::parse(line.begin(), line.end(), nullptr, false);
  if (!root.is_object() || !root.contains("alive") || !root.at("alive").is_object()) return false;
  const json& reported = root.at("alive");
  const auto number = reported.find("rank");
  if (number == reported.end() || !number->is_number_integer()) return false;
  up_ = true;
  const auto [at, first] = ranks_.try_emplace(number->get<std::int64_t>());
  Rank& rank = at->second;
  rank.heard = awake_;
  rank.ended = reported.contains("ends");
  const auto turn = reported.find("turn");
  if (turn != reported.end() && turn->is_number_unsigned() && (first || turn->get<std::uint64_t>() != rank.turn)) {
    rank.turn = turn->get<std::uint64_t>();
    rank.moved = awake_;
  }
  const auto in = reported.find("in");
  rank.in = in != reported.end() && in->is_string() ? printable(in->get<std::string>(), 100) : "";
  if (first)  // all ranks have come so far together: what another has not said yet it owes from now on
    for (const Host& host : hosts_)
      for (const std::int64_t other : host.ranks) ranks_.try_emplace(other, Rank{awake_, awake_, 0, "", false});
  return true;
}

std::map<std::int64_t, double> RankWatch::silence() const {
  std::map<std::int64_t, double> seconds;
  for (const auto& [number, rank] : ranks_)
    if (!rank.ended) seconds[number] = awake_ - rank.heard;
  return seconds;
}

std::string RankWatch::look(double seconds) {
  if (last_ >= 0) awake_ += std::clamp(seconds - last_, 0.0, kMostAwake);
  last_ = seconds;
  if (!up_)
    return awake_ > limit_s_ + kSlowStart
               ? fmt::format(
                     "no rank came up within {} of the launch: they or their launcher hang before they have begun",
                     format_duration(limit_s_ + kSlowStart))
               : "";
  std::vector<std::int64_t> silent;
  bool hung = false, all_wait = true;
  for (const auto& [number, rank] : ranks_) {
    if (rank.ended) continue;
    if (awake_ - rank.heard > limit_s_) silent.push_back(number);
    hung = hung || !rank.in.empty();
    all_wait = all_wait && !rank.in.empty() && awake_ - rank.moved > limit_s_;
  }
  if (!silent.empty()) return say_silent(silent);
  return hung && all_wait ? say_hung() : "";
}

// "; all_reduce of dp waits for it on rank 0 on h1, rank 2 on h3".
std::string RankWatch::where_others_wait(const std::vector<std::int64_t>& but) const {
  std::map<std::string, std::vector<std::string>> waiting;
  for (const auto& [number, rank] : ranks_)
    if (!rank.ended && !rank.in.empty() && !holds(but, number)) waiting[rank.in].push_back(rank_text(number, hosts_));
  std::vector<std::string> texts;
  for (const auto& [in, ranks] : waiting) texts.push_back(fmt::format("{} in {}", listed(ranks), in));
  return listed(texts);
}

std::string RankWatch::say_silent(const std::vector<std::int64_t>& silent) {
  lost_hosts_.clear();
  std::vector<std::string> names;
  bool hosts_gone = false;
  const bool all = std::all_of(ranks_.begin(), ranks_.end(),
                               [&](const auto& r) { return r.second.ended || holds(silent, r.first); });
  std::vector<std::int64_t> reported;  // with their host
  for (const Host& host : hosts_) {
    const bool gone = !host.ranks.empty() && std::all_of(host.ranks.begin(), host.ranks.end(),
                                                         [&](std::int64_t r) { return holds(silent, r); });
    if (!gone || all) continue;
    lost_hosts_.push_back(host.name);
    names.push_back(fmt::format("{} on {}", numbers(host.ranks), host.name));
    reported.insert(reported.end(), host.ranks.begin(), host.ranks.end());
    hosts_gone = true;
  }
  for (const std::int64_t rank : silent)
    if (!holds(reported, rank)) names.push_back(rank_text(rank, hosts_));
  const std::string why = all          ? "their launcher, or all of them, are stopped or cut off"
                          : hosts_gone ? "the host or the link to it is lost, or what ran there is stopped"
                                       : "stopped";
  const std::string waiting = where_others_wait(silent);
  return fmt::format("no sign of life for {} of {}: {}{}", format_duration(limit_s_), listed(names), why,
                     waiting.empty() ? "" : "; waiting: " + waiting);
}

std::string RankWatch::say_hung() const {
  return fmt::format(
      "no rank came further for {}, and all are alive: a link between their hosts is down, or they wait for one "
      "another; "
      "waiting: {}",
      format_duration(limit_s_), where_others_wait({}));
}

}  // namespace mbench::sweeps
