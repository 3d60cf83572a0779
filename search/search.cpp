#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <limits>
#include <optional>

#include "engine/base/parallel.h"
#include "engine/base/text.h"
#include "engine/sim/run/simulate.h"
#include "search/candidate.h"
#include "search/close_bounds.h"
#include "search/larger.h"
#include "search/mesh_bounds.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

constexpr std::size_t kMeshes = 64;   // meshes that are bounded together, and opened together at first
constexpr std::size_t kWalked = 16;   // meshes whose layouts get lower bounds together
constexpr double kWithinReach = 1.5;  // of the memory: up to here the search reports what more memory would give
constexpr std::size_t kWave = 128;    // layouts that are looked at together
constexpr std::size_t kTogether = 4;  // at most so many of them take a long step
constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Mesh {
  Point point;
  double seconds = 0;      // a lower bound for all layouts on it
  double busy_joules = 0;  // likewise, where the objective asks for it
  std::size_t number = 0;
};

std::string decided_by(int rank, Category category) {
  return fmt::format("rank {}, {}", rank, name_of(category));
}

Category largest(const MemoryAnatomy& anatomy) {
  return static_cast<Category>(std::max_element(anatomy.mib.begin(), anatomy.mib.end()) - anatomy.mib.begin());
}

class Search {
  struct Fitting {
    Tried tried;
    std::size_t number;
  };

 public:
  Search(const Space& space, const SearchTarget& place, const SearchOptions& options)
      : space_(space),
        place_(place),
        alone_(place),
        options_(options),
        layouts_(space, place.devices, needs_all_devices(options.objective)),
        mesh_bounds_(place.machine),
        bounds_(place.machine) {
    alone_.threads = options.threads;
    end_.limit_mib = limit_mib(space.base, place);
  }

  SearchEnd run() {
    const auto begin = std::chrono::steady_clock::now();
    find_meshes();
    find_best();
    if (options_.front) find_front();
    if (stopped()) end_.undecided = std::min(left_.size(), end_.layouts - end_.simulated);
    end_.by_lower_bound = end_.layouts - end_.simulated - end_.undecided;
    find_larger();
    finish();
    end_.total_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(end_);
  }

 private:
  bool stopped() {
    if (!end_.interrupted && options_.interrupted && options_.interrupted()) end_.interrupted = true;
    return end_.interrupted;
  }

  void find_meshes() {
    layouts_.each_mesh([&](const Point& p) {
      meshes_.push_back({p, 0, 0, meshes_.size()});
      return !stopped();
    });
    end_.meshes = meshes_.size();
    for (std::size_t from = 0; from < meshes_.size() && !stopped(); from += kMeshes) {
      each_in_parallel(std::min(kMeshes, meshes_.size() - from), options_.threads, [&](std::size_t i) {
        Mesh& mesh = meshes_[from + i];
        mesh.seconds = mesh_bounds_.seconds(mesh.point);
        if (by_energy()) mesh.busy_joules = mesh_bounds_.busy_joules(mesh.point);
      });
      tell();
    }
  }

  // Sorts those that are not opened yet by `key`.
  template <class Key>
  void sort_meshes(const Key& key) {
    std::sort(meshes_.begin() + static_cast<std::ptrdiff_t>(next_mesh_), meshes_.end(),
              [&](const Mesh& a, const Mesh& b) { return std::pair(key(a), a.number) < std::pair(key(b), b.number); });
  }

  struct FamilyOf {
    Point point;
    std::vector<std::int64_t> micro_batches;
    double seconds = 0;  // of its mesh
    // What was found out.
    std::vector<std::pair<std::int64_t, LowerBound>> lower_bounds = {};  // of possible layouts, by micro batch
    std::vector<std::int64_t> refused = {};
    std::size_t left_out = 0, undercut = 0;
  };

