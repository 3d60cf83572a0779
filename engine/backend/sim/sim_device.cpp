#include "engine/backend/sim/sim_device.h"

namespace mbench::sim {

void SimDevice::read(const Tensor&, std::span<std::byte>) {
  fail(ErrorKind::internal, "sim", "values read from a device that has none");
}

}  // namespace mbench::sim
