// cuBLASLt: descriptors, a heuristic that returns several algorithms, products. What NVIDIA's documentation
// asks of the arguments is refused where it is not so; an algorithm serves the problem that it was found for.
#include <cublasLt.h>

#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>

#include "test/fake_cuda/gemm.h"
#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

constexpr std::uint64_t kMagic = 0x9a9e7;

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t align_a = 256, align_b = 256, align_c = 256, align_d = 256;
};

struct Algorithm {
  std::uint64_t magic = 0;
  Order order;
  std::uint32_t alignment = 0;  // bytes that every address must be a multiple of
  std::uint64_t kind = 0;       // of problems that it can serve where a check of theirs says so
  std::uint64_t problem = 0;    // that it was found for
};

template <class Value, class Opaque>
Value& inside(Opaque* opaque) {
  static_assert(sizeof(Value) <= sizeof(Opaque) && std::is_trivially_copyable_v<Value>);
  return *reinterpret_cast<Value*>(opaque->data);
}

template <class Opaque, class Value>
cublasStatus_t create(Opaque** to, const Value& value) {
  *to = new Opaque{};
  std::memcpy((*to)->data, &value, sizeof value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t set(T& field, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t no(cublasStatus_t code, std::string_view why) {
  complain("cublasLtMatmul", why);
  return code;
}

bool is_float(cudaDataType_t t) {
  return t == CUDA_R_64F || t == CUDA_R_32F || t == CUDA_R_16BF || t == CUDA_R_16F;
}

std::uint64_t hash(std::initializer_list<std::uint64_t> words) {
  std::uint64_t h = 14695981039346656037u;
  for (const std::uint64_t w : words) h = (h ^ w) * 1099511628211u;
  return h;
}

// What an algorithm may depend on: types and operations, and sizes.
std::uint64_t kind_of(const Gemm& p) {
  const Description& e = p.description;
  std::uint64_t h = hash({e.compute, e.op_a, e.op_b, e.epilogue});
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d}) h = hash({h, l->type, static_cast<std::uint64_t>(l->batch)});
  return h;
}
std::uint64_t problem_of(const Gemm& p) {
  std::uint64_t h = hash({kind_of(p), p.m(), p.n(), p.k()});
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d}) h = hash({h, l->rows, l->cols, static_cast<std::uint64_t>(l->ld)});
  return h;
}

// Algorithms and the problems that a check has found them fit for beside the one that they were found for.
struct Checked {
  std::mutex mutex;
  std::set<std::pair<std::uint64_t, std::uint64_t>> pairs;  // kind of algorithm, problem
};
Checked& checked() {
  static Checked& all = *new Checked;
  return all;
}
std::uint64_t name_of(const Algorithm& a) {
  return hash({a.kind, static_cast<std::uint64_t>(a.order.slices), a.order.chunk, a.alignment});
}

// Of sums of parts of k, which are added in f32.
std::uint64_t workspace_of(const Order& order, const Gemm& p) {
  if (order.slices == 1) return 0;
  return static_cast<std::uint64_t>(order.slices) * sizeof(float) * p.m() * p.n() *
         static_cast<std::uint64_t>(p.d.batch);
}
constexpr std::uint64_t kLeastSplit = 64;  // terms

bool known_epilogue(std::uint32_t e) {
  switch (e) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}

bool takes_bias(std::uint32_t e) {
  return e != CUBLASLT_EPILOGUE_DEFAULT && (e & (CUBLASLT_EPILOGUE_BIAS | 16 | 256 | 512)) != 0;
}

