// The products of a mixture's experts against one product of the same FLOPs, of all their rows with one weight: forward, input
// gradient and weight gradient, f32, measured in turn. `equal` is the batched product of equal shares, `uneven` the products of
// experts whose rows follow the data (from half to one and a half times the mean). ratio is the quotient of the medians.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "engine/ops/copy.h"
#include "engine/ops/grouped_matmul.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"

namespace mbench {
namespace {

constexpr std::int64_t kExperts = 8, kIn = 1024, kOut = 2816;
constexpr int kRounds = 7;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

class Gemms {
 public:
  Gemms(Device& device, std::int64_t rows_each) : device_(device), rows_(rows_each) {
    x_ = make({kExperts * rows_, kIn});
    y_ = make({kExperts * rows_, kOut});
    w_ = make({kExperts, kOut, kIn});
    offsets_.push_back(0);
    for (std::int64_t e = 0; e < kExperts; ++e)
      offsets_.push_back(offsets_.back() + rows_ / 2 + rows_ * e / (kExperts - 1));
    offsets_.back() = kExperts * rows_;
  }
  double one() {
    const Tensor w = w_.slice(0, 1).view({kOut, kIn});
    return timed([&] {
      run(device_, ops::Matmul{ops::Matrix(x_), ops::Matrix(w).t(), ops::Matrix(y_)});
      run(device_, ops::Matmul{ops::Matrix(y_), ops::Matrix(w), ops::Matrix(x_)});
      run(device_, ops::Matmul{ops::Matrix(y_).t(), ops::Matrix(x_), ops::Matrix(w)});
    });
  }
  double equal() {
    const ops::Matrix x(x_, rows_, kIn, kIn, 0, rows_ * kIn), w(w_, kOut, kIn, kIn, 0, kOut * kIn),
        y(y_, rows_, kOut, kOut, 0, rows_ * kOut);
    return timed([&] {
      run(device_, ops::Matmul{x, w.t(), y, kExperts});
      run(device_, ops::Matmul{y, w, x, kExperts});
      run(device_, ops::Matmul{y.t(), x, w, kExperts});
    });
  }
  double uneven() {
    using Gemm = ops::GroupedMatmul::Gemm;
    return timed([&] {
      for (const Gemm p : {Gemm::forward, Gemm::input_gradient, Gemm::weight_gradient})
        run(device_, ops::GroupedMatmul{p, x_, w_, y_, offsets_});
    });
  }
  double flops() const { return 6.0 * static_cast<double>(kExperts * rows_ * kIn * kOut); }

 private:
  Tensor make(const Shape& shape) { return device_.empty(shape, DType::f32, Category::other, "bench"); }
  // Values are small again before each round, however many there are.
  template <class F>
  double timed(const F& f) {
    for (const Tensor& t : {x_, y_, w_}) run(device_, ops::Fill{t, 0.01f});
    const double start = now();
    f();
    return now() - start;
  }

  Device& device_;
  std::int64_t rows_;
  Tensor x_, y_, w_;
  std::vector<std::int64_t> offsets_;
};

void experts(benchmark::State& state) {
  const auto device = platform::open_device("cpu", 0);
  Gemms gemms(*device, state.range(0));
  for (auto _ : state) {
    std::vector<double> one, equal, uneven;
    for (int round = 0; round <= kRounds; ++round) {
      const double a = gemms.one(), b = gemms.equal(), c = gemms.uneven();
      if (round == 0) continue;  // warms up
      one.push_back(a), equal.push_back(b), uneven.push_back(c);
    }
    state.counters["gflops_of_one"] = gemms.flops() / median(one) * 1e-9;
    state.counters["ratio_equal"] = median(one) / median(equal);
    state.counters["ratio_uneven"] = median(one) / median(uneven);
  }
}
BENCHMARK(experts)->ArgName("rows")->Arg(32)->Arg(128)->Arg(512)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mbench
