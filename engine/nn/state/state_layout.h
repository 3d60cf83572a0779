// How one rank's parameters lie in flat tensors, and which part of them is its own: the part whose optimizer state it
// keeps. Only elements, no memory.
//
// Every parameter has a place in one flat space, unit after unit, aligned. Where state is sharded, the space is cut
// into buckets: neighbouring parameters of the same ranks of data, which travel together. In even parts a bucket is
// padded to a multiple of its ranks, and the i-th part is the i-th rank's. By whole parameters each has an owner: the
// rank that had least of its kind when its turn came, as in FairScale. Tensors of what is owned then have the size of
// the rank with most. Or all of it is the first rank's, and the others own nothing.
//
// Weights that live only in FP8 lie behind all others, so that either kind of weight is one flat tensor, and no bucket
// has both.
//
// A bucket is cut over the ranks of data of one copy of the state (kStateAxes of plan/mesh.h). Ranks at the same place
// in other copies own the same part.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/plan/mesh.h"
#include "engine/plan/state.h"

namespace mbench::nn {

class StateLayout {
 public:
  struct Item {  // a parameter
    std::int64_t elements = 0;
    Axes data;              // of kDataAxes: where the weight is replicated and its gradient partial
    int unit = 0;           // ascending
    bool separate = false;  // a bucket of its own: another stage has it too, next to other parameters
    bool fp8 = false;       // its weight lives only in FP8
    int kind = 0;           // each owner gets its share of every kind
  };
  struct Units {
    int count = 0;
    std::vector<int> chunk_starts;  // ascending: no bucket has units on both sides of one
  };
  // How many ranks a set of axes of data spans within a copy of the state, and which of them this is.
  struct Peers {
    int rank = 0, size = 1;
  };
  using PeersOver = std::function<Peers(Axes)>;

  struct Range {
    std::int64_t begin = 0, end = 0;
    std::int64_t size() const { return end - begin; }
    bool operator==(const Range&) const = default;
  };
  struct Run : Range {  // neighbouring items of a unit with the same ranks of data
    Axes data;
    bool operator==(const Run&) const = default;
  };
  struct Part : Range {
    int owner = 0;  // rank among the peers
  };
  struct Bucket : Range {
    Axes data;
    Axes sharers() const { return data & kStateAxes; }  // over which it is cut
    Axes copies() const { return data - kStateAxes; }   // between which the parts are the same
    int peers = 1;
    std::vector<int> units;   // whose items are in it, ascending
    std::vector<Part> parts;  // all of it, in order; empty where it is cut evenly
  };
  struct Own : Range {    // what is this rank's, in the space
    int bucket = 0;       // the bucket that it is of; 0 where nothing is sharded
    std::int64_t at = 0;  // its place in tensors of what is owned
    bool operator==(const Own&) const = default;
  };

  StateLayout() = default;
  // Places are multiples of `alignment` elements. A bucket is full at `bucket_elements`. Where weights are sharded, it
  // takes no more than a run, since they travel by unit.
  StateLayout(const StatePlan& plan, const std::vector<Item>& items, const Units& units, std::int64_t bucket_elements,
              std::int64_t alignment, const PeersOver& peers);

  std::int64_t size() const { return size_; }    // of the space, alignment and padding included
  std::int64_t owned() const { return owned_; }  // of tensors of what is owned; all where nothing is sharded
  // Where the space of weights in FP8 begins, and what is owned of it; the end where there are none.
  std::int64_t fp8_begin() const { return fp8_begin_; }
  std::int64_t fp8_at() const { return fp8_at_; }
  // An item's place with the alignment behind it, so that neighbours touch.
  const Range& range(std::size_t item) const { return ranges_[item]; }
  const std::vector<Run>& runs(int unit) const { return runs_[static_cast<std::size_t>(unit)]; }
  const std::vector<Bucket>& buckets() const { return buckets_; }  // in order; none where nothing is sharded
  const std::vector<int>& buckets_of(int unit) const { return by_unit_[static_cast<std::size_t>(unit)]; }
  const std::vector<Own>& own() const { return own_; }  // in order
  std::span<const Own> own_of(int bucket) const;

 private:
  using Items = std::span<const std::size_t>;  // that lie one after the other: of a bucket, or all of one kind
  std::vector<Items> grouped(const StatePlan& plan, const std::vector<Item>& items, const Units& units,
                             std::int64_t bucket_elements, Items all) const;
  void add_bucket(const StatePlan& plan, const std::vector<Item>& items, Items mine, Peers peers);
  void give_to_owners(Bucket& bucket, const std::vector<Item>& items, Items mine, Peers peers);
  void find_runs(const std::vector<Item>& items, Items all);

  std::int64_t alignment_ = 1;
  std::vector<Range> ranges_;           // [item]
  std::vector<std::vector<Run>> runs_;  // [unit]
  std::vector<Bucket> buckets_;
  std::vector<std::vector<int>> by_unit_;
  std::vector<Own> own_;
  std::map<std::pair<Axes, int>, std::vector<std::int64_t>> given_;  // by kind: [peer], elements that it owns so far
  std::int64_t size_ = 0, owned_ = 0, fp8_begin_ = 0, fp8_at_ = 0;
};

}  // namespace mbench::nn