  // Opens at most `most` further meshes while `wanted` wants them, and adds their layouts with lower bounds. Whether it opened any.
  template <class Wanted>
  bool open(std::size_t most, const Wanted& wanted) {
    const std::size_t before = next_mesh_;
    std::size_t end = before;
    while (end < std::min(meshes_.size(), before + most) && wanted(meshes_[end])) ++end;
    while (next_mesh_ < end && !stopped()) {
      std::vector<std::vector<FamilyOf>> found(std::min(kWalked, end - next_mesh_));
      each_in_parallel(found.size(), options_.threads, [&](std::size_t i) { walk(meshes_[next_mesh_ + i], found[i]); });
      next_mesh_ += found.size();
      std::vector<FamilyOf> families;
      for (auto& of_mesh : found) std::move(of_mesh.begin(), of_mesh.end(), std::back_inserter(families));
      add(families);
      tell();
    }
    return next_mesh_ > before;
  }

  // The families on a mesh that may reach the rate.
  void walk(const Mesh& mesh, std::vector<FamilyOf>& families) {
    if (rate_of(mesh.point, mesh.seconds * 1e3) < options_.rate) return;
    ++std::atomic_ref(end_.meshes_opened);
    layouts_.each_family(mesh.point, [&](const Point& p, const std::vector<std::int64_t>& micro_batches) {
      families.push_back({p, micro_batches, mesh.seconds});
      return true;
    });
  }

  // The lower bounds of a family. A layout that is far too large gets none for its time. Larger micro batches take no less memory: what
  // one keeps grows with its samples, and as many samples are in flight.
  void look_at(FamilyOf& family) const {
    Point p = family.point;
    std::optional<Bounds::Family> bounds;  // of those that are possible
    const double too_much = kWithinReach * end_.limit_mib,
                 undercut = for_front_ ? least_mib_within(family.seconds) : kInfinite;
    for (std::size_t i = 0; i < family.micro_batches.size(); ++i) {
      p.micro_batch = family.micro_batches[i];
      if (!strategies::can_be(p) || why_lacking(p, place_.machine)) {
        family.refused.push_back(p.micro_batch);
        continue;
      }
      if (!bounds) bounds.emplace(bounds_, p);
      LowerBound lower_bound = bounds->memory(p, std::min(too_much, undercut) * kMiB);
      if (lower_bound.total_bytes() / kMiB >= undercut) {
        family.undercut = family.micro_batches.size() - i;
        return;
      }
      const bool within_reach = lower_bound.total_bytes() / kMiB <= too_much;
      if (within_reach) lower_bound.seconds = std::max(bounds->seconds(p), family.seconds);
      if (within_reach && by_energy()) lower_bound.busy_joules = bounds->busy_joules(p);
      family.lower_bounds.emplace_back(p.micro_batch, lower_bound);
      if (within_reach) continue;
      family.left_out = family.micro_batches.size() - i - 1;
      return;
    }
  }

  void add(std::vector<FamilyOf>& families) {
    constexpr std::size_t kRun = 8;  // neighbours, which have most in common
    each_in_parallel(
        families.size(), options_.threads, [&](std::size_t i) { look_at(families[i]); }, kRun);
    for (FamilyOf& family : families) {
      for (const std::int64_t micro_batch : family.refused) {
        family.point.micro_batch = micro_batch;
        if (can_be(space_, family.point, end_.refused))
          refuse(space_, family.point, why_lacking(family.point, place_.machine).value(), end_.refused);
      }
      end_.larger_micro_batches += family.left_out;
      end_.undercut += family.undercut;
      Candidate c;
      c.family = std::make_shared<const Point>(std::move(family.point));
      for (const auto& [micro_batch, lower_bound] : family.lower_bounds) {
        c.micro_batch = micro_batch;
        c.lower_bound = lower_bound;
        c.number = end_.layouts++;
        c.score = score_of(c);
        if (is_open(c)) left_.push_back(c);
      }
    }
  }

  static double rate_of(const Point& p, double ms) { return static_cast<double>(p.global_batch * p.seq) / (ms * 1e-3); }

  // `point`: makes the layout, which few of these counts ask for.
  template <class Make>
  void count_too_large(const std::string& reason, double mib, const Make& point) {
    TooLarge& all = end_.too_large[reason];
    if (all.count++ == 0 || mib < all.needed_mib) all.example = point(), all.needed_mib = mib;
  }

