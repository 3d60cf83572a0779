// Makes a rank's micro batches on the host, in the order in which its steps take them. It does so when they are asked
// for, or by threads ahead of that. A batch depends only on its step and number, so losses do not depend on who makes
// it, or when.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/train/data.h"

namespace mbench::train {

class Loader {
 public:
  // Called by several threads at once.
  using Make = std::function<HostBatch(std::int64_t step, int micro)>;
  // `order`: the micro batches of a step as it takes them; a step may take one several times. Each of `workers` threads
  // has kAhead batches ready or in work before they are taken.
  Loader(Make make, std::vector<int> order, int workers);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next one, which is `micro` of `step`; waits for it. Throws what making it threw.
  HostBatch take(std::int64_t step, int micro);
  // One that was taken, for a step that is run again.
  HostBatch again(std::int64_t step, int micro) const { return make_(step, micro); }

  static constexpr std::uint64_t kAhead = 2;  // PyTorch's prefetch_factor

 private:
  struct Made {
    HostBatch batch;
    std::exception_ptr error;
  };
  void work();

  Make make_;
  std::vector<int> order_;
  std::uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable room_, made_;
  std::uint64_t begun_ = 0, taken_ = 0;  // numbers of batches since the start
  std::map<std::uint64_t, Made> ready_;
  bool over_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace mbench::train
