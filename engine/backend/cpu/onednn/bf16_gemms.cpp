#include "engine/backend/cpu/bf16_gemms.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <utility>

namespace mbench::cpu {
namespace {

using Type = dnnl::memory::data_type;

// Whether oneDNN would use these instructions here.
bool has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

// oneDNN reads a matrix stored whole or transposed, with every leading dim.
dnnl::memory::desc describe(const Bf16Shape::Place& x, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                            Type type) {
  const std::int64_t row = x.transposed ? 1 : x.ld, col = x.transposed ? x.ld : 1;
  if (batch == 1) return {{rows, cols}, type, {row, col}};
  return {{batch, rows, cols}, type, {x.batch_stride, row, col}};
}

// oneDNN 3 changed what 2 had (Debian 12 has 2.6, Ubuntu 24.04 has 3.1).
#if DNNL_VERSION_MAJOR >= 3
void scale(float alpha, dnnl::primitive_attr&, dnnl::post_ops& after) {
  after.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
}
dnnl::matmul::primitive_desc implementation(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                            const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                                            const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
  return {engine, a, b, bias, c, attributes, /*allow_empty=*/true};
}
#else
void scale(float alpha, dnnl::primitive_attr& attributes, dnnl::post_ops&) {
  attributes.set_output_scales(0, {alpha});
}
dnnl::matmul::primitive_desc implementation(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                            const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                                            const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
  return {{a, b, bias, c}, attributes, engine, /*allow_empty=*/true};
}
#endif

class Gemm final : public Bf16Gemm {
 public:
  // Without code where oneDNN has only its reference.
  Gemm(const Bf16Shape& s, const dnnl::engine& engine, dnnl::stream& stream) : stream_(stream) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops after;
    if (s.alpha != 1) scale(s.alpha, attributes, after);
    if (s.beta != 0) after.append_sum(s.beta);
    attributes.set_post_ops(after);
    const Type out = s.to_f32 ? Type::f32 : Type::bf16;
    const auto a = describe(s.a, s.batch, s.m, s.k, Type::bf16), b = describe(s.b, s.batch, s.k, s.n, Type::bf16),
               c = describe(s.c, s.batch, s.m, s.n, out);
    dnnl::memory::dims row{1, s.n};
    if (s.batch > 1) row.insert(row.begin(), 1);
    const auto bias = s.bias ? dnnl::memory::desc(
                                   row, out, s.batch > 1 ? dnnl::memory::format_tag::abc : dnnl::memory::format_tag::ab)
                             : dnnl::memory::desc();
    const auto best = implementation(engine, a, b, bias, c, attributes);
    if (!best || std::string_view(best.impl_info_str()).starts_with("ref")) return;
    const auto place = [&](int argument, const dnnl::memory::desc& d) {
      const dnnl::memory memory(d, engine, DNNL_MEMORY_NONE);
      arguments_.emplace(argument, memory);
      return memory;
    };
    a_ = place(DNNL_ARG_SRC, a), b_ = place(DNNL_ARG_WEIGHTS, b), c_ = place(DNNL_ARG_DST, c);
    if (s.bias) bias_ = place(DNNL_ARG_BIAS, bias);
    scratch_bytes_ = best.scratchpad_desc().get_size();
    if (scratch_bytes_ > 0) scratch_ = place(DNNL_ARG_SCRATCHPAD, best.scratchpad_desc());
    primitive_ = dnnl::matmul(best);
  }
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void run(const void* a, const void* b, void* c, const void* bias, void* scratch) override {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    if (bias_) bias_.set_data_handle(const_cast<void*>(bias));
    if (scratch_) scratch_.set_data_handle(scratch);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::stream& stream_;
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, bias_, scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;  // those above, which share what they hold with these
  std::size_t scratch_bytes_ = 0;
};

class OneDnn final : public Bf16Gemms {
 public:
  bool matrix_units() const override { return has(dnnl::cpu_isa::avx512_core_amx); }
  Bf16Gemm* find(const Bf16Shape& shape) override {
    // A primitive is cut for the threads that there are as it is made.
    const Key key{shape, omp_get_max_threads()};
    auto found = gemms_.find(key);
    if (found == gemms_.end()) {
      if (gemms_.size() >= kMost) drop_oldest();
      found = gemms_.try_emplace(key, std::make_unique<Gemm>(shape, engine_, stream_)).first;
    }
    found->second.last_used = ++uses_;
    Gemm& gemm = *found->second.gemm;
    return gemm ? &gemm : nullptr;
  }

 private:
  using Key = std::pair<Bf16Shape, int>;
  struct Kept {
    explicit Kept(std::unique_ptr<Gemm> p) : gemm(std::move(p)) {}
    std::unique_ptr<Gemm> gemm;
    std::uint64_t last_used = 0;
  };
  // Each is some ten KiB of code, and takes a millisecond to make. Training steps of static shapes have a few dozen; learned
  // routing makes new ones all the time.
  static constexpr std::size_t kMost = 1024;

  void drop_oldest() {
    gemms_.erase(std::min_element(gemms_.begin(), gemms_.end(), [](const auto& x, const auto& y) {
      return x.second.last_used < y.second.last_used;
    }));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Kept> gemms_;
  std::uint64_t uses_ = 0;
};

}  // namespace

std::unique_ptr<Bf16Gemms> open_bf16_gemms() {
  if (bf16_instructions().empty()) return nullptr;
  return std::make_unique<OneDnn>();
}

std::string bf16_instructions() {
  if (has(dnnl::cpu_isa::avx512_core_amx)) return "AMX";
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return "AVX512_BF16";
  return "";
}

bool bf16_instructions_pay() {
  const std::string instructions = bf16_instructions();
#if defined(__x86_64__)
  if (instructions == "AVX512_BF16") return __builtin_cpu_is("amd") != 0;
#endif
  return !instructions.empty();
}

std::string onednn_library() {
  const dnnl::version_t* v = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace mbench::cpu
