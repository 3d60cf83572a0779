// Collectives of CPU ranks: the engine's beside MPI's own calls, and beside what copies cost: memcpy by all ranks at once.
//
//   mpirun -np 2 comm_bench           f32; add --bf16 for bf16
//
// A row for each collective and size. `bytes` as nccl-tests counts them (of the whole buffer), rates as bus bandwidth: all-reduce
// 2 (k - 1) / k, the others (k - 1) / k of the bytes over the time. `copies` is the bytes that memcpy copies a second on one rank while
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

namespace mbench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Buffers {
  Tensor whole, other, part;
};

struct Collective {
  const char* name;
  double factor;  // of bus bandwidth, times (k - 1) / k
  std::function<void(Group&, const Buffers&)> ours;
  std::function<void(const Buffers&)> theirs;
};

std::vector<Collective> collectives(bool bf16) {
  const MPI_Datatype type = bf16 ? MPI_UINT16_T : MPI_FLOAT;
  const auto n = [](const Tensor& x) { return static_cast<int>(x.numel()); };
  std::vector<Collective> all = {
      {"all_gather", 1, [](Group& g, const Buffers& b) { g.all_gather(b.part, b.whole); },
       [=](const Buffers& b) {
         MPI_Allgather(b.part.data(), n(b.part), type, b.whole.data(), n(b.part), type, MPI_COMM_WORLD);
       }},
      {"all_to_all", 1, [](Group& g, const Buffers& b) { g.all_to_all(b.whole, b.other); },
       [=](const Buffers& b) {
         int k = 1;
         MPI_Comm_size(MPI_COMM_WORLD, &k);
         MPI_Alltoall(b.whole.data(), n(b.whole) / k, type, b.other.data(), n(b.whole) / k, type,
                      MPI_COMM_WORLD);
       }}};
  if (bf16) return all;  // MPI has no sum of bf16 to hold against
  all.push_back({"reduce_scatter", 1, [](Group& g, const Buffers& b) { g.reduce_scatter(b.whole, b.part); },
                 [=](const Buffers& b) {
                   MPI_Reduce_scatter_block(b.whole.data(), b.part.data(), n(b.part), type, MPI_SUM,
                                            MPI_COMM_WORLD);
                 }});
  all.push_back({"all_reduce", 2, [](Group& g, const Buffers& b) { g.all_reduce(b.whole); },
                 [=](const Buffers& b) {
                   MPI_Allreduce(MPI_IN_PLACE, b.whole.data(), n(b.whole), type, MPI_SUM, MPI_COMM_WORLD);
                 }});
  return all;
}

void bench(bool bf16) {
  MpiWorld world;
  const auto device = open_device("cpu", 0);
  std::vector<int> everyone;
  for (int r = 0; r < world.size(); ++r) everyone.push_back(r);
  const auto group = world.group(*device, "all", everyone);
  const double k = world.size();
  if (world.rank() == 0)
    fmt::print(
        "| collective | KiB | mbench, GB/s | MPI, GB/s | ratio | copies, GB/s "
        "|\n|---|---:|---:|---:|---:|---:|\n");
  for (const Collective& c : collectives(bf16))
    for (std::int64_t kib = 64; kib <= 64 << 10; kib *= 4) {
      const std::int64_t elements = kib * 1024 / (bf16 ? 2 : 4);
      const DType type = bf16 ? DType::bf16 : DType::f32;
      const Buffers b{device->empty({elements}, type, Category::other, "bench"),
                      device->empty({elements}, type, Category::other, "bench"),
                      device->empty({elements / world.size()}, type, Category::other, "bench")};
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
        ours.push_back(timed([&] { c.ours(*group, b); }));
        theirs.push_back(timed([&] { c.theirs(b); }));
        copies.push_back(timed([&] { std::memcpy(b.other.data(), b.whole.data(), b.whole.bytes()); }));
      }
      const double bytes = static_cast<double>(b.whole.bytes()), bus = c.factor * (k - 1) / k * bytes * 1e-9;
      if (world.rank() == 0)
        fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", c.name, kib, bus / median(ours),
                   bus / median(theirs), median(theirs) / median(ours), bytes * 1e-9 / median(copies));
    }
}

}  // namespace
}  // namespace mbench

int main(int argc, char** argv) {
  mbench::MpiSession session;
  const bool bf16 = argc == 2 && std::string_view(argv[1]) == "--bf16";
  mbench::bench(bf16);
}
