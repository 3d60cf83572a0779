// cuDNN, loaded when first needed: a binary linked against it would not start on a machine without it. cudnn_library.cpp defines the
// functions of cudnn.h that the frontend calls; each finds its namesake in libcudnn.so.9. The frontend can load libraries itself. But it
// would also load a second CUDA runtime next to the one that is linked into the binary.
#pragma once
#include <string>

namespace mbench::cuda {

// Why cuDNN cannot be used; empty if it is loaded.
const std::string& why_no_cudnn();

}  // namespace mbench::cuda
