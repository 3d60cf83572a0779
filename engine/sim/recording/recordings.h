// Recordings of steps that are needed again: a layout is outlined and then simulated, or simulated with more memory. For a step of few
// micro batches, recording takes most of the time of a simulation.
#pragma once
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/sim/recording/recorder.h"

namespace mbench::sim {

// For one machine and one framework: between calls only the memory of the machine may differ. Several threads may call it.
class Recordings {
 public:
  explicit Recordings(std::size_t most = 32) : most_(most) {}
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // What record() makes of the plan, or made of an earlier plan with that key. Plans that differ in what record() reads have
  // different keys.
  std::shared_ptr<const Recording> of(const std::string& key, const Plan& plan, int devices_per_node,
                                      const MakeCosts& costs, const Links* links);

 private:
  using Known = std::pair<std::string, std::shared_ptr<const Recording>>;
  std::shared_ptr<const Recording> find(const std::string& key);

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Known> known_;  // the last asked for first
};

}  // namespace mbench::sim
