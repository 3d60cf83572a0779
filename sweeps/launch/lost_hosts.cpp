#include "sweeps/launch/lost_hosts.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "engine/base/atomic_file.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "sweeps/launch/allocation.h"
#include "sweeps/launch/host_lines.h"
#include "sweeps/launch/probe.h"

namespace mbench::sweeps {
namespace {

// Seconds; the hosts have answered before.
constexpr double kPatience = 30;

std::string short_name(const std::string& host) {
  return host.substr(0, host.find('.'));
}

bool stands_in(const std::string& text, const std::string& word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

std::optional<Launcher> answering(const Launcher& launcher, const std::string& program, const std::string& device) {
  try {
    return on_hosts(launcher, probe_hosts(launcher, program, device, kPatience).hosts);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> hosts_named_in(const std::vector<std::string>& texts, const std::vector<std::string>& hosts) {
  std::vector<std::string> found;
  for (const std::string& host : hosts)
    if (std::any_of(texts.begin(), texts.end(),
                    [&](const std::string& text) { return stands_in(text, short_name(host)); }))
      found.push_back(host);
  return found;
}

std::optional<Remaining> without_lost_hosts(const Launcher& launcher, const std::vector<std::string>& reported,
                                            const std::string& program, const std::string& device,
                                            const std::string& folder) {
  if (launcher.hostfile.empty() || reported.empty()) return std::nullopt;
  const std::vector<NodeSlots> all = read_hostfile(read_text_file(launcher.hostfile), launcher.hostfile);
  std::vector<std::string> names;
  for (const NodeSlots& host : all) names.push_back(host.name);
  Remaining remaining;
  remaining.lost = hosts_named_in(reported, names);
  if (remaining.lost.empty() || remaining.lost.size() == all.size() || answering(launcher, program, device))
    return std::nullopt;
  std::vector<NodeSlots> left;
  Launcher shorter = launcher;
  shorter.nodes = 0;
  shorter.ranks_per_node = 0;
  for (const NodeSlots& host : all) {
    if (std::find(remaining.lost.begin(), remaining.lost.end(), host.name) != remaining.lost.end()) continue;
    left.push_back(host);
    if (shorter.nodes++ == 0 || host.slots < shorter.ranks_per_node) shorter.ranks_per_node = host.slots;
  }
  shorter.hostfile = (std::filesystem::path(folder) / "hosts.txt").string();
  write_file_atomically(shorter.hostfile, host_lines(left, launcher.flavour));
  const auto found = answering(shorter, program, device);
  if (!found) return std::nullopt;
  remaining.launcher = *found;
  return remaining;
}

}  // namespace mbench::sweeps
