#include "engine/backend/cuda/attention/flash.h"

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

// What cuDNN assumes of an address.
constexpr std::int64_t kAlignment = 16, kWorkspaceAlignment = 256;

void need_cudnn(std::string_view op) {
  if (!why_no_cudnn().empty())
    fail(ErrorKind::unsupported, op,
         "attention \"flash\" on a GPU needs cuDNN 9, got {}, need libcudnn.so.9 where the loader looks "
         "(LD_LIBRARY_PATH) or attention \"core\"",
         why_no_cudnn());
}

void need_success(std::string_view op, const char* call, cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail(ErrorKind::internal, op, "{} failed, got {}", call, cudnnGetErrorString(status));
}

void* address_of(std::string_view op, const ops::Matrix& m) {
  std::byte* at = m.data.data() + m.offset * static_cast<std::int64_t>(size_of(m.data.dtype()));
  check(reinterpret_cast<std::uintptr_t>(at) % kAlignment == 0, op,
        "address of a matrix, got {}, need a multiple of {}", static_cast<void*>(at), kAlignment);
  return at;
}

template <class Op>
Pointers shared_pointers(const Op& op) {
  return {{kFlashQ, address_of(op.name, op.q)},
          {kFlashK, address_of(op.name, op.k)},
          {kFlashV, address_of(op.name, op.v)},
          {kFlashOut, address_of(op.name, op.out)},
          {kFlashLse, op.lse.data()}};
}

Pointers pointers_of(const ops::Attention& op) {
  return shared_pointers(op);
}

Pointers pointers_of(const ops::AttentionGrad& op) {
  Pointers all = shared_pointers(op);
  all[kFlashDOut] = address_of(op.name, op.dout);
  all[kFlashDQ] = address_of(op.name, op.dq);
  all[kFlashDK] = address_of(op.name, op.dk);
  all[kFlashDV] = address_of(op.name, op.dv);
  return all;
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
    const FlashShape shape = flash_shape(op);
    if (const auto why = why_no_flash(shape, op.shape.dropout.p))
      fail(ErrorKind::unsupported, op.name, "{}", *why);
    const fe::graph::Graph& plan = plan_of(shape, op.name);
    Pointers pointers = pointers_of(op);
    if (op.shape.keep) add_lengths(op, pointers);
    const std::int64_t bytes = workspace_of(plan);
    Tensor workspace;
    void* at = nullptr;
    if (bytes > 0) {
      // The row sums come first: what is behind them begins at an aligned address.
      const std::int64_t before =
          shape.gradient
              ? (kWorkspaceAlignment - shape.row_sum_bytes() % kWorkspaceAlignment) % kWorkspaceAlignment
              : 0;
      workspace = Tensor(workspaces, {before + bytes}, DType::u8, Category::workspace,
                         "workspace of cuDNN's attention");
      at = workspace.data() + before;
    }
    fe::error_t status = plan.execute(handle, pointers, at);
    if (status.is_bad())
      fail(ErrorKind::internal, op.name, "cuDNN's fused attention did not start, got {}",
           status.get_message());
  }

  const fe::graph::Graph& plan_of(const FlashShape& shape, std::string_view op) {
    std::unique_ptr<fe::graph::Graph>& plan = plans[shape.key()];
    if (plan) return *plan;
    need_cudnn(op);
    if (handle == nullptr && device.empty()) {
      need_success(op, "cudnnCreate", cudnnCreate(&handle));
      need_success(op, "cudnnSetStream", cudnnSetStream(handle, stream));
    }
    plan = plan_flash(shape, handle, device);
    return *plan;
  }

  // Counted from the mask on the GPU in every op: the host does not know what the mask says.
  template <class Op>
  void add_lengths(const Op& op, Pointers& pointers) {
    const std::int64_t room = (op.shape.batch * 4 + kAlignment - 1) / kAlignment * kAlignment;
    auto* queries = static_cast<std::int32_t*>(kernels.scratch(static_cast<std::size_t>(2 * room)));
    std::int32_t* keys = queries + room / 4;
    count_keys(kernels, op.name, op.shape, queries, keys);
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
