#include "engine/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mbench {

void each_in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& body, std::size_t run) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  std::size_t first_at = n;
  const auto work = [&] {
    for (std::size_t from = next.fetch_add(run); from < n; from = next.fetch_add(run)) {
      std::size_t i = from;
      try {
        for (; i < std::min(n, from + run); ++i) body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < first_at) first = std::current_exception(), first_at = i;
        next = n;
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min<int>(threads, static_cast<int>((n + run - 1) / run)); ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace mbench
