// Figures of a chunk of layers, from recordings of chunks of one to four layers of one kind.
#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "engine/sim/play/clock.h"
#include "engine/sim/recording/step_events.h"
#include "search/recorded_stage.h"
#include "search/small_model.h"

namespace mbench::search {

// By how much actions change the handed-out bytes, at their end and at their peak.
struct Change {
  Bytes all{}, most{};
};

// Figures of a chunk of so many layers. Times are seconds of the device's stream.
struct ChunkSample {
  double forward = 0, backward = 0;
  double weight_gradient = 0;  // 0 where the schedule does not split backward
  double lead = 0;             // before the first forward, and what the first takes longer than others
  double tail = 0;             // from the last backward to the step's end, and what the last takes longer than others
  double end = 0;              // the part of the tail after all gradients are reduced
  double fewest_tail = 0;      // the tail of at most as many layers as were recorded
  std::array<double, 3>
      host{};          // of the step's end: the host's own work, and copies each way; each does one thing at a time
  double message = 0;  // bytes of one
  Change up, down;     // of a forward and a backward, with their messages
  Change last;         // of the gradients of weights, where they are an action of their own
  Bytes left{};        // what the first step leaves for all later ones
};

// Recorded chunks have at most this many layers. The first few differ, because of what is fetched ahead and what is still in flight
// after its use.
inline constexpr std::int64_t kSizes = 4;

// Which ends of the model a chunk has.
enum class ChunkEnds : std::uint8_t { first, middle, last, whole };
inline constexpr std::size_t kChunkEnds = 4;
ChunkEnds ends_of(const ChunkPlan& c);

// The layers of a chunk, or of all chunks of a stage. `main`: the kind whose recordings have the ends; layers of other kinds add to them.
// Where dense layers come first it is the kind of those with experts, if there are some. Where kinds alternate, it is the last layer's:
// behind it a forward keeps most, and a backward begins with it.
struct LayersOf {
  ByKind counts{};
  std::size_t main = 0;
  double of_main() const { return counts[main]; }
  std::int64_t of_others() const {
    return static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), -of_main()));
  }
  bool mixed() const { return std::count(counts.begin(), counts.end(), 0.0) < static_cast<int>(kLayerKinds) - 1; }
};

LayersOf layers_of(const Point& point, const ChunkPlan& c, bool alternating);
// A stage's optimizer has the layers of all its chunks.
LayersOf layers_of(const Point& point, const std::vector<ChunkPlan>& stage, bool alternating);
// Chunks that are recorded in several lengths: layers of one kind, behind so many dense ones.
struct Recorded {
  std::size_t kind = 0;
  std::int64_t dense = 0;
  ChunkEnds ends = ChunkEnds::whole;
  auto operator<=>(const Recorded&) const = default;
};
using Lengths = std::map<Recorded,
                         std::set<std::int64_t>>;  // layers of the kind; more than kSizes: what another adds is wanted
// What the figures of a chunk want. `one`: its layers are one chunk, not all those of a stage.
void want(Lengths& lengths, ChunkEnds ends, const LayersOf& layers, bool alternating, bool one);

// The recordings that a layout needs, of chunks that differ in their ends and in the number of layers of one kind.
class RecordedChunks {
 public:
  void set(ChunkEnds ends, std::int64_t layers, const ChunkSample& sample) { place(ends, layers) = &sample; }
  // Those of that many layers must have been set; of more than kSizes the three longest.
  ChunkSample of(ChunkEnds ends, std::int64_t layers) const;
  // What one more of many layers adds: no more than either of the last two did.
  ChunkSample another(ChunkEnds ends) const;
  // The peak of an action where layers of several kinds alternate. Its highest moment depends on their order, so that only what is sure
  // counts. That is a forward's peak above what it keeps, and a backward's from its begin, whichever is least in the recordings.
  void take_surest_peaks(ChunkEnds ends, ChunkSample& to) const;

 private:
  const ChunkSample*& place(ChunkEnds ends, std::int64_t layers) {
    return by_ends_[static_cast<std::size_t>(ends)][static_cast<std::size_t>(layers - 1)];
  }
  const ChunkSample& at(ChunkEnds ends, std::int64_t layers) const {
    return *by_ends_[static_cast<std::size_t>(ends)][static_cast<std::size_t>(layers - 1)];
  }
  std::array<std::array<const ChunkSample*, kSizes>, kChunkEnds> by_ends_{};
};

// Of what a chunk's figures are put together.
struct RecordedKinds {
  std::array<RecordedChunks, kLayerKinds> alone;    // layers of one kind
  std::array<RecordedChunks, kSizes> behind_dense;  // layers with experts behind one to kSizes dense ones
  RecordedChunks& of(const Recorded& r) {
    return r.dense > 0 ? behind_dense[static_cast<std::size_t>(r.dense - 1)] : alone[r.kind];
  }
};

// Layers of several kinds in no known order: a chunk of the main one, plus what each other layer adds.
ChunkSample put_together(const RecordedKinds& of, ChunkEnds ends, const LayersOf& layers, bool alternating);
// Dense layers in front of those with experts are recorded so. What travels for a layer hides behind the layer before it, of either kind.
ChunkSample in_one_chunk(const RecordedKinds& of, ChunkEnds ends, const LayersOf& layers, bool alternating);

ChunkSample sample_of(const sim::StepEvents& step_events, const sim::HostTimes& times);

}  // namespace mbench::search
