// Recordings of steps that are asked for again: of a layout that is outlined and then simulated, or simulated with more memory. To record
// takes most of the time of a simulation where a step has few micro batches.
#pragma once
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/sim/recorder.h"

namespace mbench::sim {

// Of one machine and one framework: between calls nothing but the memory of the machine may differ. May be asked by several threads.
class Recordings {
 public:
  explicit Recordings(std::size_t most = 32) : most_(most) {}
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // What record() makes of the plan, or made of one with that key; null for nothing. Plans that differ in what record() reads have
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
