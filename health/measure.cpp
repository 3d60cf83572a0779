#include "health/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "engine/comm/gather.h"
#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/random_normal.h"
#include "engine/ops/run.h"
#include "health/collectives.h"
#include "health/median.h"

namespace mbench::health {
namespace {

constexpr double kSettling = 1;  // seconds of products until power and clock of a GPU are those of a long run

// What a rank tells the others of a figure.
struct Told {
  double value = 0, seconds = 0;
  std::int64_t wrong = 0;
};

class Ranks {
 public:
  Ranks(Device& device, comm::Group& all, double seconds) : device_(device), all_(all), seconds_(seconds) {}

  // The median of a call's seconds, of at least 5 samples.
  double seconds_of(int calls, const std::function<void()>& call) {
    call();  // touches the memory, starts the threads
    device_.synchronize();
    all_.barrier();
    std::vector<double> samples;
    const double begin = device_.synchronize();
    double now = begin;
    do {
      for (int i = 0; i < calls; ++i) call();
      const double after = device_.synchronize();
      samples.push_back((after - now) / calls);
      now = after;
    } while (samples.size() < 5 || now - begin < seconds_);
    return median(std::move(samples));
  }

  Figure figure(const std::string& what, const std::string& unit, bool rate, const Told& mine) {
    Figure f;
    f.what = what, f.scope = "rank", f.unit = unit, f.rate = rate;
    int rank = 0;
    for (const Told& reported : comm::gather_all(all_, mine))
      f.of.push_back({{rank++}, reported.value, reported.seconds, reported.wrong});
    return f;
  }

  Figure gemm(DType dtype) {
    // Large enough that packing, threads and waves cost little.
    const std::int64_t n = device_.immediate() ? 1024 : 8192;
    const Tensor a = drawn({n, n}, dtype, 1), b = drawn({n, n}, dtype, 2), c = filled({n, n}, dtype, 0);
    const ops::Matmul gemm{ops::Matrix(a), ops::Matrix(b), ops::Matrix(c)};
    if (!device_.immediate())
      for (const double begin = device_.synchronize(); device_.synchronize() - begin < kSettling;) run(device_, gemm);
    const double seconds = seconds_of(1, [&] { run(device_, gemm); });
    for (const Tensor& operand : {a, b}) run(device_, ops::Fill{operand, 0.5f});  // of these the result is known
    run(device_, gemm);
    return figure(fmt::format("{} GEMM", name_of(dtype)), "TFLOP/s", true,
                  {gemm.cost().flops / seconds * 1e-12, seconds, wrong_of(c, 0.25f * static_cast<float>(n))});
  }

  // GPUs whose FP64 units are few take a long time for more.
  Figure fp64_gemm(const MakeFp64Gemm& make) {
    const std::int64_t n = device_.immediate() ? 1024 : 4096;
    const Fp64Gemm gemm = make(n, 0.5);
    const double seconds = seconds_of(1, gemm.run), size = static_cast<double>(n);
    const std::vector<double> c = gemm.result();
    const auto right = std::count(c.begin(), c.end(), 0.25 * size);
    return figure("f64 GEMM", "TFLOP/s", true,
                  {2 * size * size * size / seconds * 1e-12, seconds, static_cast<std::int64_t>(c.size()) - right});
  }

  Figure memory() {
    const Shape shape{device_.immediate() ? std::int64_t{16} << 20 : std::int64_t{64} << 20};
    const Tensor a = filled(shape, DType::f32, 1), b = filled(shape, DType::f32, 2), c = filled(shape, DType::f32, 0);
    const ops::Add sum{a, b, c};
    const double seconds = seconds_of(1, [&] { run(device_, sum); });
    return figure("memory", "GB/s", true, {sum.cost().bytes / seconds * 1e-9, seconds, wrong_of(c, 3)});
  }

  Figure launch() {
    const Tensor a = filled({4096}, DType::f32, 0);
    const double seconds = seconds_of(200, [&] { run(device_, ops::Add{a, a, a}); });
    return figure("launch", "us", false, {seconds * 1e6, seconds, 0});
  }