  // Whether a layout is still undecided: by what is known of it, it may fit and reach the rate.
  bool is_open(const Candidate& c) {
    if (c.mib() > end_.limit_mib) {
      count_too_large(decided_by(c.lower_bound.rank, c.lower_bound.largest()), c.mib(), [&] { return c.point(); });
      if (c.mib() <= kWithinReach * end_.limit_mib) larger_.remember(c);
      return false;
    }
    if (rate_of(*c.family, c.lower_bound.seconds * 1e3) >= options_.rate) return true;
    ++end_.too_slow;
    return false;
  }

  // Learns more about a layout: closer lower bounds first. Later an outline replaces them, with the time and peak of a simulation,
  // where one can be made. At last what the fullest rank's allocator holds.
  void learn(Candidate& c) const {
    using Known = Candidate::Known;
    if (c.known == Known::outline) return place_fullest(c);
    const Point point = c.point();
    while (c.parts < CloseBounds::kParts)
      if (close_bounds_.raise(c.parts++, point, c.lower_bound)) return;
    if (c.known == Known::lower_bound) {
      c.known = Known::close_bound;
      c.lower_bound = close_bounds_.lower_bound(point, c.lower_bound);
      return;
    }
    c.known = Known::outline;
    const sim::Outline outline = sim::outline_point(point, strategies::make_plan(point), place_.machine,
                                                    static_cast<int>(place_.devices), place_.recordings);
    c.lower_bound.seconds = outline.seconds * (1 - 1e-12);  // a step in ms and a rate are rounded
    c.joules = outline.joules * (1 - 1e-9);                 // and sums over ranks are, in another order
    for (std::size_t i = 0; i < c.lower_bound.bytes.size(); ++i)
      c.lower_bound.bytes[i] = static_cast<double>(outline.peak.by_category[i]);
    c.lower_bound.rank = outline.rank;
  }

