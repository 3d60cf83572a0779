#include "engine/plan/mesh.h"

#include "engine/base/error.h"

namespace mbench {
namespace {

constexpr Axis kDenseOrder[] = {Axis::tp, Axis::cp, Axis::dp, Axis::dp_replicate, Axis::pp};
constexpr Axis kExpertOrder[] = {Axis::etp, Axis::ep, Axis::edp, Axis::dp_replicate, Axis::pp};

// The factorisation that has all of the axes, innermost first.
const Axis (&order_of(Axes axes))[5] {
  if ((axes - kDenseAxes).empty()) return kDenseOrder;
  if ((axes - kExpertAxes).empty()) return kExpertOrder;
  fail(ErrorKind::internal, "mesh", "axes of two factorisations in one set: {}", str(axes));
}

}  // namespace

Mesh::Mesh(int tp, int cp, int dp, int pp, int etp, int ep) : sizes_{tp, cp, dp, etp, ep, 0, 1, pp} {}

int Mesh::size(Axis axis) const {
  if (axis != Axis::edp) return sizes_[static_cast<int>(axis)];
  const int stage = size({Axis::tp, Axis::cp, Axis::dp}), experts = size(Axis::etp) * size(Axis::ep);
  check(stage % experts == 0, "mesh", "etp {} x ep {} does not divide tp x cp x dp = {}", size(Axis::etp),
        size(Axis::ep), stage);
  return stage / experts;
}

int Mesh::size(Axes axes) const {
  int n = 1;
  for (int i = 0; i < kAxes; ++i)
    if (const auto a = static_cast<Axis>(i); axes.has(a)) n *= size(a);
  return n;
}

void Mesh::resize(Axis axis, int size) {
  check(axis != Axis::edp && size > 0, "mesh", "axis {} of size {}", name_of(axis), size);
  sizes_[static_cast<int>(axis)] = size;
}

int Mesh::coordinate(int rank, Axis axis) const {
  for (const Axis a : order_of({axis})) {
    if (a == axis) break;
    rank /= size(a);
  }
  return rank % size(axis);
}

std::vector<int> Mesh::members(int rank, Axes axes) const {
  std::vector<int> ranks{rank};
  int stride = 1;
  // Axis by axis from the innermost: each repeats what there is at every coordinate, in order.
  for (const Axis a : order_of(axes)) {
    const int n = size(a);
    if (axes.has(a)) {
      for (int& r : ranks) r -= r / stride % n * stride;
      const std::size_t inner = ranks.size();
      for (int c = 1; c < n; ++c)
        for (std::size_t i = 0; i < inner; ++i) ranks.push_back(ranks[i] + c * stride);
    }
    stride *= n;
  }
  return ranks;
}

Axes Mesh::real(Axes axes) const {
  Axes all;
  for (int i = 0; i < kAxes; ++i)
    if (const auto a = static_cast<Axis>(i); axes.has(a) && size(a) > 1) all.add(a);
  return all;
}

}  // namespace mbench
