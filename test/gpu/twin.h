// The same work on the CPU and on the GPU, on equal tensors that are drawn once for each. All of them are compared afterwards, also
// those that the work must not change.
#pragma once
#include <cmath>
#include <functional>
#include <string>

#include "engine/platform/registry.h"
#include "test/catch.h"
#include "test/ops/cases.h"

namespace mbench::test {

// Relative to a value and to the size of its tensor; words and masks must be the same.
inline double gpu_tolerance(DType t) {
  switch (t) {
    case DType::f32:
      return 5e-5;
    case DType::bf16:
      return 2e-2;
    case DType::f16:
      return 3e-3;
    default:
      return 0;
  }
}

// `looser` widens the tolerance.
inline void expect_same(const Tensors& got, const Tensors& want, double looser = 1) {
  REQUIRE(got.size() == want.size());
  DType narrowest = DType::f32;  // the coarsest type that values are rounded to before an f32 result
  for (std::size_t i = 0; i < want.size(); ++i)
    if (gpu_tolerance(want[i].dtype()) > gpu_tolerance(narrowest)) narrowest = want[i].dtype();
  CHECK(got.trespass() == "");
  for (const std::size_t i : want.results()) {
    INFO("tensor " << i);
    const Values values = want.now(i);
    double squares = 0, finite = 0;
    for (const double x : values)
      if (std::isfinite(x)) squares += x * x, ++finite;
    const double relative = is_float(want[i].dtype()) ? looser * gpu_tolerance(narrowest) : 0;
    const double size = finite > 0 ? std::sqrt(squares / finite) : 0;
    CHECK(difference(got.now(i), values, relative, relative * size) == "");
  }
}

// `work` makes its tensors and runs its ops on the device it is given.
using Work = std::function<void(Tensors&, Device&)>;

class Twin {
 public:
  Twin() : cpu_(platform::open_device("cpu", 0)), gpu_(platform::open_device("cuda", 0)) {}

  Device& gpu() { return *gpu_; }
  void compare(const std::string& label, const Work& work, double looser = 1, const Tensors::Placing& placing = {}) {
    INFO(label << ", " << placing.shift << " elements in, result " << placing.variant);
    Tensors want(*cpu_, placing), got(*gpu_, placing);
    work(want, *cpu_);
    work(got, *gpu_);
    expect_same(got, want, looser);
  }
  // Wherever its tensors start, and over its operands.
  void compare(const Case& c) {
    for (const std::int64_t shift : {0, 1, 8}) {
      if (shift != 0 && !c.within.anywhere) continue;
      for (int call = 0; call < (shift == 0 ? c.within.calls : 1); ++call) {
        int variants = 1;
        for (int variant = 0; variant < variants; ++variant)
          compare(c.name,
                  [&](Tensors& t, Device& device) {
                    c.make(t)->run(device);
                    variants = shift == 0 ? t.variants() : 1;
                  },
                  c.within.gpu, {shift, variant});
      }
    }
  }

 private:
  std::unique_ptr<Device> cpu_, gpu_;
};

}  // namespace mbench::test
