#include "engine/nn/runtime/replicas.h"

namespace mbench::nn {
namespace {

comm::Group& replicas_of(const Context& c) {
  return c.groups.over({Axis::dp});
}

// So many rows to or from the first replica, and none between others.
std::vector<std::int64_t> only_first(const comm::Group& g) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(g.size()), 0);
  rows.front() = 1;
  return rows;
}
std::vector<std::int64_t> each_if_first(const comm::Group& g) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(g.size()), g.rank() == 0 ? 1 : 0);
}

}  // namespace

bool is_replicated(const Context& c) {
  return c.plan.single_process && replicas_of(c).size() > 1;
}

bool is_first_replica(const Context& c) {
  return replicas_of(c).rank() == 0;
}

Tensor gather_to_first(Context& c, const Tensor& part, Category category, std::string_view what) {
  comm::Group& g = replicas_of(c);
  const std::int64_t n = part.numel();
  const Tensor all = c.device.empty({is_first_replica(c) ? g.size() : 0, n}, part.dtype(), category, what);
  g.run(comm::AllToAll{part.view({1, n}), all, only_first(g), each_if_first(g)});
  return is_first_replica(c) ? all : Tensor();
}

void scatter_from_first(Context& c, const Tensor& all, const Tensor& part) {
  comm::Group& g = replicas_of(c);
  const std::int64_t n = part.numel();
  const Tensor rows = is_first_replica(c)
                          ? all.view({g.size(), n})
                          : c.device.empty({0, n}, part.dtype(), Category::workspace, "nothing to scatter");
  g.run(comm::AllToAll{rows, part.view({1, n}), each_if_first(g), only_first(g)});
}

}  // namespace mbench::nn
