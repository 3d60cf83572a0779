#include "engine/train/loader.h"

#include <system_error>
#include <utility>

#include "engine/base/error.h"

namespace mbench::train {

Loader::Loader(Make make, std::vector<int> order, int workers)
    : make_(std::move(make)), order_(std::move(order)), limit_(kAhead * static_cast<std::uint64_t>(workers)) {
  check(!order_.empty(), "loader", "a step that takes no batch");
  try {
    for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    room_.notify_all();
    for (std::thread& t : workers_) t.join();
    fail(ErrorKind::launch_failed, "loader_workers", "no thread for worker {} of {}: {}, need fewer or a higher limit",
         workers_.size() + 1, workers, e.what());
  }
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  room_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [&] { return over_ || begun_ < taken_ + limit_; });
    if (over_) return;
    const std::uint64_t number = begun_++;
    lock.unlock();
    Made made;
    try {
      made.batch = make_(static_cast<std::int64_t>(number / order_.size()), order_[number % order_.size()]);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    ready_.emplace(number, std::move(made));
    made_.notify_all();
  }
}

HostBatch Loader::take(std::int64_t step, int micro) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = taken_;
  check(step == static_cast<std::int64_t>(number / order_.size()) && micro == order_[number % order_.size()], "loader",
        "batch {} of step {} is not the next one, which is {} of {}", micro, step, order_[number % order_.size()],
        number / order_.size());
  if (workers_.empty()) {
    ++taken_;
    lock.unlock();
    return make_(step, micro);
  }
  made_.wait(lock, [&] { return ready_.contains(number); });
  Made made = std::move(ready_.extract(number).mapped());
  ++taken_;
  lock.unlock();
  room_.notify_all();
  if (made.error) std::rethrow_exception(made.error);
  return std::move(made.batch);
}

}  // namespace mbench::train
