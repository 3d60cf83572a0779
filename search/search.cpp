#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "engine/base/text.h"
#include "engine/sim/simulate.h"
#include "search/close_bounds.h"
#include "search/parallel.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

constexpr double kMiB = 1048576;
constexpr std::size_t kBatch = 4096;  // layouts whose floors are made together
constexpr double kWithinReach = 1.5;  // of the memory: of layouts that take so much it is told what more would give
constexpr std::size_t kWave = 32;     // layouts that are looked at together
constexpr std::size_t kTogether = 4;  // of them those that are simulated, block by block

using Score = std::pair<double, double>;

struct Candidate {
  Point point;
  Floor floor;
  Score score;
  std::size_t number = 0;  // in the order of the space, which decides ties
  enum class Known { floor, close_floor, outline } known = Known::floor;
  double mib() const { return floor.total_bytes() / kMiB; }
};

double limit_of(const Point& point, const Machine& machine) {
  const std::uint64_t all = machine.usable_memory();
  return static_cast<double>(point.memory_limit == 0 ? all : std::min(all, point.memory_limit)) / kMiB;
}

std::string decided_by(int rank, Category category) {
  return fmt::format("rank {}, {}", rank, name_of(category));
}

Category largest(const MemoryAnatomy& anatomy) {
  return static_cast<Category>(std::max_element(anatomy.mib.begin(), anatomy.mib.end()) - anatomy.mib.begin());
}

class Search {
 public:
  Search(const Space& space, const Place& place, const SearchOptions& options)
      : space_(space), place_(place), options_(options), bounds_(place.machine, place.framework) {
    end_.limit_mib = limit_of(space.base, place.machine);
  }

  SearchEnd run() {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    make_floors();
    end_.floor_seconds = seconds();
    find_best();
    if (options_.front) find_front();
    end_.by_floor = end_.layouts - end_.simulated;
    find_larger();
    finish();
    end_.total_seconds = seconds();
    return std::move(end_);
  }

 private:
  bool stopped() {
    if (!end_.interrupted && options_.interrupted && options_.interrupted()) end_.interrupted = true;
    return end_.interrupted;
  }

  // Layouts of the space with their floors; what does not fit by its floor goes no further.
  void make_floors() {
    const bool fill = options_.objective == Objective::time || options_.objective == Objective::memory;
    std::vector<Point> batch;
    each_layout(space_, place_.devices, fill, end_.refused, [&](const Point& p) {
      batch.push_back(p);
      if (batch.size() == kBatch) add(batch);
      return !end_.interrupted;
    });
    add(batch);
  }