cublasStatus_t check_epilogue(const Gemm& p) {
  const Description& e = p.description;
  if (!known_epilogue(e.epilogue)) return no(CUBLAS_STATUS_NOT_SUPPORTED, "this epilogue is not emulated");
  if (takes_bias(e.epilogue)) {
    if (e.bias_type != -1 && e.bias_type != static_cast<std::int32_t>(p.d.type))
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "bias of another type than D");
    const auto length = static_cast<std::size_t>(e.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n() : p.m());
    if (e.bias == nullptr || Memory::get().kind_of(e.bias, length * size_of(p.d.type)) != Kind::device)
      return no(CUBLAS_STATUS_INVALID_VALUE, "bias is not memory of the GPU, of its whole length");
    if (p.d.batch > 1 && e.bias_stride != 0 && e.bias_stride < static_cast<std::int64_t>(length))
      return no(CUBLAS_STATUS_INVALID_VALUE, "biases of a batch overlap");
    if (reinterpret_cast<std::uintptr_t>(e.bias) % size_of(p.d.type) != 0)
      return no(CUBLAS_STATUS_INVALID_VALUE, "bias is not aligned");
  }
  if ((e.epilogue & 128) != 0) {
    if (e.aux_type != -1 && e.aux_type != static_cast<std::int32_t>(p.d.type))
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "auxiliary matrix of another type than D");
    if (e.aux_ld % 8 != 0 || e.aux_ld < static_cast<std::int64_t>(p.m()))
      return no(CUBLAS_STATUS_INVALID_VALUE,
                "leading dimension of the auxiliary matrix: no multiple of 8, or too small");
    if (e.aux_stride % 8 != 0 || (p.d.batch > 1 && e.aux_stride == 0))
      return no(CUBLAS_STATUS_INVALID_VALUE, "batch stride of the auxiliary matrix");
    const std::size_t elements =
        static_cast<std::size_t>((p.d.batch - 1) * e.aux_stride + (static_cast<std::int64_t>(p.n()) - 1) * e.aux_ld) +
        p.m();
    if (e.aux == nullptr || Memory::get().kind_of(e.aux, elements * size_of(p.d.type)) != Kind::device)
      return no(CUBLAS_STATUS_INVALID_VALUE, "auxiliary matrix is not memory of the GPU, all of it");
    if (reinterpret_cast<std::uintptr_t>(e.aux) % 16 != 0)
      return no(CUBLAS_STATUS_INVALID_VALUE, "auxiliary matrix is not aligned to 16 bytes");
  }
  return CUBLAS_STATUS_SUCCESS;
}

// What cuBLASLt asks of FP8 products: the first operand transposed and the second not (Blackwell takes any where each has one scale), dims
// and addresses of whole 16 bytes, scales of both on the device at such addresses, a result wider than 8 bits, one e5m2 at most, and no mixture of one scale and blocks.
cublasStatus_t check_fp8(const Gemm& p) {
  const Description& e = p.description;
  const int capability = settings().capability;
  const bool any_layout = e.mode_a == 0 && e.mode_b == 0 && capability >= 100 && capability < 120;
  if (!any_layout && (e.op_a != CUBLAS_OP_T || e.op_b != CUBLAS_OP_N))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "FP8 operands that are not transposed and plain");
  if (p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2)
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "two operands of e5m2");
  if (!is_fp8(p.b.type) || is_fp8(p.d.type) || p.c.type != p.d.type)
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "combination of types with FP8");
  for (const Layout* l : {&p.a, &p.b, &p.d})
    if (l->rows % 16 != 0 || l->cols % 16 != 0 || l->ld % 16 != 0)
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "dims of an FP8 product: no multiples of 16");
  if (e.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return no(CUBLAS_STATUS_NOT_SUPPORTED, "epilogue of an FP8 product");
  const auto blocks = [](std::int32_t mode) { return mode == 4 || mode == 5; };
  const auto emulated = [&](std::int32_t mode) { return mode == 0 || mode == 3 || blocks(mode); };
  if (!emulated(e.mode_a) || !emulated(e.mode_b))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "this mode of scales is not emulated");
  if ((e.mode_a != 0 || e.mode_b != 0) && settings().capability != 90)
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "scales of rows or blocks on this GPU");
  if (blocks(e.mode_a) != blocks(e.mode_b) || (!blocks(e.mode_a) && e.mode_a != e.mode_b) ||
      (e.mode_a == 5 && e.mode_b == 5))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "combination of modes of scales");
  const auto there = [](const void* scales, std::int32_t mode, const Layout& l) {
    const std::size_t k = (l.rows + 127) / 128, outer = (l.cols + 127) / 128;
    const std::size_t count = mode == 3 ? l.cols : mode == 4 ? k * l.cols : mode == 5 ? outer * ((k + 3) / 4 * 4) : 1;
    return scales != nullptr && Memory::get().kind_of(scales, count * sizeof(float)) == Kind::device;
  };
  const auto aligned = [](const void* scales) { return reinterpret_cast<std::uintptr_t>(scales) % 16 == 0; };
  if (!aligned(e.scale_a) || !aligned(e.scale_b))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "addresses of scales: no multiples of 16");
  if (!there(e.scale_a, e.mode_a, p.a) || !there(e.scale_b, e.mode_b, p.b))
    return no(CUBLAS_STATUS_INVALID_VALUE, "scales are not memory of the GPU, all of them");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_problem(const Gemm& p) {
  const Description& e = p.description;
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d}) {
    if (!is_float(l->type) && !is_fp8(l->type)) return no(CUBLAS_STATUS_NOT_SUPPORTED, "type of a matrix");
    if (l->rows == 0 || l->cols == 0) return no(CUBLAS_STATUS_INVALID_VALUE, "a matrix without elements");
    if (l->ld < static_cast<std::int64_t>(l->rows))
      return no(CUBLAS_STATUS_INVALID_VALUE, "leading dimension below the rows");
    if (l->batch != p.d.batch) return no(CUBLAS_STATUS_INVALID_VALUE, "batch counts differ");
  }
  const bool f64 = e.compute == CUBLAS_COMPUTE_64F;
  if (f64 != (e.scale == CUDA_R_64F) || f64 != (p.a.type == CUDA_R_64F) || f64 != (p.d.type == CUDA_R_64F))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "FP64 of some types and not of others");
  if (!f64 && (e.scale != CUDA_R_32F || (e.compute != CUBLAS_COMPUTE_32F && e.compute != CUBLAS_COMPUTE_32F_FAST_TF32)))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "compute or scale type");
  if (e.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type != CUDA_R_32F)
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "TF32 of operands that are not f32");
  if (is_fp8(p.a.type) || is_fp8(p.b.type)) {
    if (!is_fp8(p.a.type)) return no(CUBLAS_STATUS_NOT_SUPPORTED, "combination of types with FP8");
    if (const cublasStatus_t status = check_fp8(p); status != CUBLAS_STATUS_SUCCESS) return status;
  } else if (p.a.type != p.b.type || p.c.type != p.d.type || (p.d.type != p.a.type && p.d.type != CUDA_R_32F))
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "combination of types");
  const bool ta = e.op_a == CUBLAS_OP_T, tb = e.op_b == CUBLAS_OP_T;
  const std::uint64_t m = ta ? p.a.cols : p.a.rows, k = ta ? p.a.rows : p.a.cols;
  const std::uint64_t k_of_b = tb ? p.b.cols : p.b.rows, n = tb ? p.b.rows : p.b.cols;
  if (m != p.d.rows || n != p.d.cols || k != k_of_b || p.c.rows != p.d.rows || p.c.cols != p.d.cols)
    return no(CUBLAS_STATUS_INVALID_VALUE, "shapes do not fit each other");
  return check_epilogue(p);
}

