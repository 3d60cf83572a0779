// Fused attention as a graph of cuDNN's frontend, and the plan that runs it. FlashTensor numbers the tensors.
#pragma once
// Nothing here is written as JSON.
#ifndef CUDNN_FRONTEND_SKIP_JSON_LIB
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#endif
#include <cudnn_frontend.h>

#include <memory>
#include <string>

#include "engine/backend/cuda/attention/flash_shape.h"

namespace mbench::cuda {

enum FlashTensor : std::int64_t {
  kFlashQ = 100,  // the frontend numbers tensors of its own from 1
  kFlashK,
  kFlashV,
  kFlashOut,
  kFlashLse,
  kFlashQueryLengths,  // [batch] i32, where padded
  kFlashKeyLengths,
  kFlashDOut,
  kFlashDQ,
  kFlashDK,
  kFlashDV
};

// Throws unsupported, with cuDNN's words, where there is no kernel. `handle` belongs to the GPU. Without a handle the plan is for the GPU
// that `device` describes, in cuDNN's notation (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
std::unique_ptr<cudnn_frontend::graph::Graph> plan_flash(const FlashShape& shape, cudnnHandle_t handle,
                                                         const std::string& device = "");

// Whether an error means that the GPU, or the host, is full. The frontend passes cuDNN's code on in words only.
bool is_full(const cudnn_frontend::error_t& status);

std::int64_t workspace_of(const cudnn_frontend::graph::Graph& plan);

}  // namespace mbench::cuda
