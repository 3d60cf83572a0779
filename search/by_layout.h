// What was found for layouts, each found once.
#pragma once
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "engine/point/fields.h"
#include "engine/point/point.h"

namespace mbench::search {

// Several threads may ask. What they are given stays where it is.
template <class Value>
class ByLayout {
 public:
  // The value of that layout and number. `make` may be called by two threads at the same time, with the same result.
  template <class Make>
  const Value& once(const Point& point, std::int64_t number, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known_.find(Asked{point, number}); found != known_.end()) return found->second;
    }
    auto made = make();
    const std::lock_guard lock(mutex_);
    return known_.emplace(Key{point, number}, std::move(made)).first->second;
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
  std::mutex mutex_;
  std::unordered_map<Key, Value, Hash, Same> known_;
};

}  // namespace mbench::search
