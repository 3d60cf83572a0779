#include "cli/calibrate_tables.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "engine/base/json_reader.h"
#include "engine/ops/copy.h"
#include "engine/ops/matmul.h"
#include "engine/ops/run.h"
#include "engine/run/run_point.h"
#include "engine/sim/machine/machine.h"
#include "strategies/strategies.h"

namespace mbench::cli {
namespace {

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// A rank of a job as a world of its own: its groups have no other member.
class AloneWorld final : public comm::World {
 public:
  explicit AloneWorld(comm::World& job) : job_(job) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<comm::Group> group(Device& device, const comm::GroupName& name,
                                     const std::vector<int>& members) override {
    return job_.group(device, name, members.empty() ? members : std::vector<int>{job_.rank()});
  }

 private:
  comm::World& job_;
};

// Small models whose steps have every op that the families run, in sizes from within a core's cache to beyond it.
std::vector<Point> models(Precision precision, bool quick) {
  constexpr const char* kParts[] = {
      R"({"model": {"family": "gpt"}, "framework": "mbench", "dropout": 0.1})",
      R"({"model": {"family": "gpt"}, "framework": "megatron-2022", "dropout": 0.1})",
      R"({"model": {"family": "gpt"}, "framework": "mbench", "dropout": 0, "attention": "flash"})",
      R"({"model": {"family": "bert"}, "framework": "mbench", "dropout": 0.1})",
      R"({"model": {"family": "llama", "kv_heads": 2}, "framework": "mbench", "dropout": 0})",
      R"({"model": {"family": "llama", "kv_heads": 2}, "framework": "mbench", "dropout": 0, "attention": "flash"})",
      R"({"model": {"family": "mixtral", "kv_heads": 2, "experts": 4, "active_experts": 2}, "framework": "mbench", "dropout": 0})",
      R"({"model": {"family": "deepseek", "experts": 8, "active_experts": 2, "shared_experts": 1, "dense_layers": 1},
          "framework": "mbench", "dropout": 0})"};
  struct Size {
    std::int64_t hidden, seq, micro_batch, vocab;
  };
  const std::vector<Size> sizes =
      quick ? std::vector<Size>{{64, 64, 1, 256}, {192, 128, 2, 1024}}
            : std::vector<Size>{{64, 32, 1, 256}, {128, 64, 2, 512}, {256, 128, 2, 1024}, {384, 256, 2, 4096}};
  std::vector<Point> points;
  for (const char* part : kParts)
    for (const Size& s : sizes) {
      nlohmann::json j = nlohmann::json::parse(part);
      nlohmann::json& model = j["model"];
      const bool latent = model["family"] == "deepseek";
      const auto ffn = model["family"] == "gpt" || model["family"] == "bert" ? 4 * s.hidden : s.hidden * 11 / 4;
      model.update({{"layers", 2},
                    {"hidden", s.hidden},
                    {"heads", s.hidden >= 256 ? 8 : 4},
                    {"ffn", ffn},
                    {"vocab", s.vocab},
                    {"positions", s.seq}});
      if (latent)
        model.update({{"q_lora_rank", s.hidden / 2},
                      {"kv_lora_rank", s.hidden / 4},
                      {"qk_nope_head_dim", 16},
                      {"qk_rope_head_dim", 16},
                      {"v_head_dim", 16},
                      {"expert_ffn", s.hidden / 2}});
      j.update({{"seq", s.seq},
                {"micro_batch", s.micro_batch},
                {"global_batch", s.micro_batch * 2},
                {"warmup", 1},
                {"iterations", s.hidden < 256 ? 4 : 2},
                {"precision", name_of(precision)}});
      points.push_back(point_from_json(j, "calibration: $"));
    }
  return points;
}

// Times of one op by work, thinned to points at least a quarter apart.
sim::Curve curve_of(const std::map<double, std::vector<double>>& by_work) {
  sim::Curve c;
  for (auto at = by_work.begin(); at != by_work.end();) {
    double log_work = 0, log_seconds = 0, weight = 0;
    const double end = at->first * 1.25;
    for (; at != by_work.end() && at->first <= end; ++at) {
      const double w = static_cast<double>(at->second.size());
      log_work += w * std::log(at->first);
      log_seconds += w * std::log(std::max(1e-9, median(at->second)));
      weight += w;
    }
    const double seconds = std::exp(log_seconds / weight);
    c.work.push_back(std::exp(log_work / weight));
    c.seconds.push_back(seconds);
  }
  return c;
}

void measure_ops(platform::Job& job, Precision precision, bool quick, sim::RankTables& tables,
                 std::vector<double>& speeds) {
  const Framework framework = find_framework("mbench", "calibration");
  std::map<std::string, std::map<double, std::vector<double>>> ops;
  AloneWorld alone(job.world());
  for (const Point& point : models(precision, quick)) {
    const auto cpu = platform::open_device("cpu", 0, precision);
    const auto device = platform::open_timed_device(*cpu);
    const PointResult result = run_point(point, strategies::make_plan(point), *device, alone, {});
    std::map<std::string_view, std::map<double, std::vector<double>>> mine;
    for (const platform::TimedOp& op : device->log())
      if (op.work > 0 && op.name != ops::Matmul::name) mine[op.name][op.work].push_back(op.seconds);
    for (auto& [name, by_work] : mine)
      for (auto& [work, seconds] : by_work) ops[std::string(name)][work].push_back(median(seconds));
    // What the engine's own code took beside its ops.
    if (!result.time_anatomy_ms) continue;
    const double steps = static_cast<double>(point.warmup + point.iterations),
                 calls = static_cast<double>(device->log().size()) / steps,
                 said = framework.host.kernel * calls + framework.host.work[HostWork::micro_batch] * 2 +
                        framework.host.work[HostWork::step],
                 took = result.time_anatomy_ms->ms[static_cast<std::size_t>(TimePart::host)] * 1e-3;
    if (took > 0) speeds.push_back(said / took);
  }
  for (const auto& [name, by_work] : ops) tables.ops[{name, precision}] = curve_of(by_work);
}

// Rates of products whose weights, or their gradients, lie one after the other, as those of a model's layers do: what is in the
// core's own cache is what the step has just made.
void measure_gemms(Device& device, comm::Group& everyone, DType dtype, const std::vector<double>& sizes,
                   sim::RankTables& tables) {
  const auto largest = static_cast<std::int64_t>(sizes.back());
  const std::int64_t pool = std::max(largest * largest, std::int64_t{4} << 20);
  const auto filled = [&](std::int64_t n, DType type) {
    const Tensor t = device.empty({n}, type, Category::workspace, "calibration");
    run(device, ops::Fill{t, 0.01f});
    return t;
  };
  const Tensor left = filled(largest * largest, dtype), right = filled(pool, dtype),
               out = filled(largest * largest, dtype), gradients = filled(pool, DType::f32);
  for (const sim::GemmForm form : {sim::GemmForm::nn, sim::GemmForm::nt, sim::GemmForm::tn}) {
    sim::GemmGrid grid{sizes, sizes, sizes, {}};
    for (const double dm : sizes)
      for (const double dn : sizes)
        for (const double dk : sizes) {
          const auto m = static_cast<std::int64_t>(dm), n = static_cast<std::int64_t>(dn),
                     k = static_cast<std::int64_t>(dk);
          const bool weight_gradient = form == sim::GemmForm::tn;
          const auto place = [&](std::int64_t i, std::int64_t elements) { return i % (pool / elements) * elements; };
          const auto gemm = [&](std::int64_t i) {
            using ops::Matrix;
            if (weight_gradient)
              return ops::Matmul{Matrix(left, k, m, m).t(),
                                 Matrix(right, k, n, n),
                                 Matrix(gradients, m, n, n, place(i, m * n)),
                                 1,
                                 1,
                                 1};
            const Matrix b = form == sim::GemmForm::nt ? Matrix(right, n, k, k, place(i, n * k)).t()
                                                       : Matrix(right, k, n, n, place(i, n * k));
            return ops::Matmul{Matrix(left, m, k, k), b, Matrix(out, m, n, n)};
          };
          everyone.barrier();
          run(device, gemm(0));
          std::vector<double> seconds;
          double now = device.synchronize();
          const double begin = now;
          for (std::int64_t i = 1; i < 64 && (i <= 3 || now - begin < 1e-3); ++i) {
            run(device, gemm(i));
            const double after = device.synchronize();
            seconds.push_back(after - now);
            now = after;
          }
          grid.rate.push_back(2 * dm * dn * dk / median(seconds));
        }
    tables.gemms[{form, dtype}] = std::move(grid);
  }
}

// One call, begun by all members at once: what the slowest took, the median of several.
double call_seconds(Device& device, comm::Group& group, const std::function<void()>& call) {
  std::vector<double> seconds;
  double spent = 0;
  for (int i = 0; i < 40 && (i < 6 || spent < 0.01); ++i) {
    group.barrier();
    const double begin = device.synchronize();
    call();
    const double took = group.host_max(device.synchronize() - begin);
    if (i > 0) seconds.push_back(took), spent += took;
  }
  return median(seconds);
}

void measure_calls(comm::World& world, Device& device, comm::Group& group, bool quick,
                   std::vector<sim::CallCurve>& curves) {
  const int k = group.size();
  const double most = quick ? 1 << 20 : 16 << 20, factor = quick ? 4 : 2;
  for (const sim::Call call : sim::all_calls())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype != DType::f32 && !sim::adds_up(call)) continue;
      sim::CallCurve c{call, dtype, k, {}};
      for (double bytes = 1024; bytes <= most; bytes *= factor) {
        const auto rows = static_cast<std::int64_t>(bytes) / static_cast<std::int64_t>(size_of(dtype)) / k;
        const auto make = [&](std::int64_t n) {
          const Tensor t = device.empty({n}, dtype, Category::workspace, "calibration");
          run(device, ops::Fill{t, 0.0f});
          return t;
        };
        const Tensor whole = make(rows * k), other = make(rows * k), part = make(rows);
        const int next = group.rank() ^ 1;
        const std::function<void()> run_it = [&] {
          switch (call) {
            case sim::Call::all_reduce:
              return group.run(comm::AllReduce{whole});
            case sim::Call::start_all_reduce:
              return group.start(comm::AllReduce{whole})->wait();
            case sim::Call::all_gather:
              return group.run(comm::AllGather{part, whole});
            case sim::Call::reduce_scatter:
              return group.run(comm::ReduceScatter{whole, part});
            case sim::Call::all_to_all:
              return group.run(comm::AllToAll{whole, other});
            case sim::Call::start_all_to_all:
              return group.start(comm::AllToAll{whole, other})->wait();
            case sim::Call::broadcast:
              return group.run(comm::Broadcast{whole, 0});
            case sim::Call::reduce:
              return group.run(comm::Reduce{whole, 0});
            case sim::Call::shift:
              return group.start(comm::Shift{whole, other})->wait();
            case sim::Call::message:
              if (next >= k) return;
              if (group.rank() % 2 == 0) return group.start(comm::Send{whole, next, 0})->wait();
              return group.run(comm::Receive{other, next, 0});
          }
        };
        c.curve.work.push_back(static_cast<double>(whole.bytes()));
        c.curve.seconds.push_back(std::max(1e-9, call_seconds(device, group, run_it)));
      }
      curves.push_back(std::move(c));
    }
}

}  // namespace

