#include "search/mesh_bounds.h"

#include "engine/point/fields.h"
#include "engine/point/point.h"
#include "search/ideal_machine.h"

namespace mbench::search {
namespace {

// Experts of MoE have whole rows. For many samples the rounding up adds less than this share.
constexpr double kRoundedUp = 0.01;

}  // namespace

MeshBounds::MeshBounds(const Machine& machine)
    : known_(!machine.measured && !machine.immediate), machine_(ideal(machine)), ideal_(machine_, Host::free) {}

double MeshBounds::seconds(const Point& mesh) const {
  if (!known_) return 0;
  Point p = at_default(mesh, kAddedWithinMesh);
  p.pp = 1;
  p.micro_batch = mesh.global_batch;
  p.global_batch = p.micro_batch * p.dp;
  const double batches = static_cast<double>(mesh.global_batch) / static_cast<double>(mesh.dp * p.micro_batch);
  return ideal_.seconds(p) * batches / static_cast<double>(mesh.pp) * (1 - kRoundedUp);
}

}  // namespace mbench::search
