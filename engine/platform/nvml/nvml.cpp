#include "engine/platform/nvml/nvml.h"

#include <fmt/format.h>

#include "engine/platform/nvml/sensors.h"
#include "engine/platform/nvml/session.h"

namespace mbench::platform::nvml {
namespace {

std::string address_of(const Calls& nvml, Handle gpu) {
  PciInfo info{};
  return nvml.pci(gpu, &info) == 0 ? info.address : "?";
}

// Links of `from` that are up and end at `to`, or at a switch, which reaches all.
int nvlinks(const Calls& nvml, Handle from, const std::string& to) {
  int n = 0;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int up = 0, type = 0;
    PciInfo peer{};
    if (nvml.link_state(from, link, &up) != 0 || !up) continue;
    const bool to_switch = nvml.link_peer_type && nvml.link_peer_type(from, link, &type) == 0 && type == kPeerIsSwitch;
    if (to_switch || (nvml.link_peer(from, link, &peer) == 0 && to == peer.address)) ++n;
  }
  return n;
}

std::string path_between(const Calls& nvml, Handle a, Handle b) {
  if (const int n = nvlinks(nvml, a, address_of(nvml, b)); n > 0) return fmt::format("NV{}", n);
  int level = -1;
  if (nvml.ancestor(a, b, &level) != 0) return "?";
  switch (level) {
    case 0:
    case 10:
      return "PIX";
    case 20:
      return "PXB";
    case 30:
      return "PHB";
    case 40:
      return "NODE";
    case 50:
      return "SYS";
    default:
      return "?";
  }
}

GpuState state_of(const Calls& nvml, Handle gpu) {
  GpuState s;
  char name[128] = {};
  s.name = nvml.name(gpu, name, sizeof name) == 0 ? name : "?";
  s.pci = address_of(nvml, gpu);
  if (Memory m{}; nvml.memory(gpu, &m) == 0) {
    s.memory_mib = static_cast<double>(m.total) / 1048576;
    s.memory_used_mib = static_cast<double>(m.used) / 1048576;
  }
  unsigned value = 0;
  if (nvml.power(gpu, &value) == 0) s.power_w = value * 1e-3;
  if (nvml.power_limit(gpu, &value) == 0) s.power_cap_w = value * 1e-3;
  if (nvml.clock(gpu, kClockSm, &value) == 0) s.clock_mhz = value;
  if (nvml.max_clock(gpu, kClockSm, &value) == 0) s.max_clock_mhz = value;
  if (Utilization u{}; nvml.utilization(gpu, &u) == 0) s.utilization = u.gpu * 1e-2;
  unsigned long long reasons = 0;
  if (nvml.throttle_reasons && nvml.throttle_reasons(gpu, &reasons) == 0)
    s.throttle = throttle_names(throttle_bits(reasons));
  return s;
}

std::string figure(const std::optional<double>& x) {
  return x ? fmt::format("{:.0f}", *x) : "n/a";
}

std::string describe(const GpuState& s) {
  std::string text =
      fmt::format("{} at {}: {} of {} MiB in use, {} of {} W, {} of {} MHz, {} % busy", s.name, s.pci,
                  figure(s.memory_used_mib), figure(s.memory_mib), figure(s.power_w), figure(s.power_cap_w),
                  figure(s.clock_mhz), figure(s.max_clock_mhz), s.utilization ? figure(*s.utilization * 100) : "n/a");
  if (!s.throttle.empty()) text += fmt::format("; clock held down by {}", fmt::join(s.throttle, ", "));
  return text;
}

}  // namespace

Report report() {
  Report r;
  const Session session;
  r.why_none = session.why_none();
  if (!r.why_none.empty()) return r;
  const Calls& nvml = session.calls();
  char text[128] = {};
  if (nvml.driver_version(text, sizeof text) == 0) r.driver = text;
  unsigned n = 0;
  nvml.count(&n);
  std::vector<Handle> handles;
  for (unsigned i = 0; i < n; ++i) {
    Handle gpu = nullptr;
    if (nvml.by_index(i, &gpu) != 0) continue;
    handles.push_back(gpu);
    r.gpus.push_back(state_of(nvml, gpu));
  }
  for (const Handle a : handles) {
    std::vector<std::string>& row = r.links.emplace_back();
    for (const Handle b : handles) row.push_back(a == b ? "X" : path_between(nvml, a, b));
  }
  return r;
}

std::string describe(const Report& r) {
  if (!r.why_none.empty()) return r.why_none + "\n";
  std::string text = fmt::format("driver {}, {} GPU{}\n", r.driver, r.gpus.size(), r.gpus.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < r.gpus.size(); ++i) text += fmt::format("GPU {:<4}{}\n", i, describe(r.gpus[i]));
  if (r.gpus.size() < 2) return text;
  return text + mbench::describe(r.links);
}

}  // namespace mbench::platform::nvml