MeasuredTables measure_tables(platform::Job& job, const TablesOptions& options) {
  comm::World& world = job.world();
  MeasuredTables out;
  sim::RankTables tables;
  tables.ranks = world.size();
  const bool cpu = options.device == "cpu";
  tables.threads = cpu ? omp_get_max_threads() : 1;
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<double> speeds;
  {
    const auto device = job.open_device(options.device, 0, Precision::f32);
    comm::World& devices = job.world_of(*device);
    const auto everyone = devices.group(*device, "calibration", all);
    const std::vector<double> sizes = cpu             ? options.quick ? std::vector<double>{16, 64, 256, 512}
                                                                      : std::vector<double>{16, 32, 64, 128, 256, 512, 1024}
                                                  : options.quick ? std::vector<double>{64, 512, 2048}
                                                      : std::vector<double>{64, 256, 512, 1024, 2048, 4096, 8192};
    for (const DType dtype : {DType::f32, DType::bf16}) measure_gemms(*device, *everyone, dtype, sizes, tables);
    // Groups of 2, 4 and so on: all ranks are in one, and all of them talk at once.
    for (int k = 2; k <= world.size(); k *= 2) {
      if (world.size() % k != 0) continue;
      std::vector<int> members;
      for (int r = 0; r < k; ++r) members.push_back(world.rank() / k * k + r);
      const auto group = devices.group(*device, fmt::format("calibration of {}", k), members);
      measure_calls(world, *device, *group, options.quick, out.measured.calls);
    }
  }
  if (cpu)
    for (const Precision precision : {Precision::f32, Precision::bf16})
      measure_ops(job, precision, options.quick, tables, speeds);
  out.measured.progress_in_calls = cpu;
  out.measured.by_ranks.push_back(std::move(tables));
  if (!speeds.empty()) out.host_speed = median(speeds);
  return out;
}

}  // namespace mbench::cli
