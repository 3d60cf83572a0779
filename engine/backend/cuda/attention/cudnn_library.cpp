#include "engine/backend/cuda/attention/cudnn_library.h"

#include <cudnn.h>
#include <dlfcn.h>

#include "engine/base/error.h"

namespace mbench::cuda {
namespace {

struct Library {
  void* handle = nullptr;
  std::string why_none;
};

Library load() {
  Library library;
  library.handle = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (library.handle == nullptr) {
    const char* reason = ::dlerror();
    library.why_none = reason != nullptr ? reason : "libcudnn.so.9 cannot be loaded";
  }
  return library;
}

const Library& library() {
  static const Library it = load();
  return it;
}

void* find(const char* name) {
  if (!why_no_cudnn().empty()) fail(ErrorKind::unsupported, "cudnn", "{}", why_no_cudnn());
  void* function = ::dlsym(library().handle, name);
  if (function == nullptr)
    fail(ErrorKind::unsupported, "cudnn", "libcudnn.so.9 has no {}, need cuDNN {}.{} or newer", name, CUDNN_MAJOR,
         CUDNN_MINOR);
  return function;
}

// The library's function of that name and type.
template <auto Namesake, class... Args>
auto call(const char* name, Args... args) {
  static const auto function = reinterpret_cast<decltype(Namesake)>(find(name));
  return function(args...);
}

}  // namespace

const std::string& why_no_cudnn() {
  return library().why_none;
}

}  // namespace mbench::cuda

using mbench::cuda::call;

std::size_t cudnnGetVersion() {
  return call<&cudnnGetVersion>("cudnnGetVersion");
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return call<&cudnnGetErrorString>("cudnnGetErrorString", status);
}
void cudnnGetLastErrorString(char* message, std::size_t size) {
  call<&cudnnGetLastErrorString>("cudnnGetLastErrorString", message, size);
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return call<&cudnnCreate>("cudnnCreate", handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return call<&cudnnDestroy>("cudnnDestroy", handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return call<&cudnnSetStream>("cudnnSetStream", handle, stream);
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return call<&cudnnGetStream>("cudnnGetStream", handle, stream);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  return call<&cudnnBackendCreateDescriptor>("cudnnBackendCreateDescriptor", type, made);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return call<&cudnnBackendDestroyDescriptor>("cudnnBackendDestroyDescriptor", descriptor);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return call<&cudnnBackendFinalize>("cudnnBackendFinalize", descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  return call<&cudnnBackendSetAttribute>("cudnnBackendSetAttribute", descriptor, name, type, count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t room, std::int64_t* count,
                                       void* values) {
  return call<&cudnnBackendGetAttribute>("cudnnBackendGetAttribute", descriptor, name, type, room, count, values);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t arguments) {
  return call<&cudnnBackendExecute>("cudnnBackendExecute", handle, plan, arguments);
}
