// What a simulated machine and the counting device say of the memory of each rank of a layout, and of what it sends; held to what was real.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/sim/machine/machine.h"
#include "test/mpi/trained.h"

namespace mbench::test {

// Of each rank, without what a framework's libraries hold.
struct LayoutForecast {
  std::vector<RankMemory> simulated, counted;  // by rank
  std::vector<bool> stands_for;                // whether they are that rank's
  std::optional<std::size_t> outlined;         // of the fullest rank, as a search sees it
  std::optional<ByAxis> sent;                  // MiB of the busiest of `senders`; empty where it follows the data
  std::vector<int> senders;                    // ranks that stand for all others of their class
  std::optional<bool> uses_host;  // whether a rank keeps something there; empty where that depends on the stage
};

// Whether the sizes of tensors follow what the router says. Tensors with room for the rows of all ranks are as long whatever comes; into
// pages not all may fit.
bool sizes_follow_data(const Point& point);

LayoutForecast forecast_layout(Point point, const sim::Machine& machine, const std::string& framework_name);

// Where they differ, a line each; empty if nowhere.
std::string wrong_memory(const LayoutForecast& forecast, const Trained& real);
std::string wrong_sent(const LayoutForecast& forecast, const Trained& real);

}  // namespace mbench::test