  void keep(Tried&& t, std::size_t number) {
    const PointResult& r = t.result;
    if (!r.iteration_ms) return;
    if (!t.fits) {
      count_too_large(decided_by(t.fullest_rank, largest(*r.memory_anatomy_mib)), t.needed_mib,
                      [&] { return t.point; });
      larger_.remember(std::move(t));
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
    const LowerBound& b = c.lower_bound;
    return score(options_.objective,
                 {b.seconds * 1e3, c.needs_mib(), c.family->world(),
                  std::max(c.joules, joules_at_least(*c.family, b.seconds, b.busy_joules, place_.machine))});
  }
  Score score_of(const Tried& t) const { return score(options_.objective, costs_of(t)); }
  bool by_energy() const { return options_.objective == Objective::tokens_per_joule; }

  // Takes layouts in the order of `key` while `wanted` wants them. More is found out about a layout, which then goes to its new place.
  // Once nothing else is left to find out, it is simulated. `left_` keeps what was not wanted.
  template <class Key, class Wanted>
  void decide(const Key& key, const Wanted& wanted) {
    std::vector<std::pair<decltype(key(left_[0])), std::size_t>> heap;  // the place in `left_` too
    for (std::size_t i = 0; i < left_.size(); ++i) heap.emplace_back(key(left_[i]), i);
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    const auto push = [&](std::size_t i) {
      heap.emplace_back(key(left_[i]), i);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    };
    const auto is_held = [&](std::size_t i) { return left_[i].known == Candidate::Known::held; };
    while (!stopped()) {
      // The first ones: all of them to be simulated, or none.
      std::vector<std::size_t> wave;
      while (!heap.empty() && wave.size() < kWave) {
        const std::size_t i = heap.front().second;
        const bool other = !wave.empty() && is_held(i) != is_held(wave[0]);
        if (other && wanted(left_[i])) break;
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        heap.pop_back();
        if (!other && wanted(left_[i])) wave.push_back(i);
      }
      if (wave.empty()) break;
      is_held(wave[0]) ? place(wave, push) : learn(wave, push);
      tell();
    }
    std::erase_if(left_, [](const Candidate& c) { return c.number == kTaken; });
  }

  // Few steps of a wave are long: what is found out about the first may decide about the others, which go back. Of layouts whose blocks
  // would be placed in memory only those that take less of it than the ones before. All cheap steps stay.
  template <class Push>
  std::vector<std::size_t> few_long(const std::vector<std::size_t>& wave, const Push& push) const {
    using Known = Candidate::Known;
    std::vector<std::size_t> now;
    std::size_t outlined = 0, placed = 0;
    double least = kInfinite;
    for (const std::size_t i : wave) {
      const Candidate& c = left_[i];
      const bool places = c.known >= Known::outline, outlines = c.known == Known::close_bound;
      if ((outlines && outlined == kTogether) || (places && (placed == kTogether || c.needs_mib() >= least))) {
        push(i);
        continue;
      }
      if (outlines) ++outlined;
      if (places) least = c.needs_mib(), ++placed;
      now.push_back(i);
    }
    return now;
  }

  // The longest steps begin first.
  template <class Push>
  void learn(const std::vector<std::size_t>& wave, const Push& push) {
    std::vector<std::size_t> now = few_long(wave, push);
    std::stable_sort(now.begin(), now.end(),
                     [&](std::size_t a, std::size_t b) { return left_[a].known > left_[b].known; });
    each_in_parallel(now.size(), options_.threads, [&](std::size_t i) { learn(left_[now[i]]); });
    for (const std::size_t i : now) {
      Candidate& c = left_[i];
      if (c.known == Candidate::Known::outline) ++end_.simulated;
      c.score = score_of(c);
      if (c.known == Candidate::Known::held || is_open(c))
        push(i);
      else
        c.number = kTaken;
    }
  }

  // Places blocks in memory on all ranks, which is the simulation.
  template <class Push>
  void place(const std::vector<std::size_t>& wave, const Push& push) {
    const std::vector<std::size_t> now = few_long(wave, push);
    std::vector<Tried> tried(now.size());
    each_in_parallel(now.size(), options_.threads, [&](std::size_t i) {
      const Candidate& c = left_[now[i]];
      tried[i] = simulated(c.point(), now.size() == 1 ? alone_ : place_);
      tried[i].lower_bound = c.lower_bound;
    });
    for (std::size_t i = 0; i < now.size(); ++i) {
      ++end_.placed;
      keep(std::move(tried[i]), std::exchange(left_[now[i]].number, kTaken));
    }
  }

  // Many that have little handed out hold more: one rank says so for a part of a simulation's time. Where it has too little memory the
  // simulation says what is needed.
  void place_fullest(Candidate& c) const {
    c.known = Candidate::Known::held;
    const Point point = c.point();
    const auto held =
        sim::reserved_on(c.lower_bound.rank, point, strategies::make_plan(point), place_.machine, place_.recordings);
    if (held) c.held_mib = static_cast<double>(*held) / kMiB;
  }

  // Whether such a score may still be among the best, or as fast as the fastest with more memory left free.
  bool may_be_best(const Score& score) const {
    if (fitting_.size() < options_.best || !(score_of(fitting_[options_.best - 1].tried) < score)) return true;
    return options_.objective == Objective::time && score.first <= kAsFast * score_of(fitting_.front().tried).first &&
           score.second < roomiest()->tried.needed_mib;
  }

  // The one that takes the least memory of those that fit and are as fast as the fastest.
  auto roomiest() const -> std::vector<Fitting>::const_iterator {
    const double longest = kAsFast * fitting_.front().tried.result.iteration_ms->mean;
    const auto end = std::find_if(fitting_.begin(), fitting_.end(),
                                  [&](const Fitting& f) { return f.tried.result.iteration_ms->mean > longest; });
    return std::min_element(fitting_.begin(), end,
                            [](const Fitting& a, const Fitting& b) { return a.tried.needed_mib < b.tried.needed_mib; });
  }

  // After the first meshes twice as many each time: by then it is known of most whether they are wanted.
  void find_best() {
    const auto score_of_mesh = [&](const Mesh& m) {
      return score(options_.objective, {m.seconds * 1e3, 0, m.point.world(),
                                        joules_at_least(m.point, m.seconds, m.busy_joules, place_.machine)});
    };
    sort_meshes(score_of_mesh);
    for (std::size_t most = kMeshes; open(most, [&](const Mesh& m) { return may_be_best(score_of_mesh(m)); });
         most *= 2)
      decide([](const Candidate& c) { return std::pair(c.score, c.number); },
             [&](const Candidate& c) { return may_be_best(c.score); });
  }

  // The least memory of the layouts that fit and take no longer.
  double least_mib_within(double seconds) const {
    double least = kInfinite;
    for (const Fitting& f : fitting_)
      if (f.tried.result.iteration_ms->mean <= seconds * 1e3) least = std::min(least, f.tried.needed_mib);
    return least;
  }

  // Whether some layout that fits is as fast and as small as this one can be, as far as is known.
  bool dominated(const Candidate& c) const { return least_mib_within(c.lower_bound.seconds) <= c.needs_mib(); }

  // Layouts of the front take at most so many seconds, as far as is known.
  double longest_of_front() const {
    double fastest = kInfinite;
    for (const Fitting& f : fitting_) fastest = std::min(fastest, f.tried.result.iteration_ms->mean);
    return fastest * 1e-3 * options_.front_within;
  }

  // The fastest first: a layout that is not dominated when its turn comes is on the front, if it fits.
  void find_front() {
    for_front_ = true;
    sort_meshes([](const Mesh& m) { return m.seconds; });
    const auto go_on = [&] {
      decide([](const Candidate& c) { return std::tuple(c.lower_bound.seconds, c.needs_mib(), c.number); },
             [&](const Candidate& c) { return c.lower_bound.seconds <= longest_of_front() && !dominated(c); });
      if (!stopped()) left_.clear();  // what is not wanted now never will be
    };
    go_on();
    while (open(kMeshes, [&](const Mesh& m) { return m.seconds <= longest_of_front(); })) go_on();
  }

  void find_larger() {
    if (fitting_.empty()) return;
    end_.larger = larger_.find(fitting_.front().tried.result.iteration_ms->mean, alone_, [&] { return stopped(); });
  }

  void finish() {
    if (!fitting_.empty() && options_.objective == Objective::time) {
      const auto first = fitting_.begin() + (roomiest() - fitting_.cbegin());
      std::rotate(fitting_.begin(), first, first + 1);
    }
    for (std::size_t i = 0; i < std::min(options_.best, fitting_.size()); ++i) end_.best.push_back(fitting_[i].tried);
    if (!options_.front) return;
    std::vector<const Tried*> by_time;
    for (const Fitting& f : fitting_) by_time.push_back(&f.tried);
    std::stable_sort(by_time.begin(), by_time.end(), [](const Tried* a, const Tried* b) {
      return std::pair(a->result.iteration_ms->mean, a->needed_mib) <
             std::pair(b->result.iteration_ms->mean, b->needed_mib);
    });
    const double longest = longest_of_front();
    double least = kInfinite;
    for (const Tried* t : by_time) {
      if (t->needed_mib >= least || t->result.iteration_ms->mean * 1e-3 > longest) continue;
      least = t->needed_mib;
      end_.front.push_back(*t);
    }
  }

  void tell() {
    if (!options_.progress) return;
    SearchOptions::Progress p{end_.meshes, next_mesh_, end_.layouts, end_.layouts - left_.size(), end_.simulated, {}};
    if (!fitting_.empty()) p.best_ms = fitting_.front().tried.result.iteration_ms->mean;
    options_.progress(p);
  }

  static constexpr std::size_t kTaken = ~std::size_t{0};
  const Space& space_;
  const SearchTarget& place_;
  SearchTarget alone_;  // for a simulation beside which nothing runs
  const SearchOptions& options_;
  SearchEnd end_;
  Layouts layouts_;
  MeshBounds mesh_bounds_;
  Bounds bounds_;
  CloseBounds close_bounds_{place_.machine, bounds_};
  std::vector<Mesh> meshes_;  // those before the next one are opened
  std::size_t next_mesh_ = 0;
  bool for_front_ = false;       // the best are known
  std::vector<Candidate> left_;  // not decided
  Larger larger_;
  std::vector<Fitting> fitting_;  // simulated, best first
};

}  // namespace

SearchEnd search(const Space& space, const SearchTarget& place, const SearchOptions& options) {
  return Search(space, place, options).run();
}

}  // namespace mbench::search
