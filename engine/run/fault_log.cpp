#include "engine/run/fault_log.h"

#include <fmt/format.h>

#include "engine/base/text.h"
#include "engine/comm/gather.h"

namespace mbench {
namespace {

constexpr std::size_t kMostNamed = 8;  // in the one line of all ranks

}  // namespace

FaultLog::FaultLog(std::unique_ptr<DeviceWatch> watch) : watch_(std::move(watch)) {
  if (watch_) last_ = watch_->read();
}

void FaultLog::look(double seconds) {
  if (!watch_) return;
  DeviceSignature now = watch_->read();
  for (std::string& what : new_faults(last_, now)) faults_.push_back({std::move(what), seconds});
  last_ = std::move(now);
}

std::string FaultLog::of_all(comm::Group& all) const {
  std::string mine;
  for (const Fault& fault : faults_)
    mine += fmt::format("{} on rank {} after {}\n", fault.what, all.rank(), format_duration(fault.seconds));
  std::string text;
  std::size_t count = 0;
  for (const std::vector<char>& theirs : comm::gather_all(all, std::vector<char>(mine.begin(), mine.end()))) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      if (theirs[i] != '\n') continue;
      if (++count <= kMostNamed) text += (text.empty() ? "" : "; ") + std::string(&theirs[begin], i - begin);
      begin = i + 1;
    }
  }
  return count <= kMostNamed ? text : fmt::format("{}; {} more", text, count - kMostNamed);
}

}  // namespace mbench
