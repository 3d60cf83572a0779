// Trains a layout on one rank and on the ranks that it asks for. What came of it travels between ranks as bytes.
#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "engine/base/time_part.h"
#include "engine/device/arena.h"
#include "engine/point/point.h"

namespace mbench::test {

inline constexpr int kRanks = 8;              // of the job
inline constexpr std::size_t kMostSteps = 5;  // of a layout

// Of a device and its host, bytes.
struct RankMemory {
  MemoryUse peak, host;
  std::size_t reserved = 0, host_reserved = 0;
};
bool same(const RankMemory& a, const RankMemory& b);
std::string str(const RankMemory& memory);

// In as many steps as the point has iterations.
struct Trained {
  std::size_t steps = 0;  // 0: it could not be trained
  std::array<double, kMostSteps> losses{}, norms{};
  int skipped = 0;
  bool grew = false;  // some rank asked for raw memory after the second step
  std::array<RankMemory, kRanks> memory{};
  std::array<ByAxis, kRanks> sent{};  // bytes of collectives and messages in the third step
};

Trained train_alone(const Point& point);
// On all ranks of the job, which all get what came of it.
Trained train_together(const Point& point);

}  // namespace mbench::test
