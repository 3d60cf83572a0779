#include "search/mesh_bounds.h"

#include "engine/point/fields.h"
#include "engine/point/point.h"
#include "search/ideal_machine.h"

namespace mbench::search {
namespace {

// Experts of MoE have whole rows. For many samples the rounding up adds less than this share.
constexpr double kRoundedUp = 0.01;

// One stage, whose micro batch is all that there is.
Point in_one_batch(const Point& mesh) {
  Point p = at_default(mesh, kAddedWithinMesh);
  p.pp = 1;
  p.micro_batch = mesh.global_batch;
  p.global_batch = p.micro_batch * p.dp;
  return p;
}

double batches_of(const Point& mesh, const Point& p) {
  return static_cast<double>(mesh.global_batch) / static_cast<double>(mesh.dp * p.micro_batch) * (1 - kRoundedUp);
}

}  // namespace

MeshBounds::MeshBounds(const sim::Machine& machine)
    : known_(!machine.measured && !machine.immediate), machine_(ideal(machine)), ideal_(machine_, Host::free) {}

double MeshBounds::seconds(const Point& mesh) const {
  if (!known_) return 0;
  const Point p = in_one_batch(mesh);
  return ideal_.seconds(p) * batches_of(mesh, p) / static_cast<double>(mesh.pp);
}

double MeshBounds::busy_joules(const Point& mesh) const {
  if (!known_) return 0;
  const Point p = in_one_batch(mesh);
  return ideal_.busy_joules(p) * batches_of(mesh, p);
}

}  // namespace mbench::search
