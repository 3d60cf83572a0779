#include "test/fake_cuda/engine.h"

#include <chrono>
#include <thread>
#include <vector>

#include "test/fake_cuda/capture.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

using std::chrono::microseconds;

// A lazy GPU begins when the host waits for it, or when it has had nothing new for so long: what it is
// needed for by others must not wait for ever.
constexpr double kPatience = 2e-3;
// What waits for other processes is looked at so often.
constexpr microseconds kLook{100};

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Never destroyed: its thread may be at work when the program ends.
Engine& Engine::get() {
  static Engine& engine = []() -> Engine& {
    auto* e = new Engine;
    const std::uint64_t seed = settings().seed;
    e->draw_.seed(seed);
    e->lazy_ = seed % 2 == 1;
    e->favour_ = static_cast<int>(seed / 2 % 3);
    return *e;
  }();
  return engine;
}

std::shared_ptr<Queue> Engine::new_queue(bool of_a_stream) {
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.emplace_back(std::make_shared<Queue>());
  if (of_a_stream) queue->connection = streams_++ % settings().connections;
  return queue;
}

void Engine::enqueue(const std::shared_ptr<Queue>& queue, Work work) {
  if (const auto capture = queue->capture)
    return capture->add(queue,
                        [this, work = std::move(work)](const std::shared_ptr<Queue>& lane) { enqueue(lane, work); });
  const std::lock_guard lock(mutex_);
  if (fault_ != cudaSuccess) return;
  queue->works.push_back(std::move(work));
  queue->turns.push_back(given_++);
  last_given_ = now();
  if (!started_) {
    started_ = true;
    std::thread([this] { run(); }).detach();
  }
  changed_.notify_all();
}

template <class Condition>
void Engine::wait(const Condition& condition) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return fault_ != cudaSuccess || condition(); });
  --waiting_;
}

bool Engine::idle(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(mutex_);
  last_asked_ = now();
  if (queue->works.empty()) return true;
  changed_.notify_all();
  changed_.wait_for(lock, kLook);
  return queue->works.empty();
}

void Engine::wait_idle(const std::shared_ptr<Queue>& queue) {
  wait([&] { return queue->works.empty(); });
}

void Engine::wait_all() {
  wait([&] {
    for (const auto& q : queues_)
      if (!q->works.empty()) return false;
    return true;
  });
}

void Engine::wait_for(const Recording& recording) {
  wait([&] { return recording.passed.load(); });
}

void Engine::stop(cudaError_t code) {
  const std::lock_guard lock(mutex_);
  cudaError_t none = cudaSuccess;
  fault_.compare_exchange_strong(none, code);
  changed_.notify_all();
}

bool Engine::patient() const {
  const double t = now();
  return lazy_ && waiting_ == 0 && t - last_asked_ > 2 * kPatience && t - last_given_ < kPatience;
}

// A head that waits holds up what was given to its hardware queue later, by whichever stream.
bool Engine::is_next_of_its_connection(const Queue& queue) const {
  if (queue.connection < 0) return true;
  for (const auto& other : queues_)
    if (other->connection == queue.connection && !other->turns.empty() && other->turns.front() < queue.turns.front())
      return false;
  return true;
}

// A queue whose head has not been found blocked in this round.
std::shared_ptr<Queue> Engine::choose() {
  std::vector<std::shared_ptr<Queue>> ready;
  for (auto it = queues_.begin(); it != queues_.end();) {
    if ((*it)->works.empty() && it->use_count() == 1) {  // its stream is gone
      it = queues_.erase(it);
      continue;
    }
    if (!(*it)->works.empty() && !(*it)->blocked && is_next_of_its_connection(**it)) ready.push_back(*it);
    ++it;
  }
  if (ready.empty()) return nullptr;
  const bool favoured = favour_ != 0 && draw_() % 8 != 0;
  if (favoured) return favour_ == 1 ? ready.front() : ready.back();
  return ready[draw_() % ready.size()];
}

void Engine::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (fault_ != cudaSuccess) {
      for (const auto& q : queues_) q->works.clear(), q->turns.clear();
      changed_.notify_all();
      changed_.wait(lock);
      continue;
    }
    if (patient()) {
      changed_.wait_for(lock, kLook);
      continue;
    }
    const auto queue = choose();
    if (!queue) {
      bool any = false;
      for (const auto& q : queues_) {
        any |= !q->works.empty();
        q->blocked = false;
      }
      if (any)
        changed_.wait_for(lock, kLook);
      else
        changed_.wait(lock);
      continue;
    }
    Work& work = queue->works.front();  // stays where it is while others are pushed behind it
    lock.unlock();
    const Step step = work();
    lock.lock();
    if (step == Step::blocked) {
      queue->blocked = true;
      continue;
    }
    if (!queue->works.empty()) queue->works.pop_front(), queue->turns.pop_front();
    for (const auto& q : queues_) q->blocked = false;  // it may have waited for this
    changed_.notify_all();
  }
}

}  // namespace fake_cuda