Gemm problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
             cublasLtMatrixLayout_t d) {
  Gemm p;
  p.description = inside<Description>(desc);
  p.a = inside<Layout>(a), p.b = inside<Layout>(b), p.c = inside<Layout>(c), p.d = inside<Layout>(d);
  return p;
}

// Whether vectors of 16 bytes fit every column and every matrix of a batch.
bool wide(const Layout& l) {
  const auto bytes = static_cast<std::int64_t>(size_of(l.type));
  return l.ld * bytes % 16 == 0 && l.stride * bytes % 16 == 0;
}

bool aligned(const void* at, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(at) % to == 0;
}

bool all_there(const void* at, const Layout& l) {
  const std::int64_t elements =
      (l.batch - 1) * l.stride + (static_cast<std::int64_t>(l.cols) - 1) * l.ld + static_cast<std::int64_t>(l.rows);
  return Memory::get().kind_of(at, static_cast<std::size_t>(elements) * size_of(l.type)) == Kind::device;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

struct cublasLtContext {
  int device;
};

extern "C" {

size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_ of another kind";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = Alive<cublasLtContext>::get().add(new cublasLtContext{current_device()});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return Alive<cublasLtContext>::get().end(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  return create(layout, Layout{type, rows, cols, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, size_t bytes) {
  auto& l = inside<Layout>(layout);
  switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(l.batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(l.stride, value, bytes);
    default:
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "this attribute of a layout is not emulated");
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  Description d;
  d.compute = compute, d.scale = scale;
  return create(desc, d);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                                              const void* value, size_t bytes) {
  auto& d = inside<Description>(desc);
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(d.op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(d.op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return set(d.scale_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return set(d.scale_b, value, bytes);
#if CUBLAS_VERSION >= 120900
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return set(d.mode_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return set(d.mode_b, value, bytes);
#endif
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return set(d.fast, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(d.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(d.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return set(d.bias_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(d.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(d.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(d.aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return set(d.aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return set(d.aux_type, value, bytes);
    default:
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "this attribute of a product is not emulated");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    size_t bytes) {
  auto& p = inside<Preference>(preference);
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(p.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(p.align_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(p.align_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(p.align_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(p.align_d, value, bytes);
    default:
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "this preference is not emulated");
  }
}

// Up to four: fast ones that need addresses fit for vectors, one that splits the sum over k, and a slow one
// that takes anything. They add in different orders, as real ones do.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  if (!Alive<cublasLtContext>::get().has(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const Gemm p = problem(desc, a, b, c, d);
  if (const cublasStatus_t bad = check_problem(p); bad != CUBLAS_STATUS_SUCCESS) return bad;
  const auto& pref = inside<Preference>(preference);
  const std::uint32_t least = std::min(std::min(pref.align_a, pref.align_b), std::min(pref.align_c, pref.align_d));
  const auto offer = [&](const Order& order, std::uint32_t alignment) {
    const std::uint64_t workspace = workspace_of(order, p);
    if (*found >= std::min(wanted, settings().algorithms) || workspace > pref.workspace || least < alignment) return;
    cublasLtMatmulHeuristicResult_t& r = results[(*found)++];
    r = {};
    const Algorithm algorithm{kMagic, order, alignment, kind_of(p), problem_of(p)};
    static_assert(sizeof algorithm <= sizeof r.algo.data);
    std::memcpy(r.algo.data, &algorithm, sizeof algorithm);
    r.workspaceSize = workspace;
    r.state = CUBLAS_STATUS_SUCCESS;
    r.wavesCount = 1;
  };
  if (wide(p.a) && wide(p.b) && wide(p.c) && wide(p.d)) {
    offer({1, 32}, 16);
    offer({1, 0}, 16);
  }
  const bool splits = (pref.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0 && p.k() >= kLeastSplit;
  if (splits) offer({4, 0}, 4);
  offer({1, 64}, 2);
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// Whether an algorithm that was found for another problem serves this one too.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  if (!Alive<cublasLtContext>::get().has(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Gemm p = problem(desc, a, b, c, d);
  if (const cublasStatus_t bad = check_problem(p); bad != CUBLAS_STATUS_SUCCESS) return bad;
  Algorithm algorithm;
  std::memcpy(&algorithm, algo->data, sizeof algorithm);
  if (algorithm.magic != kMagic || algorithm.kind != kind_of(p)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm.order.slices > 1 && p.k() < kLeastSplit) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (algorithm.alignment >= 16 && !(wide(p.a) && wide(p.b) && wide(p.c) && wide(p.d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = workspace_of(algorithm.order, p);
  result->wavesCount = 1;
  result->state = CUBLAS_STATUS_SUCCESS;
  const std::lock_guard lock(checked().mutex);
  checked().pairs.insert({name_of(algorithm), problem_of(p)});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* A,
                              cublasLtMatrixLayout_t a, const void* B, cublasLtMatrixLayout_t b, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (!Alive<cublasLtContext>::get().has(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto queue = queue_of(stream);
  if (!queue || Engine::get().fault() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  Gemm p = problem(desc, a, b, c, d);
  if (const cublasStatus_t bad = check_problem(p); bad != CUBLAS_STATUS_SUCCESS) return bad;
  p.A = A, p.B = B, p.C = C, p.D = D;
  if (p.description.scale == CUDA_R_64F) {
    p.alpha = static_cast<float>(*static_cast<const double*>(alpha));
    p.beta = static_cast<float>(*static_cast<const double*>(beta));
  } else {
    std::memcpy(&p.alpha, alpha, sizeof p.alpha);
    std::memcpy(&p.beta, beta, sizeof p.beta);
  }
  if (algo == nullptr)
    return no(CUBLAS_STATUS_NOT_SUPPORTED, "a search for the algorithm in every call is not emulated");
  Algorithm algorithm;
  std::memcpy(&algorithm, algo->data, sizeof algorithm);
  {
    const std::lock_guard lock(checked().mutex);
    if (algorithm.magic != kMagic ||
        (algorithm.problem != problem_of(p) && !checked().pairs.contains({name_of(algorithm), problem_of(p)})))
      return no(CUBLAS_STATUS_NOT_SUPPORTED,
                "the algorithm was found for another problem, and not checked for this one");
  }
  for (const void* at : {A, B, C, static_cast<const void*>(D)})
    if (!aligned(at, algorithm.alignment))
      return no(CUBLAS_STATUS_NOT_SUPPORTED, "a matrix is not aligned as the algorithm needs");
  const std::uint64_t used = workspace_of(algorithm.order, p);
  if (used > workspace_bytes) return no(CUBLAS_STATUS_INVALID_VALUE, "workspace too small for the algorithm");
  if (workspace_bytes > 0 &&
      (!aligned(workspace, 256) || Memory::get().kind_of(workspace, workspace_bytes) != Kind::device))
    return no(CUBLAS_STATUS_INVALID_VALUE, "workspace is not memory of the GPU, aligned to 256 bytes");
  if (!all_there(A, p.a) || !all_there(B, p.b) || !all_there(D, p.d) || (p.beta != 0 && !all_there(C, p.c)))
    return no(CUBLAS_STATUS_INVALID_VALUE, "a matrix goes beyond memory of the GPU");
  if (p.beta != 0 && C == D && (p.c.ld != p.d.ld || p.c.stride != p.d.stride))
    return no(CUBLAS_STATUS_INVALID_VALUE, "C and D are one memory in two layouts");
  p.order = algorithm.order;
  Engine::get().enqueue(queue, [p, workspace, used] {
    if (used > 0) std::memset(workspace, 0xFF, used);
    compute(p);
    return Step::done;
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
