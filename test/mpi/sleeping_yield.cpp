#include "test/mpi/sleeping_yield.h"

#include <sched.h>
#include <time.h>

#include <atomic>

namespace mbench::test {
namespace {

std::atomic<long> slept{0};

}  // namespace

long times_slept() {
  return slept;
}

}  // namespace mbench::test

// In place of the C library's, for this program and the libraries that it loads.
extern "C" int sched_yield() noexcept {
  ++mbench::test::slept;
  const timespec shortly{0, 10'000};  // Linux wakes a thread up to 50 us late
  ::nanosleep(&shortly, nullptr);
  return 0;
}
