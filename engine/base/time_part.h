// What a step's time is spent on: the parts of its anatomy. A new one is an enumerator and its name, in this file only. Work of a rank
// outside its compute stream counts only while that stream waits for it ("exposed").
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/axis.h"

namespace mbench {

enum class TimePart : std::uint8_t {
  gemms,        // matmuls with their epilogues
  attention,    // fused attention, softmax of scores, masks
  elementwise,  // norms, activations, dropout, embedding, loss, routing: what streams through memory
  optimizer,    // the update and the gradient's norm
  copies,       // moved or filled data, nothing computed
  host,         // the device waits for its host
  bubble,       // the device waits for a neighbouring stage
  // Exposed communication by axis. Experts' etp counts as tp, their edp and dp_replicate as dp. Messages between stages, and what the ends
  // of a pipeline share, count as pp. The last is for sets of several axes, such as those of the gradient's norm.
  communication_tp,
  communication_cp,
  communication_dp,
  communication_ep,
  communication_pp,
  communication_other
};
inline constexpr std::array<std::string_view, 13> kTimePartNames = {"products",
                                                                    "attention",
                                                                    "elementwise",
                                                                    "optimizer",
                                                                    "copies",
                                                                    "host",
                                                                    "bubble",
                                                                    "communication_tp",
                                                                    "communication_cp",
                                                                    "communication_dp",
                                                                    "communication_ep",
                                                                    "communication_pp",
                                                                    "communication_other"};
inline constexpr int kTimeParts = static_cast<int>(kTimePartNames.size());
static_assert(static_cast<int>(TimePart::communication_other) == kTimeParts - 1, "a name for each, in their order");

constexpr std::string_view name_of(TimePart part) {
  return kTimePartNames[static_cast<std::size_t>(part)];
}

// The part for collectives of a group whose ranks differ in these axes only. A group of no axes is all ranks, or not part of a mesh.
constexpr TimePart communication_of(Axes axes) {
  if (axes.within(kTensorAxes)) return TimePart::communication_tp;
  if (axes == Axes{Axis::cp}) return TimePart::communication_cp;
  if (axes.within(kDataAxes)) return TimePart::communication_dp;
  if (axes == Axes{Axis::ep}) return TimePart::communication_ep;
  if (axes == Axes{Axis::pp}) return TimePart::communication_pp;
  return TimePart::communication_other;
}

// The last parts are those of communication, an axis each. Bytes are counted by axis only, with a place for each of these parts.
inline constexpr std::array<std::string_view, 6> kCommunicationNames = {"tp", "cp", "dp", "ep", "pp", "other"};
inline constexpr std::size_t kFirstCommunication = kTimePartNames.size() - kCommunicationNames.size();
static_assert(static_cast<std::size_t>(TimePart::communication_tp) == kFirstCommunication);
using ByAxis = std::array<double, kCommunicationNames.size()>;
inline double& at(ByAxis& values, TimePart part) {
  return values[static_cast<std::size_t>(part) - kFirstCommunication];
}
inline double sum_of(const ByAxis& values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum;
}

// Seconds by part.
using TimeByPart = std::array<double, kTimeParts>;
inline double& at(TimeByPart& times, TimePart part) {
  return times[static_cast<std::size_t>(part)];
}

}  // namespace mbench
