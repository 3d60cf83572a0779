// Instead of cuDNN's fused attention, where the binary was built without cuDNN's headers or its frontend's.
#include "engine/backend/cuda/attention/flash.h"
#include "engine/base/error.h"

namespace mbench::cuda {
namespace {

[[noreturn]] void fail_missing(std::string_view op) {
  fail(ErrorKind::unsupported, op,
       "attention \"flash\" on a GPU needs cuDNN and its C++ frontend, got a binary built without them, need "
       "one built after scripts/install-cudnn-frontend where cudnn.h is found too, or attention \"core\"");
}

}  // namespace

struct Flash::Plans {};

Flash::Flash(cudaStream_t, KernelStream&, Allocator&, std::string) {}
Flash::~Flash() = default;

void Flash::run(const ops::Attention&) {
  fail_missing(ops::Attention::name);
}

void Flash::run(const ops::AttentionGrad&) {
  fail_missing(ops::AttentionGrad::name);
}

std::string cudnn_library() {
  return "no cuDNN (built without)";
}

}  // namespace mbench::cuda