  void add(std::vector<Point>& batch) {
    std::vector<Floor> floors(batch.size());
    // Neighbours have most in common: a run of them to each thread.
    constexpr std::size_t kRun = 64;
    each_in_parallel((batch.size() + kRun - 1) / kRun, options_.threads, [&](std::size_t run) {
      for (std::size_t i = run * kRun; i < std::min(batch.size(), (run + 1) * kRun); ++i) {
        floors[i] = bounds_.memory(batch[i]);
        // What is far too large is not asked for its time.
        if (floors[i].total_bytes() / kMiB <= kWithinReach * end_.limit_mib)
          floors[i].seconds = bounds_.seconds(batch[i]);
      }
    });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Candidate c{std::move(batch[i]), floors[i], {}, end_.layouts++};
      c.score = score_of(c);
      if (is_open(c)) left_.push_back(std::move(c));
    }
    batch.clear();
    tell();
    stopped();
  }

  static double rate_of(const Point& p, double ms) {
    return static_cast<double>(p.global_batch * p.seq) / (ms * 1e-3);
  }

  void count_too_large(const std::string& reason, const Point& point, double mib) {
    TooLarge& all = end_.too_large[reason];
    if (all.count++ == 0 || mib < all.needed_mib) all.example = point, all.needed_mib = mib;
  }

  // Of layouts that do not fit, those that no other undercuts in both time and memory, by their floors.
  void remember_larger(const Candidate& c) {
    const auto undercuts = [](const Candidate& a, const Candidate& b) {
      return a.floor.seconds <= b.floor.seconds && a.mib() <= b.mib();
    };
    if (std::any_of(larger_.begin(), larger_.end(), [&](const Candidate& a) { return undercuts(a, c); })) return;
    std::erase_if(larger_, [&](const Candidate& a) { return undercuts(c, a); });
    larger_.push_back(c);
  }

  // Whether a layout is still to be decided, by what is known of it: it may fit and reach the rate.
  bool is_open(const Candidate& c) {
    if (c.mib() > end_.limit_mib) {
      count_too_large(decided_by(c.floor.rank, c.floor.largest()), c.point, c.mib());
      if (c.mib() <= kWithinReach * end_.limit_mib) remember_larger(c);
      return false;
    }
    if (rate_of(c.point, c.floor.seconds * 1e3) >= options_.rate) return true;
    ++end_.too_slow;
    return false;
  }

  // More about a layout: closer floors, and then, in their place, time and peak as a simulation has them, where they can be had
  // without one.
  void learn(Candidate& c) const {
    if (c.known == Candidate::Known::floor) {
      c.known = Candidate::Known::close_floor;
      c.floor = close_bounds_.floor(c.point, c.floor);
      return;
    }
    c.known = Candidate::Known::outline;
    const auto outline = outline_point(c.point, strategies::make_plan(c.point), place_.machine, place_.framework,
                                       static_cast<int>(place_.devices));
    if (!outline) return;
    c.floor.seconds = outline->seconds * (1 - 1e-12);  // a step in ms and a rate are rounded
    for (std::size_t i = 0; i < c.floor.bytes.size(); ++i)
      c.floor.bytes[i] = static_cast<double>(outline->peak.by_category[i]);
    c.floor.rank = outline->rank;
  }

  void keep(Tried&& t, std::size_t number) {
    const PointResult& r = t.result;
    if (!r.iteration_ms) return;
    if (!t.fits) {
      count_too_large(decided_by(t.fullest_rank, largest(*r.memory_anatomy_mib)), t.point, t.needed_mib);
      larger_tried_.push_back(std::move(t));
      return;
    }
    if (*r.tokens_per_s < options_.rate) {
      ++end_.too_slow;
      return;
    }
    fitting_.push_back({std::move(t), number});
    std::sort(fitting_.begin(), fitting_.end(), [&](const Fitting& a, const Fitting& b) {
      return std::pair(score_of(a.tried), a.number) < std::pair(score_of(b.tried), b.number);
    });
  }

  Score score_of(const Candidate& c) const {
    return score(options_.objective, c.floor.seconds * 1e3, c.mib(), c.point.world());
  }
  Score score_of(const Tried& t) const {
    return score(options_.objective, t.result.iteration_ms->mean, *t.result.peak_memory_mib, t.point.world());
  }

  // Takes layouts in the order of `key`, those that `wanted` still wants: more is found out about them, with which they go back to
  // their new place, or, where all is known that can be without it, they are simulated. `left_` keeps what was not wanted.
  template <class Key, class Wanted>
  void decide(const Key& key, const Wanted& wanted) {
    std::vector<std::pair<decltype(key(left_[0])), std::size_t>> heap;  // the place in `left_` too
    for (std::size_t i = 0; i < left_.size(); ++i) heap.emplace_back(key(left_[i]), i);
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    const auto push = [&](std::size_t i) {
      heap.emplace_back(key(left_[i]), i);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    };
    while (!stopped()) {
      // The first ones of which as much is known.
      std::vector<std::size_t> wave;
      while (!heap.empty() && wave.size() < kWave) {
        const std::size_t i = heap.front().second;
        const bool other = !wave.empty() && left_[i].known != left_[wave[0]].known;
        if (other && wanted(left_[i])) break;
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        heap.pop_back();
        if (!other && wanted(left_[i])) wave.push_back(i);
      }
      if (wave.empty()) break;
      left_[wave[0]].known == Candidate::Known::outline ? place(wave, push) : learn(wave, push);
      tell();
    }
    std::erase_if(left_, [](const Candidate& c) { return c.number == kTaken; });
  }

  template <class Push>
  void learn(const std::vector<std::size_t>& wave, const Push& push) {
    each_in_parallel(wave.size(), options_.threads, [&](std::size_t i) { learn(left_[wave[i]]); });
    for (const std::size_t i : wave) {
      Candidate& c = left_[i];
      if (c.known == Candidate::Known::outline) ++end_.simulated;
      c.score = score_of(c);
      if (is_open(c))
        push(i);
      else
        c.number = kTaken;
    }
  }

  // Of those that follow each other, what comes of the first ones may decide about what takes as much memory or more.
  template <class Push>
  void place(const std::vector<std::size_t>& wave, const Push& push) {
    std::vector<std::size_t> now;
    double least = std::numeric_limits<double>::infinity();
    for (const std::size_t i : wave) {
      if (now.size() == kTogether || left_[i].mib() >= least) {
        push(i);
        continue;
      }
      least = left_[i].mib();
      now.push_back(i);
    }
    std::vector<Tried> tried(now.size());
    each_in_parallel(now.size(), options_.threads, [&](std::size_t i) {
      const Candidate& c = left_[now[i]];
      tried[i] = simulated(c.point, place_);
      tried[i].floor = c.floor;
    });
    for (std::size_t i = 0; i < now.size(); ++i) {
      ++end_.placed;
      keep(std::move(tried[i]), std::exchange(left_[now[i]].number, kTaken));
    }
  }

  void find_best() {
    decide([](const Candidate& c) { return std::pair(c.score, c.number); },
           [&](const Candidate& c) {
             return fitting_.size() < options_.best || !(score_of(fitting_[options_.best - 1].tried) < c.score);
           });
  }

  // Whether something fits that is as fast and takes as little as is known of that layout.
  bool dominated(const Candidate& c) const {
    return std::any_of(fitting_.begin(), fitting_.end(), [&](const Fitting& f) {
      return f.tried.result.iteration_ms->mean <= c.floor.seconds * 1e3 &&
             *f.tried.result.peak_memory_mib <= c.mib();
    });
  }

  // The fastest first, so that whatever is not dominated when it comes is of the front, if it fits.
  void find_front() {
    decide([](const Candidate& c) { return std::tuple(c.floor.seconds, c.mib(), c.number); },
           [&](const Candidate& c) { return !dominated(c); });
  }

  // Of what does not fit and would be faster than the best, what takes least.
  void find_larger() {
    if (fitting_.empty()) return;
    const double best_ms = fitting_.front().tried.result.iteration_ms->mean;
    std::erase_if(larger_, [&](const Candidate& c) { return c.floor.seconds * 1e3 >= best_ms; });
    std::sort(larger_.begin(), larger_.end(), [](const Candidate& a, const Candidate& b) { return a.mib() < b.mib(); });
    const auto least = [&]() -> std::optional<double> {
      std::optional<double> mib;
      for (const Tried& t : larger_tried_)
        if (t.result.iteration_ms->mean < best_ms && (!mib || t.needed_mib < *mib)) mib = t.needed_mib, end_.larger = t;
      return mib;
    };
    constexpr std::size_t kMost = 16;  // each is a simulation
    for (std::size_t i = 0; i < std::min(larger_.size(), kMost) && !stopped(); ++i) {
      if (const auto mib = least(); mib && *mib <= larger_[i].mib()) break;
      Tried t = simulated(larger_[i].point, place_, false);
      t.floor = larger_[i].floor;
      if (t.result.iteration_ms) larger_tried_.push_back(std::move(t));
    }
    least();
  }

  void finish() {
    for (std::size_t i = 0; i < std::min(options_.best, fitting_.size()); ++i)
      end_.best.push_back(fitting_[i].tried);
    if (!options_.front) return;
    std::vector<const Tried*> by_time;
    for (const Fitting& f : fitting_) by_time.push_back(&f.tried);
    std::stable_sort(by_time.begin(), by_time.end(), [](const Tried* a, const Tried* b) {
      return std::pair(a->result.iteration_ms->mean, *a->result.peak_memory_mib) <
             std::pair(b->result.iteration_ms->mean, *b->result.peak_memory_mib);
    });
    double least = std::numeric_limits<double>::infinity();
    for (const Tried* t : by_time) {
      if (*t->result.peak_memory_mib >= least) continue;
      least = *t->result.peak_memory_mib;
      end_.front.push_back(*t);
    }
  }

  void tell() {
    if (!options_.progress) return;
    SearchOptions::Progress p{end_.layouts, end_.layouts - left_.size(), end_.simulated, {}};
    if (!fitting_.empty()) p.best_ms = fitting_.front().tried.result.iteration_ms->mean;
    options_.progress(p);
  }

  static Tried simulated(const Point& point, const Place& place, bool may_fit = true);
  friend Tried search::try_layout(const Point& point, const Place& place, const Bounds& bounds, const CloseBounds& close);

  static constexpr std::size_t kTaken = ~std::size_t{0};
  struct Fitting {
    Tried tried;
    std::size_t number;
  };

  const Space& space_;
  const Place& place_;
  const SearchOptions& options_;
  SearchEnd end_;
  Bounds bounds_;
  CloseBounds close_bounds_{place_.machine, place_.framework, bounds_};
  std::vector<Candidate> left_;                  // not decided
  std::vector<Candidate> larger_;                // do not fit by their floor
  std::vector<Fitting> fitting_;                 // simulated, best first
  std::vector<Tried> larger_tried_;              // simulated, and do not fit
};

