// What a layer of each kind and the ends of the model take, from recordings of small models. A layer is what two layers more add to a model
// of two in two stages. Where no end is asked for it is the middle one of three stages, which is the same and one recording.
//
// A figure is looked up by a layout of few layers. It is at the default in what the figure does not depend on. To make that layout takes
// longer than to find it, so that it is made once for all layouts that differ only in their micro batch.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/point/point.h"
#include "engine/sim/machine/machine.h"
#include "search/chunk_work.h"
#include "search/recorded_stage.h"

namespace mbench::search {

// Whether what the framework's host does for a step counts.
enum class Host { charged, free };

// `layer_kept`: by a micro batch's forward of a layer.
struct Probe {
  Parts<Work> work;
  Kept layer_kept;
};

// Which ends of the model are looked at as well as a layer: those of a layout of several stages, those that are one stage's, or all. Where
// a model has layers of several kinds, only those of the first are recorded with its ends.
enum class AskedEnds : std::uint8_t { none, apart, together, all };

// A layout of few layers of a kind, of any micro batch.
struct ProbeKey {
  Point point;
  std::size_t kind = 0;
  AskedEnds ends = AskedEnds::none;
  std::int64_t ranks = 0;  // those of the job
};

class Probes {
 public:
  explicit Probes(const sim::Machine& machine, Host host);
  ~Probes();

  // What a micro batch meets does not depend on pp, nor on dp except where experts need so many ranks. Sharding of state only adds:
  // forward and backward with whole state are a lower bound.
  static ProbeKey work_key(const Point& point, std::size_t kind);
  // The state of a rank does not depend on what is recomputed. Ranks of cp share it as those of dp do.
  static ProbeKey state_key(const Point& point, std::size_t kind);

  // Nothing where such layers cannot be recorded. The results stay where they are; several threads may ask, each with keys of its own.
  const std::optional<Probe>& work(ProbeKey& key, std::int64_t micro_batch);
  // Bytes of a rank's state.
  const std::optional<Parts<Bytes>>& state(ProbeKey& key, std::int64_t micro_batch);

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace mbench::search
