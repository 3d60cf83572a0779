#include "engine/device/signature.h"

#include <fmt/format.h>

#include <algorithm>

namespace mbench {

std::vector<std::string> new_faults(const DeviceSignature& before, const DeviceSignature& now) {
  std::vector<std::string> faults;
  for (std::size_t i = std::min(before.xids.size(), now.xids.size()); i < now.xids.size(); ++i)
    faults.push_back(fmt::format("Xid {}", now.xids[i]));
  const auto grew = [&](const std::optional<std::int64_t>& from, const std::optional<std::int64_t>& to,
                        const char* what) {
    if (from && to && *to > *from) faults.push_back(fmt::format("{} {}", *to - *from, what));
  };
  grew(before.ecc_uncorrected, now.ecc_uncorrected, "uncorrected ECC errors");
  grew(before.nvlink_errors, now.nvlink_errors, "errors of NVLink");
  grew(before.remapped_rows, now.remapped_rows, "remapped rows");
  if (now.remap_failed.value_or(false) && !before.remap_failed.value_or(false))
    faults.push_back("a row of memory that could not be remapped");
  return faults;
}

}  // namespace mbench