Tried Search::simulated(const Point& point, const Place& place, bool may_fit) {
  Tried t;
  t.point = point;
  t.fits = may_fit;
  const Plan plan = strategies::make_plan(point);
  const int devices = static_cast<int>(place.devices);
  Simulation s;
  try {
    if (may_fit) s = simulate_point(point, plan, place.machine, place.framework, devices);
  } catch (const OutOfMemory&) {
    t.fits = false;
  }
  if (!t.fits) {
    Machine roomy = place.machine;
    roomy.memory_bytes = std::uint64_t{1} << 60;
    Point unlimited = point;
    unlimited.memory_limit = 0;
    s = simulate_point(unlimited, plan, roomy, place.framework, devices);
    s.result.point = point;
    s.result.id = point_id(point);
  }
  t.result = std::move(s.result);
  const auto& reserved = s.reserved_by_stage;
  const auto fullest = std::max_element(reserved.begin(), reserved.end());
  t.fullest_rank = static_cast<int>(fullest - reserved.begin()) *
                   static_cast<int>(point.world() / static_cast<std::int64_t>(reserved.size()));
  t.needed_mib = static_cast<double>(*fullest) / kMiB;
  return t;
}

constexpr std::array<std::pair<std::string_view, Objective>, 4> kObjectives = {
    {{"time", Objective::time},
     {"memory", Objective::memory},
     {"tokens_per_device", Objective::tokens_per_device},
     {"devices", Objective::devices}}};

}  // namespace

