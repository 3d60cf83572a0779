#include "engine/backend/cpu/bf16_products.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

namespace mbench::cpu {
namespace {

using ops::Matmul;
using ops::Matrix;
using Type = dnnl::memory::data_type;

// All that a primitive is made for. Primitives are code: to make one takes about a millisecond, to find it a microsecond.
using Key = std::array<std::int64_t, 14>;

// A matrix that is stored whole or transposed; oneDNN reads both, and every leading dim.
dnnl::memory::desc describe(const Matrix& x, std::int64_t batch, Type type) {
  const std::int64_t row = x.transposed ? 1 : x.ld, col = x.transposed ? x.ld : 1;
  if (batch == 1) return {{x.rows, x.cols}, type, {row, col}};
  return {{batch, x.rows, x.cols}, type, {x.batch_stride, row, col}};
}

Type type_of(const Tensor& t) {
  return t.dtype() == DType::f32 ? Type::f32 : Type::bf16;
}

Key key_of(const Matmul& op) {
  const bool many = op.batch > 1;
  const std::int64_t forms = (op.a.transposed ? 1 : 0) | (op.b.transposed ? 2 : 0) | (op.bias ? 4 : 0) |
                             (op.c.data.dtype() == DType::f32 ? 8 : 0);
  // A primitive is cut for the threads that there are as it is made.
  return {op.c.rows,
          op.c.cols,
          op.a.cols,
          op.batch,
          op.a.ld,
          op.b.ld,
          op.c.ld,
          many ? op.a.batch_stride : 0,
          many ? op.b.batch_stride : 0,
          many ? op.c.batch_stride : 0,
          forms,
          std::bit_cast<std::int32_t>(op.alpha),
          std::bit_cast<std::int32_t>(op.beta),
          omp_get_max_threads()};
}

struct Product {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, bias, scratch;
  std::unordered_map<int, dnnl::memory> arguments;  // those above
  std::size_t scratch_bytes = 0;
  std::uint64_t last_used = 0;
  explicit operator bool() const { return static_cast<bool>(primitive); }
};

class OneDnn final : public Bf16Products {
 public:
  bool multiply(const Matmul& op, Scratch& scratch) override {
    if (op.a.data.dtype() != DType::bf16 || op.b.data.dtype() != DType::bf16) return false;
    if (op.c.data.dtype() == DType::f16 || op.gelu_input || op.gelu_grad_input || op.bias_gradient) return false;
    if (op.c.rows == 0 || op.c.cols == 0 || op.a.cols == 0 || op.batch == 0) return false;
    Product& p = product_for(op);
    if (!p) return false;
    const auto at = [&](dnnl::memory& memory, const Tensor& t, std::int64_t offset) {
      memory.set_data_handle(t.data() + static_cast<std::size_t>(offset) * size_of(t.dtype()), stream_);
    };
    at(p.a, op.a.data, op.a.offset);
    at(p.b, op.b.data, op.b.offset);
    at(p.c, op.c.data, op.c.offset);
    if (op.bias) at(p.bias, op.bias, 0);
    if (p.scratch_bytes > 0) p.scratch.set_data_handle(scratch.bytes(p.scratch_bytes), stream_);
    p.primitive.execute(stream_, p.arguments);
    stream_.wait();
    return true;
  }

 private:
  static constexpr std::size_t kMost = 1024;

  Product& product_for(const Matmul& op) {
    const Key key = key_of(op);
    auto found = products_.find(key);
    if (found == products_.end()) {
      if (products_.size() >= kMost)
        products_.erase(std::min_element(products_.begin(), products_.end(), [](const auto& x, const auto& y) {
          return x.second.last_used < y.second.last_used;
        }));
      found = products_.emplace(key, make(op)).first;
    }
    found->second.last_used = ++uses_;
    return found->second;
  }

  // Empty where oneDNN has only its reference for it, which is slower than widening.
  Product make(const Matmul& op) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (op.alpha != 1) attributes.set_output_scales(0, {op.alpha});
    if (op.beta != 0) {
      dnnl::post_ops add;
      add.append_sum(op.beta);
      attributes.set_post_ops(add);
    }
    const auto a = describe(op.a, op.batch, Type::bf16), b = describe(op.b, op.batch, Type::bf16),
               c = describe(op.c, op.batch, type_of(op.c.data));
    const dnnl::memory::desc bias =
        op.bias ? dnnl::memory::desc({1, op.c.cols}, type_of(op.bias), dnnl::memory::format_tag::ab)
                : dnnl::memory::desc();
    const auto shape = op.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc best(shape, attributes, engine_, /*allow_empty=*/true);
    if (!best || std::string_view(best.impl_info_str()).starts_with("ref")) return {};
    Product p;
    p.primitive = dnnl::matmul(best);
    const auto place = [&](const dnnl::memory::desc& d) { return dnnl::memory(d, engine_, DNNL_MEMORY_NONE); };
    p.a = place(a), p.b = place(b), p.c = place(c);
    p.arguments = {{DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, p.b}, {DNNL_ARG_DST, p.c}};
    if (op.bias) p.arguments[DNNL_ARG_BIAS] = p.bias = place(bias);
    p.scratch_bytes = best.scratchpad_desc().get_size();
    if (p.scratch_bytes > 0) p.arguments[DNNL_ARG_SCRATCHPAD] = p.scratch = place(best.scratchpad_desc());
    return p;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Product> products_;
  std::uint64_t uses_ = 0;
};

// Whether oneDNN would use at least these instructions here: the sets of its list hold those of the ones before.
bool has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

std::unique_ptr<Bf16Products> open_bf16_products() {
  if (bf16_instructions().empty()) return nullptr;
  return std::make_unique<OneDnn>();
}

std::string bf16_instructions() {
  if (has(dnnl::cpu_isa::avx512_core_amx)) return "AMX";
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return "AVX512_BF16";
  return "";
}

std::string onednn_library() {
  const dnnl::version_t* v = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace mbench::cpu
