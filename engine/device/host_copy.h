// A copy in flight between a device's memory and its host's (Device::host()).
#pragma once
#include <string_view>

namespace mbench {

// Both ways run at once, as they do on PCIe.
enum class CopyWay { to_host, to_device };
constexpr std::string_view name_of(CopyWay way) {
  return way == CopyWay::to_host ? "to host" : "to device";
}

// The tensors it works on must live until it has ended. Copies of one way end in the order in which they were started.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  // What is enqueued on the device from now on comes after the copy.
  virtual void wait() = 0;
  // Returns when the copy has ended.
  virtual void wait_on_host() = 0;
};

}  // namespace mbench
