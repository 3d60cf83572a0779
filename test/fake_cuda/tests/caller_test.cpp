// The thread that calls NCCL for the host's.
#include "engine/comm/nccl/caller.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;

namespace {

ncclResult_t called(Caller& caller, std::function<ncclResult_t()> call) {
  caller.start(std::move(call));
  while (!caller.returned()) std::this_thread::yield();
  return caller.result();
}

}  // namespace

TEST_CASE("a caller calls in one thread of its own, on the GPU that was current, and gives what came of it") {
  Caller caller;
  std::thread::id first, second;
  int gpu = -1;
  CHECK(called(caller, [&] {
          first = std::this_thread::get_id();
          return cudaGetDevice(&gpu) == cudaSuccess ? ncclSuccess : ncclInternalError;
        }) == ncclSuccess);
  CHECK(gpu == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it sleeps by now
  CHECK(called(caller, [&] {
          second = std::this_thread::get_id();
          return ncclRemoteError;
        }) == ncclRemoteError);
  CHECK(first == second);
  CHECK(first != std::this_thread::get_id());
  CHECK_THROWS_WITH(called(caller, []() -> ncclResult_t { throw std::runtime_error("no such stream"); }),
                    "no such stream");
  CHECK(called(caller, [] { return ncclSuccess; }) == ncclSuccess);
}

TEST_CASE("a caller whose call does not return is left to itself") {
  const auto flag = [] { return std::make_shared<std::atomic<bool>>(false); };
  const auto begun = flag(), released = flag(), ended = flag();
  {
    Caller caller;
    caller.start([begun, released, ended] {
      *begun = true;
      while (!*released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      *ended = true;
      return ncclSuccess;
    });
    while (!*begun) std::this_thread::yield();
    CHECK_FALSE(caller.returned());
    CHECK(caller.busy());
  }
  CHECK_FALSE(*ended);
  *released = true;
  for (int i = 0; i < 10000 && !*ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(*ended);
}
