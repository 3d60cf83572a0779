// Collectives of CPU ranks: the engine's beside MPI's own calls, and beside what copies cost: memcpy by all ranks at once.
//
//   mpirun -np 2 comm_bench           f32; add --bf16 for bf16
//
// A row for each collective and size, counted as check/collectives.h does: rates are bus bandwidths. `copies` is the bytes that memcpy copies a second on one rank while
// all do. Medians of repetitions, in each of which both run once: a machine that slows down slows both.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/mpi/mpi_world.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"
#include "health/collectives.h"

namespace mbench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// MPI's own call for a collective of check/collectives.h; none where it has none to hold against: no sum of bf16, and its
// exchange of messages is no collective.
std::function<void(const health::Buffers&)> of_mpi(std::string_view name, bool bf16) {
  const MPI_Datatype type = bf16 ? MPI_UINT16_T : MPI_FLOAT;
  const auto n = [](const Tensor& x) { return static_cast<int>(x.numel()); };
  using Buffers = health::Buffers;
  if (name == "all_gather")
    return [=](const Buffers& b) {
      MPI_Allgather(b.part.data(), n(b.part), type, b.whole.data(), n(b.part), type, MPI_COMM_WORLD);
    };
  if (name == "all_to_all")
    return [=](const Buffers& b) {
      MPI_Alltoall(b.whole.data(), n(b.part), type, b.other.data(), n(b.part), type, MPI_COMM_WORLD);
    };
  if (name == "reduce_scatter" && !bf16)
    return [=](const Buffers& b) {
      MPI_Reduce_scatter_block(b.whole.data(), b.part.data(), n(b.part), type, MPI_SUM, MPI_COMM_WORLD);
    };
  if (name == "all_reduce" && !bf16)
    return [=](const Buffers& b) {
      MPI_Allreduce(MPI_IN_PLACE, b.whole.data(), n(b.whole), type, MPI_SUM, MPI_COMM_WORLD);
    };
  return {};
}

void bench(bool bf16) {
  comm::MpiWorld world;
  const auto device = platform::open_device("cpu", 0);
  std::vector<int> everyone;
  for (int r = 0; r < world.size(); ++r) everyone.push_back(r);
  const auto group = world.group(*device, "all", everyone);
  const int k = world.size();
  if (world.rank() == 0)
    fmt::print(
        "| collective | KiB | mbench, GB/s | MPI, GB/s | ratio | copies, GB/s "
        "|\n|---|---:|---:|---:|---:|---:|\n");
  for (const health::Collective& c : health::collectives()) {
    const auto mpi = of_mpi(c.name, bf16);
    if (!mpi) continue;
    for (std::int64_t kib = 64; kib <= 64 << 10; kib *= 4) {
      const std::int64_t elements = kib * 1024 / (bf16 ? 2 : 4);
      const DType type = bf16 ? DType::bf16 : DType::f32;
      const health::Buffers b = health::make_buffers(*device, elements / k * k, type, k);
      run(*device, ops::Fill{b.whole, 0.0f});
      run(*device, ops::Fill{b.part, 0.0f});
      const auto timed = [&](const std::function<void()>& call) {
        group->barrier();
        const double start = now();
        call();
        return group->host_max(now() - start);
      };
      std::vector<double> ours, theirs, copies;
      const int repetitions = kib <= 1024 ? 200 : 20;
      for (int i = 0; i < repetitions; ++i) {
        ours.push_back(timed([&] { group->run(c.call(b)); }));
        theirs.push_back(timed([&] { mpi(b); }));
        copies.push_back(timed([&] { std::memcpy(b.other.data(), b.whole.data(), b.whole.bytes()); }));
      }
      const double bytes = static_cast<double>(b.whole.bytes()), bus = c.factor(k) * bytes * 1e-9;
      if (world.rank() == 0)
        fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", c.name, kib, bus / median(ours),
                   bus / median(theirs), median(theirs) / median(ours), bytes * 1e-9 / median(copies));
    }
  }
}

}  // namespace
}  // namespace mbench

int main(int argc, char** argv) {
  mbench::comm::MpiSession session;
  const bool bf16 = argc == 2 && std::string_view(argv[1]) == "--bf16";
  mbench::bench(bf16);
}