Objective read_objective(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [text, objective] : kObjectives) {
    if (text == name) return objective;
    names.emplace_back(text);
  }
  fail(ErrorKind::bad_input, where, "no such objective, got \"{}\", {}", name, nearest_choice(name, names));
}

std::string_view name_of(Objective objective) {
  for (const auto& [text, o] : kObjectives)
    if (o == objective) return text;
  return "";
}

std::pair<double, double> score(Objective objective, double ms, double mib, std::int64_t world) {
  switch (objective) {
    case Objective::memory:
      return {mib, ms};
    case Objective::tokens_per_device:  // a step has the same tokens everywhere
      return {ms * static_cast<double>(world), ms};
    case Objective::devices:
      return {static_cast<double>(world), ms};
    case Objective::time:
      break;
  }
  return {ms, mib};
}

SearchEnd search(const Space& space, const Place& place, const SearchOptions& options) {
  return Search(space, place, options).run();
}

Tried try_layout(const Point& point, const Place& place, const Bounds& bounds, const CloseBounds& close) {
  Tried t = Search::simulated(point, place);
  t.floor = close.floor(point, bounds.floor(point));
  return t;
}

std::vector<std::string> confirm(const Space& space, const Place& place, const SearchOptions& options,
                                 const SearchEnd& end) {
  std::vector<std::string> wrong;
  std::map<std::string, Refused> refused;
  std::vector<Point> all;
  const bool fill = options.objective == Objective::time || options.objective == Objective::memory;
  each_layout(space, place.devices, fill, refused, [&](const Point& p) {
    all.push_back(p);
    return true;
  });
  const Bounds bounds(place.machine, place.framework);
  const CloseBounds close(place.machine, place.framework, bounds);
  std::optional<Score> worst;
  if (end.best.size() == options.best) {
    const Tried& last = end.best.back();
    worst = score(options.objective, last.result.iteration_ms->mean, *last.result.peak_memory_mib, last.point.world());
  }
  std::vector<std::string> ids;
  for (const Tried& t : end.best) ids.push_back(t.result.id);
  for (std::size_t from = 0; from < all.size() && !(options.interrupted && options.interrupted()); from += kWave) {
    const std::size_t n = std::min(kWave, all.size() - from);
    std::vector<Tried> tried(n);
    each_in_parallel(n, options.threads,
                     [&](std::size_t i) { tried[i] = try_layout(all[from + i], place, bounds, close); });
    for (const Tried& t : tried) {
      const double ms = t.result.iteration_ms->mean, mib = *t.result.peak_memory_mib;
      const auto say = [&](const std::string& what) { wrong.push_back(label_of(space, t.point) + ": " + what); };
      if (t.floor.seconds * 1e3 > ms) say(fmt::format("takes {} ms, its floor says {}", ms, t.floor.seconds * 1e3));
      if (t.floor.total_bytes() / kMiB > mib)
        say(fmt::format("takes {} MiB, its floor says {}", mib, t.floor.total_bytes() / kMiB));
      const bool asked = t.fits && *t.result.tokens_per_s >= options.rate;
      const bool among = std::find(ids.begin(), ids.end(), t.result.id) != ids.end();
      if (asked && !among && (!worst || score(options.objective, ms, mib, t.point.world()) < *worst))
        say(fmt::format("is better than the last of the best, {} ms and {} MiB", ms, mib));
    }
    if (options.progress) options.progress({all.size(), from + n, from + n, {}});
  }
  return wrong;
}

}  // namespace mbench::search
