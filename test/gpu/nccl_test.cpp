// NCCL as far as one GPU can prove it: the library and its version, communicators that do not block and one that does, split from it, an
// operation, its capture in a graph, and an orderly end. Needs a GPU.
#ifndef MBENCH_NO_NCCL
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <numeric>

#include "engine/comm/nccl/channel.h"
#include "engine/comm/nccl/nccl_world.h"
#include "engine/device/stream_device.h"
#include "engine/platform/registry.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;

namespace {

constexpr double kDeadline = 30;  // seconds
constexpr std::int64_t kElements = 1 << 16;

// One rank's communicator, and two tensors: the sum over one rank is a copy of its own.
struct Alone {
  std::unique_ptr<Device> gpu = open_device("cuda", 0);
  StreamDevice& device = dynamic_cast<StreamDevice&>(*gpu);
  cudaStream_t compute = static_cast<cudaStream_t>(device.stream());
  std::shared_ptr<Watch> watch = std::make_shared<Watch>(kDeadline, device.memory());
  std::unique_ptr<Channel> parent, channel;
  Tensor from = device.empty({kElements}, DType::f32, Category::other, "test");
  Tensor to = device.empty({kElements}, DType::f32, Category::other, "test");

  Alone() {
    ncclUniqueId id{};
    need_nccl(ncclGetUniqueId(&id), "test", "ncclGetUniqueId");
    parent = std::make_unique<Channel>(watch, "one rank", id, 0, 1);
    channel = std::make_unique<Channel>(*parent, "one rank, for collectives", 0, 0);
  }
  void set(const Tensor& x, float first, float step) {
    std::vector<float> values(static_cast<std::size_t>(kElements));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i % 1000);
    device.write(x, std::as_bytes(std::span(values)));
  }
  std::vector<float> get(const Tensor& x) {
    std::vector<float> values(static_cast<std::size_t>(kElements));
    device.read(x, std::as_writable_bytes(std::span(values)));
    return values;
  }
  // As a group enqueues it: after the compute stream, which then waits for it.
  void all_reduce() {
    const SharedEvent end = channel->start(compute, "all_reduce of a test", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(from.data(), to.data(), kElements, ncclFloat32, ncclSum, comm, stream);
    });
    need_cuda(cudaStreamWaitEvent(compute, end.get(), 0), "test");
  }
};

}  // namespace

TEST_CASE("NCCL makes a communicator of one rank, sums over it, is captured, and ends", "[nccl]") {
  Alone one;
  std::printf("%s\n", nccl_library().c_str());
  one.set(one.from, 1, 0.5f);
  one.set(one.to, -7, 0);
  one.all_reduce();
  CHECK(one.get(one.to) == one.get(one.from));

  const std::unique_ptr<RecordedStep> step = one.device.record([&] { one.all_reduce(); });
  one.device.synchronize();
  for (const float first : {3.0f, -2.0f}) {
    one.set(one.from, first, 0.25f);
    one.set(one.to, 0, 0);
    step->replay();
    CHECK(one.get(one.to) == one.get(one.from));
  }
  // The end waits for what the communicator does on the host, under the deadline.
  CHECK_NOTHROW(one.channel.reset());
  CHECK_NOTHROW(one.parent.reset());
  CHECK_FALSE(one.watch->aborted());
}

TEST_CASE("a collective's host time is printed, enqueued and replayed", "[nccl]") {
  Alone one;
  one.set(one.from, 1, 0.5f);
  one.all_reduce();
  one.device.synchronize();
  constexpr int kTimes = 50;
  const auto us_of_each = [&](const auto& call) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) call();
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kTimes;
    one.device.synchronize();
    return us;
  };
  const double enqueued = us_of_each([&] { one.all_reduce(); });
  const std::unique_ptr<RecordedStep> step = one.device.record([&] { one.all_reduce(); });
  const double replayed = us_of_each([&] { step->replay(); });
  std::printf("host time of an all-reduce: %.1f us enqueued, %.1f us replayed from a graph\n", enqueued, replayed);
  CHECK(enqueued > 0);
  CHECK(one.get(one.to) == one.get(one.from));
}
#endif