 private:
  // Of normal draws: operands that are all alike take less power, and are clocked higher, than those of training.
  Tensor drawn(const Shape& shape, DType dtype, std::uint64_t seed) {
    const Tensor t = device_.empty(shape, DType::f32, Category::workspace, "check");
    run(device_, ops::RandomNormal{t, 1, {seed, 0, 0}, shape.cols()});
    if (dtype == DType::f32) return t;
    const Tensor narrow = device_.empty(shape, dtype, Category::workspace, "check");
    run(device_, ops::Copy{t, narrow});
    return narrow;
  }
  Tensor filled(const Shape& shape, DType dtype, float value) {
    const Tensor t = device_.empty(shape, dtype, Category::workspace, "check");
    run(device_, ops::Fill{t, value});
    return t;
  }
  // Exact in every precision: a power of two, or a small integer.
  std::int64_t wrong_of(const Tensor& x, float want) {
    constexpr std::int64_t kPiece = 1 << 22;
    const Tensor flat = x.view({x.numel()});
    const Tensor piece = device_.empty({std::min(kPiece, x.numel())}, DType::f32, Category::workspace, "check");
    std::vector<float> values(static_cast<std::size_t>(piece.numel()));
    std::int64_t wrong = 0;
    for (std::int64_t at = 0; at < x.numel(); at += piece.numel()) {
      const std::int64_t count = std::min(piece.numel(), x.numel() - at);
      const Tensor to = piece.slice(0, count);
      run(device_, ops::Copy{flat.slice(at, count), to});
      const std::span<float> part = std::span(values).first(static_cast<std::size_t>(count));
      device_.read(to, std::as_writable_bytes(part));
      wrong += count - std::count(part.begin(), part.end(), want);
    }
    return wrong;
  }

  Device& device_;
  comm::Group& all_;
  double seconds_;
};

// A collective in this rank's group while the others do it in theirs; `mine` is null on a rank that is in none.
Told timed(const Collective& collective, std::int64_t bytes, Device& device, comm::Group& all, comm::Group* mine) {
  constexpr int kSamples = 7;
  constexpr double kSample = 2e-3;  // seconds at least, by calls one after the other
  constexpr int kMostCalls = 50;
  Told reported;
  std::vector<double> samples;
  Buffers buffers;
  int calls = 1;
  if (mine) {
    buffers = make_buffers(device, bytes / 4, DType::f32, mine->size());
    reported.wrong = wrong_elements(collective, *mine, device, buffers);
  }
  const auto sample = [&] {
    all.barrier();
    if (!mine) return 0.0;
    const double begin = device.synchronize();
    for (int i = 0; i < calls; ++i) mine->run(collective.call(buffers));
    return mine->host_max(device.synchronize() - begin) / calls;
  };
  const auto clear = [&] {  // sums of sums would overflow
    if (mine) run(device, ops::Fill{buffers.whole, 0.0f}), run(device, ops::Fill{buffers.part, 0.0f});
  };
  clear();
  const double first = sample();
  if (mine) calls = std::clamp(static_cast<int>(kSample / std::max(first, 1e-9)), 1, kMostCalls);
  for (int i = 0; i < kSamples; ++i) samples.push_back(sample());
  if (!mine) return reported;
  reported.wrong += wrong_elements(collective, *mine, device, buffers);
  reported.seconds = median(std::move(samples));
  reported.value = collective.factor(mine->size()) * static_cast<double>(bytes) / reported.seconds * 1e-9;
  return reported;
}

// The multiple of each group's size that f32 elements of about so many bytes are.
std::int64_t fitting(std::int64_t bytes, const Scope& scope) {
  std::int64_t unit = 1;
  for (const auto& group : scope.groups) unit = std::lcm(unit, static_cast<std::int64_t>(group.size()));
  return 4 * unit * std::max<std::int64_t>(1, bytes / 4 / unit);
}

}  // namespace

std::vector<Scope> scopes_of(int ranks, const std::vector<Mesh>& meshes) {
  std::vector<Scope> scopes;
  std::set<std::vector<std::vector<int>>> known;
  const auto add = [&](const std::string& name, std::vector<std::vector<int>> groups) {
    std::erase_if(groups, [](const auto& g) { return g.size() < 2; });
    if (!groups.empty() && known.insert(groups).second) scopes.push_back({name, std::move(groups)});
  };
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  add("all", {all});
  for (const int first : {0, 1}) {
    std::vector<std::vector<int>> pairs;
    for (int r = first; r + 1 < ranks; r += 2) pairs.push_back({r, r + 1});
    add(first == 0 ? "pairs" : "pairs from 1", std::move(pairs));
  }
  for (const Mesh& mesh : meshes) {
    if (mesh.world() > ranks) continue;
    for (const Axes axes : {Axes{Axis::tp}, Axes{Axis::cp}, Axes{Axis::dp}, Axes{Axis::cp, Axis::dp}, Axes{Axis::pp},
                            Axes{Axis::dp_replicate}, Axes{Axis::etp}, Axes{Axis::ep}, Axes{Axis::edp}}) {
      // Where experts lie as everything else does, there are no groups of theirs.
      const bool of_experts = axes == Axes{Axis::etp} || axes == Axes{Axis::ep} || axes == Axes{Axis::edp};
      if (of_experts && mesh.size(Axis::etp) == 1 && mesh.size(Axis::ep) == 1) continue;
      std::vector<std::vector<int>> groups;
      for (int r = 0; r < mesh.world(); ++r)
        if (const std::vector<int> members = mesh.members(r, axes); members.front() == r) groups.push_back(members);
      add(fmt::format("{} {}", str(axes), mesh.size(axes)), std::move(groups));
    }
  }
  return scopes;
}

std::vector<std::int64_t> sizes_up_to(std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 4096; bytes < most; bytes *= 16) sizes.push_back(bytes);
  sizes.push_back(most);
  return sizes;
}

