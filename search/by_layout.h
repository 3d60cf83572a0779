// What was found for layouts, each found once.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/point/fields.h"
#include "engine/point/point.h"

namespace mbench::search {

// Several threads may ask. What they are given stays where it is.
template <class Value>
class ByLayout {
 public:
  // The value of that layout and number. Who asks while another thread makes it waits. `make` may ask for other values, but not in a
  // circle. If it throws, who waits makes it.
  template <class Make>
  const Value& once(const Point& point, std::int64_t number, const Make& make) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Found* const found = find(point, number);
      if (!found) return made(lock, point, number, make);
      if (found->has_value()) return **found;
      is_made_.wait(lock);
    }
  }

  // The same, but null where another thread makes it now: meanwhile something else can be made.
  template <class Make>
  const Value* unless_being_made(const Point& point, std::int64_t number, const Make& make) {
    std::unique_lock lock(mutex_);
    Found* const found = find(point, number);
    if (!found) return &made(lock, point, number, make);
    return found->has_value() ? &**found : nullptr;
  }

 private:
  struct Key {
    Point point;
    std::int64_t number;
  };
  // A key that is looked for: a point is not copied for it.
  struct Asked {
    const Point& point;
    std::int64_t number;
  };
  struct Same {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return a.number == b.number && a.point == b.point;
    }
  };
  struct Hash {
    using is_transparent = void;
    template <class K>
    std::size_t operator()(const K& key) const {
      return layout_hash(key.point, static_cast<std::uint64_t>(key.number));
    }
  };
  using Found = std::optional<Value>;  // nothing while it is made

  Found* find(const Point& point, std::int64_t number) {
    const auto at = known_.find(Asked{point, number});
    return at == known_.end() ? nullptr : &at->second;
  }
  template <class Make>
  const Value& made(std::unique_lock<std::mutex>& lock, const Point& point, std::int64_t number, const Make& make) {
    const auto at = known_.try_emplace(Key{point, number}).first;
    Found& place = at->second;  // it stays where it is, other than `at`
    lock.unlock();
    try {
      Value value = make();
      lock.lock();
      place.emplace(std::move(value));
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      known_.erase(known_.find(Asked{point, number}));
      is_made_.notify_all();
      throw;
    }
    is_made_.notify_all();
    return *place;
  }

  std::mutex mutex_;
  std::condition_variable is_made_;
  std::unordered_map<Key, Found, Hash, Same> known_;
};

}  // namespace mbench::search
