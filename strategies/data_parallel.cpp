// Data parallelism: every rank of the axis trains on its own samples; gradients are summed in buckets as
// backward makes them ready.
#include "strategies/strategies.h"

namespace mbench::strategies {

void write_data_parallel(const Point& point, Plan& plan) {
  plan.mesh.sizes[static_cast<int>(Axis::dp)] = static_cast<int>(point.dp);
  // PyTorch DDP's default of 25 MiB: large enough to amortise a collective's latency, small enough to start
  // early.
  plan.gradient_bucket_bytes = std::size_t{25} << 20;
}

}  // namespace mbench::strategies
