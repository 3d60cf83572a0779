// Stands in for raw_launch.cpp where CUDA is not built in.
#include "bench/raw_launch.h"

namespace mbench::bench {

std::unique_ptr<RawLaunches> open_raw_launches(std::int64_t) {
  return nullptr;
}

}  // namespace mbench::bench
