#include "engine/backend/nvml/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <type_traits>

namespace mbench::nvml {
namespace {

// The few parts of the library's interface that are used here, as its ABI has them.
using Device = void*;
using Result = int;  // 0: success
constexpr int kMaxLinks = 18;
constexpr int kSwitch = 2;  // type of the device at the other end of a link

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char address[32];
};

struct Library {
  void* handle = nullptr;
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*driver_version)(char*, unsigned) = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*device)(unsigned, Device*) = nullptr;
  Result (*name)(Device, char*, unsigned) = nullptr;
  Result (*pci)(Device, PciInfo*) = nullptr;
  Result (*ancestor)(Device, Device, int*) = nullptr;
  Result (*link_state)(Device, unsigned, int*) = nullptr;
  Result (*link_peer)(Device, unsigned, PciInfo*) = nullptr;
  Result (*link_peer_type)(Device, unsigned, int*) = nullptr;
};

// Why the library cannot be used; empty if it can.
std::string load(Library& l) {
  l.handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!l.handle)
    return "NVML is not there: libnvidia-ml.so.1, which comes with the NVIDIA driver, is not found";
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(l.handle, name));
    if (!function) missing = fmt::format("NVML is too old: it has no {}", name);
  };
  find("nvmlInit_v2", l.init);
  find("nvmlShutdown", l.shutdown);
  find("nvmlErrorString", l.error_string);
  find("nvmlSystemGetDriverVersion", l.driver_version);
  find("nvmlDeviceGetCount_v2", l.count);
  find("nvmlDeviceGetHandleByIndex_v2", l.device);
  find("nvmlDeviceGetName", l.name);
  find("nvmlDeviceGetPciInfo_v3", l.pci);
  find("nvmlDeviceGetTopologyCommonAncestor", l.ancestor);
  find("nvmlDeviceGetNvLinkState", l.link_state);
  find("nvmlDeviceGetNvLinkRemotePciInfo_v2", l.link_peer);
  const std::string needed = missing;  // of the rest: old drivers do not tell switches apart
  find("nvmlDeviceGetNvLinkRemoteDeviceType", l.link_peer_type);
  return needed;
}

std::string address_of(const Library& l, Device d) {
  PciInfo info{};
  return l.pci(d, &info) == 0 ? info.address : "?";
}

// Links of `from` that are up and end at `to`, or at a switch, which reaches all.
int nvlinks(const Library& l, Device from, const std::string& to) {
  int n = 0;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int up = 0, type = 0;
    PciInfo peer{};
    if (l.link_state(from, link, &up) != 0 || !up) continue;
    const bool to_switch = l.link_peer_type && l.link_peer_type(from, link, &type) == 0 && type == kSwitch;
    if (to_switch || (l.link_peer(from, link, &peer) == 0 && to == peer.address)) ++n;
  }
  return n;
}

std::string path_between(const Library& l, Device a, Device b) {
  if (const int n = nvlinks(l, a, address_of(l, b)); n > 0) return fmt::format("NV{}", n);
  int level = -1;
  if (l.ancestor(a, b, &level) != 0) return "?";
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

}  // namespace

Report report() {
  Report r;
  Library l;
  r.why_none = load(l);
  const auto close = [](void* handle) { ::dlclose(handle); };
  const std::unique_ptr<void, decltype(close)> closer(l.handle, close);
  if (!r.why_none.empty()) return r;
  if (const Result code = l.init(); code != 0) {
    r.why_none = fmt::format("NVML does not start: {}", l.error_string(code));
    return r;
  }
  char text[128] = {};
  if (l.driver_version(text, sizeof text) == 0) r.driver = text;
  unsigned n = 0;
  l.count(&n);
  std::vector<Device> devices;
  for (unsigned i = 0; i < n; ++i) {
    Device d = nullptr;
    if (l.device(i, &d) != 0) continue;
    char name[128] = {};
    devices.push_back(d);
    r.gpus.push_back(
        fmt::format("{} at {}", l.name(d, name, sizeof name) == 0 ? name : "?", address_of(l, d)));
  }
  for (const Device a : devices) {
    std::vector<std::string>& row = r.links.emplace_back();
    for (const Device b : devices) row.push_back(a == b ? "X" : path_between(l, a, b));
  }
  l.shutdown();
  return r;
}

}  // namespace mbench::nvml