std::vector<Figure> measure(Device& device, comm::World& world, const std::vector<Scope>& scopes,
                            const MeasureOptions& options) {
  std::vector<int> everyone(static_cast<std::size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto all = world.group(device, "check", everyone);
  const auto tell = [&](const std::string& what) {
    if (world.rank() == 0 && options.progress) options.progress(what);
  };
  std::vector<Figure> figures;
  Ranks ranks(device, *all, options.seconds);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    tell(fmt::format("{} GEMMs", name_of(dtype)));
    figures.push_back(ranks.gemm(dtype));
  }
  if (options.fp64_gemm) {
    tell("f64 GEMMs");
    figures.push_back(ranks.fp64_gemm(options.fp64_gemm));
  }
  tell("memory");
  figures.push_back(ranks.memory());
  figures.push_back(ranks.launch());
  for (const Scope& scope : scopes) {
    std::vector<int> members;
    for (const auto& group : scope.groups)
      if (std::find(group.begin(), group.end(), world.rank()) != group.end()) members = group;
    const auto mine = world.group(device, "check " + scope.name, members);
    for (const Collective& collective : collectives()) {
      tell(fmt::format("{} over {}", collective.name, scope.name));
      for (const std::int64_t size : options.sizes) {
        Figure f;
        f.what = collective.name, f.scope = scope.name, f.unit = "GB/s", f.bytes = fitting(size, scope);
        f.judged = size == options.sizes.back();
        const std::vector<Told> reported = comm::gather_all(*all, timed(collective, f.bytes, device, *all, mine.get()));
        for (const auto& group : scope.groups) {
          const Told& first = reported[static_cast<std::size_t>(group.front())];
          RankFigure m{group, first.value, first.seconds, 0};
          for (const int rank : group) m.wrong += reported[static_cast<std::size_t>(rank)].wrong;
          f.of.push_back(std::move(m));
        }
        figures.push_back(std::move(f));
      }
    }
  }
  return figures;
}

}  // namespace mbench::health
