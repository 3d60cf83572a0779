#include "engine/backend/cuda/attention/flash.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/backend/cuda/attention/cudnn_library.h"
#include "engine/backend/cuda/attention/flash_graph.h"
#include "engine/backend/cuda/attention/flash_padding.h"

namespace mbench::cuda {
namespace {

namespace fe = cudnn_frontend;

using Pointers = std::unordered_map<std::int64_t, void*>;

// With 9.15.0 and older the frontend puts lengths of its own behind the row sums, where keys are no multiple of 128.
constexpr std::size_t kCudnnSince = 91501;
// What cuDNN assumes of an address.
constexpr std::int64_t kAlignment = 16, kWorkspaceAlignment = 256;

void need_cudnn(std::string_view op) {
  if (!why_no_cudnn().empty())
    fail(ErrorKind::unsupported, op,
         "attention \"flash\" on a GPU needs cuDNN 9, got {}, need libcudnn.so.9 where the loader looks "
         "(LD_LIBRARY_PATH) or attention \"core\"",
         why_no_cudnn());
  if (cudnnGetVersion() < kCudnnSince)
    fail(ErrorKind::unsupported, op,
         "attention \"flash\" on a GPU needs cuDNN 9.15.1 or newer, got {}, before which the frontend lays a workspace "
         "out in "
         "another way, need a newer libcudnn.so.9 or attention \"core\"",
         cudnn_library());
}

void need_success(std::string_view op, const char* call, cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail(ErrorKind::internal, op, "{} failed, got {}", call, cudnnGetErrorString(status));
}

// Of the samples from `sample` on, the heads from `head` on.
struct Piece {
  std::int64_t sample = 0, head = 0, samples = 0, heads = 0;
};

// All of a shape, as much at a time as it says.
template <class F>
void for_pieces(const FlashShape& s, const F& f) {
  const ops::AttentionPieces each = s.pieces();
  for (std::int64_t b = 0; b < s.batch; b += each.samples)
    for (std::int64_t a = 0; a < s.heads; a += each.heads)
      f(Piece{b, a, std::min(each.samples, s.batch - b), std::min(each.heads, s.heads - a)});
}

// Where a piece of a matrix begins. Where heads share keys a piece has all heads: its first is 0.
void* address_of(std::string_view op, const ops::Matrix& m, const FlashView& view, const Piece& piece) {
  const std::int64_t first = m.offset + piece.sample * view.sample + piece.head * view.head;
  std::byte* at = m.data.data() + first * static_cast<std::int64_t>(size_of(m.data.dtype()));
  check(reinterpret_cast<std::uintptr_t>(at) % kAlignment == 0, op,
        "address of a matrix, got {}, need a multiple of {}", static_cast<void*>(at), kAlignment);
  return at;
}

// Of a document, its first row is the op's first query.
template <class Op>
void* statistics_at(const Op& op, const FlashShape& s, const Piece& p) {
  const std::int64_t row = (p.sample * s.heads + p.head) * s.statistics_rows() + (s.of_seq == 0 ? 0 : op.shape.map.q0);
  std::byte* at = op.lse.data() + row * std::int64_t{sizeof(float)};
  check(reinterpret_cast<std::uintptr_t>(at) % kAlignment == 0, op.name,
        "address of row statistics, got {}, need a multiple of {}", static_cast<void*>(at), kAlignment);
  return at;
}

template <class Op>
Pointers shared_pointers(const Op& op, const FlashShape& s, const Piece& p) {
  return {{kFlashQ, address_of(op.name, op.q, s.q, p)},
          {kFlashK, address_of(op.name, op.k, s.k, p)},
          {kFlashV, address_of(op.name, op.v, s.v, p)},
          {kFlashOut, address_of(op.name, op.out, s.out, p)},
          {kFlashLse, statistics_at(op, s, p)}};
}

Pointers pointers_of(const ops::Attention& op, const FlashShape& s, const Piece& piece) {
  return shared_pointers(op, s, piece);
}

Pointers pointers_of(const ops::AttentionGrad& op, const FlashShape& s, const Piece& piece) {
  Pointers all = shared_pointers(op, s, piece);
  all[kFlashDOut] = address_of(op.name, op.dout, s.dout, piece);
  all[kFlashDQ] = address_of(op.name, op.dq, s.dq, piece);
  all[kFlashDK] = address_of(op.name, op.dk, s.dk, piece);
  all[kFlashDV] = address_of(op.name, op.dv, s.dv, piece);
  return all;
}

void take_rows(ops::Matrix& m, std::int64_t first, std::int64_t rows) {
  m.rows = rows;
  m.offset += first * m.ld;
}

void take_rows(ops::Attention& op, std::int64_t first, std::int64_t rows) {
  for (ops::Matrix* m : {&op.q, &op.k, &op.v, &op.out}) take_rows(*m, first, rows);
}
void take_rows(ops::AttentionGrad& op, std::int64_t first, std::int64_t rows) {
  for (ops::Matrix* m : {&op.q, &op.k, &op.v, &op.out, &op.dout, &op.dq, &op.dk, &op.dv}) take_rows(*m, first, rows);
}

// f(op) for each document of a whole sequence: a sequence of its own, whose statistics stay where they are. Of one length there is one plan.
template <class Op, class F>
void for_documents(const Op& op, const F& f) {
  const Documents& all = *op.shape.documents;
  for (std::int64_t d = 0; d < all.count(); ++d) {
    Op own = op;
    own.shape.documents = nullptr;
    own.shape.seq = all.end(d) - all.first(d);
    own.shape.map.q0 = own.shape.map.k0 = all.first(d);
    take_rows(own, all.first(d), own.shape.seq);
    f(own);
  }
}

template <class Op>
FlashShape of_document(const Op& op, const Op& document) {
  FlashShape shape = flash_shape(document);
  shape.of_seq = op.shape.seq;
  return shape;
}

}  // namespace

struct Flash::Plans {
  Plans(cudaStream_t stream, KernelStream& kernels, Allocator& workspace, std::string device)
      : stream(stream), kernels(kernels), workspaces(workspace), device(std::move(device)) {}
  ~Plans() {
    plans.clear();
    if (handle != nullptr) cudnnDestroy(handle);
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  template <class Op>
  void run(const Op& op) {
    const FlashShape whole = flash_shape(op);
    if (const auto why = why_no_flash(whole, op.shape.dropout.p)) fail(ErrorKind::unsupported, op.name, "{}", *why);
    if (const auto why = why_no_flash_of_documents(op.shape)) fail(ErrorKind::unsupported, op.name, "{}", *why);
    need_cudnn(op.name);
    if (op.shape.documents)
      for_documents(op, [&](const Op& document) {
        const FlashShape shape = of_document(op, document);
        if (const auto why = why_no_flash(shape, 0)) fail(ErrorKind::unsupported, op.name, "{}", *why);
        run_pieces(document, shape);
      });
    else
      run_pieces(op, whole);
  }

  template <class Op>
  void run_pieces(const Op& op, const FlashShape& whole) {
    for_pieces(whole, [&](const Piece& piece) { start(op, whole, piece); });
  }

  template <class Op>
  void start(const Op& op, const FlashShape& whole, const Piece& piece) {
    FlashShape shape = whole;
    shape.batch = piece.samples, shape.heads = piece.heads;
    if (whole.key_heads == whole.heads) shape.key_heads = piece.heads;
    const fe::graph::Graph& plan = plan_of(shape, op.name);
    Pointers pointers = pointers_of(op, whole, piece);
    if (op.shape.keep) add_lengths(op, piece, pointers);
    const std::int64_t bytes = workspace_of(plan);
    Tensor workspace;
    void* at = nullptr;
    if (bytes > 0) {
      // The row sums come first: what is behind them begins at an aligned address.
      const std::int64_t before =
          shape.gradient ? (kWorkspaceAlignment - shape.row_sum_bytes() % kWorkspaceAlignment) % kWorkspaceAlignment
                         : 0;
      workspace =
          Tensor(workspaces, {before + bytes}, DType::u8, Category::workspace, "workspace of cuDNN's attention");
      at = workspace.data() + before;
    }
    fe::error_t status = plan.execute(handle, pointers, at);
    if (status.is_bad())
      fail(is_full(status) ? ErrorKind::out_of_memory : ErrorKind::internal, op.name,
           "cuDNN's fused attention did not start, got {}", status.get_message());
  }

  const fe::graph::Graph& plan_of(const FlashShape& shape, std::string_view op) {
    std::unique_ptr<fe::graph::Graph>& plan = plans[shape.key()];
    if (plan) return *plan;
    if (handle == nullptr && device.empty()) {
      need_success(op, "cudnnCreate", cudnnCreate(&handle));
      need_success(op, "cudnnSetStream", cudnnSetStream(handle, stream));
    }
    plan = plan_flash(shape, handle, device);
    return *plan;
  }

  // Counted from the mask on the GPU in every op: the host does not know what the mask says. By pieces, each of which has its
  // lengths from an aligned address on.
  template <class Op>
  void add_lengths(const Op& op, const Piece& piece, Pointers& pointers) {
    const std::int64_t room = (piece.samples * 4 + kAlignment - 1) / kAlignment * kAlignment;
    auto* queries = static_cast<std::int32_t*>(kernels.scratch(static_cast<std::size_t>(2 * room)));
    std::int32_t* keys = queries + room / 4;
    ops::AttentionShape shape = op.shape;
    shape.batch = piece.samples;
    shape.keep = op.shape.keep.slice(piece.sample, piece.samples);
    count_keys(kernels, op.name, shape, queries, keys);
    pointers[kFlashQueryLengths] = queries;
    pointers[kFlashKeyLengths] = keys;
  }

  cudaStream_t stream;
  KernelStream& kernels;
  Allocator& workspaces;
  std::string device;
  cudnnHandle_t handle = nullptr;
  std::map<std::vector<std::int64_t>, std::unique_ptr<fe::graph::Graph>> plans;
};

Flash::Flash(cudaStream_t stream, KernelStream& kernels, Allocator& workspace, std::string device)
    : plans_(std::make_unique<Plans>(stream, kernels, workspace, std::move(device))) {}

Flash::~Flash() = default;

void Flash::run(const ops::Attention& op) {
  plans_->run(op);
}

void Flash::run(const ops::AttentionGrad& op) {
  plans_->run(op);
  if (op.shape.keep) clear_hidden_keys(plans_->kernels, op);
}

std::string cudnn_library() {
  if (!why_no_cudnn().empty()) return fmt::format("no cuDNN ({})", why_no_cudnn());
  const std::size_t version = cudnnGetVersion();  // 91900 for 9.19.0
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace mbench::cuda
