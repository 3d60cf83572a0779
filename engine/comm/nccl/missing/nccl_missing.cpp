// Instead of NCCL, where the binary was built without it.
#include "engine/comm/nccl/nccl_world.h"

namespace mbench::comm {

std::string nccl_library() {
  return "";
}

std::unique_ptr<World> open_nccl_world(World&, Mail&, Device&, StreamDevice&, double) {
  fail(ErrorKind::unsupported, "nccl",
       "this binary was built without NCCL, which groups of several GPUs need; one GPU, even if shared, does not");
}

}  // namespace mbench::comm
