// cuDNN, loaded when first needed: a binary that links it would not start on a machine without one.
// cudnn_library.cpp defines those functions of cudnn.h that the frontend calls; each finds its namesake in
// libcudnn.so.9. The frontend can load libraries itself, but it would load the CUDA runtime too, as a second
// one beside the one that is linked into the binary.
#pragma once
#include <string>

namespace mbench::cuda {

// Why cuDNN cannot be used; empty where it is loaded.
const std::string& why_no_cudnn();

}  // namespace mbench::cuda
