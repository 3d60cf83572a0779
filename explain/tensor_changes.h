// Which tensors at the peak of memory came, went or grew from one run to another.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/sim/recording/memory_log.h"

namespace mbench::explain {

struct TensorChange {
  enum class Kind { came, went, grew, shrank };
  Kind kind;
  std::optional<sim::TensorsAtPeak> from, to;  // one of them is empty where they came or went
  std::int64_t bytes = 0;                      // more than before
};
std::string_view name_of(TensorChange::Kind kind);

// Tensors are held against those of the same name, category and pass, of the same shape and type first. So with another micro batch an
// activation grows, and does not come and go. The largest change first; they add up to the change of the total. Tensors that take as many
// bytes as before are left out.
std::vector<TensorChange> changed_tensors(const sim::PeakByTensor& from, const sim::PeakByTensor& to);

}  // namespace mbench::explain
