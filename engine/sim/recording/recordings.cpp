#include "engine/sim/recording/recordings.h"

#include <algorithm>

namespace mbench::sim {

std::shared_ptr<const Recording> Recordings::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.first == key; });
  if (at == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, at);
  return at->second;
}

std::shared_ptr<const Recording> Recordings::of(const std::string& key, const Plan& plan, int devices_per_node,
                                                const MakeCosts& costs, const Links* links) {
  if (auto found = find(key)) return found;
  auto made = std::make_shared<const Recording>(record(plan, devices_per_node, costs, links));
  const std::lock_guard lock(mutex_);
  known_.emplace_front(key, made);
  if (known_.size() > most_) known_.pop_back();
  return made;
}

}  // namespace mbench::sim
