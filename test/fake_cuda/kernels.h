// Kernels of a fake GPU: functions of the host whose parameters are known. A real compiler registers every kernel with the runtime;
// here launch() does, through learn().
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace fake_cuda {

// Takes the arguments out of what cudaLaunchKernel() is given, and returns what a thread of the kernel does.
using Bind = std::function<void()> (*)(const void* kernel, void** arguments);

void learn(const void* kernel, Bind bind);

// How many launches there were.
std::uint64_t launches();

template <class... Params, std::size_t... I>
std::function<void()> bind_these(void (*kernel)(Params...), void** arguments, std::index_sequence<I...>) {
  return [kernel, values = std::tuple<std::decay_t<Params>...>(
                      *static_cast<const std::decay_t<Params>*>(arguments[I])...)] { std::apply(kernel, values); };
}

template <class... Params>
void learn(void (*kernel)(Params...)) {
  learn(reinterpret_cast<const void*>(kernel), [](const void* function, void** arguments) {
    return bind_these(reinterpret_cast<void (*)(Params...)>(const_cast<void*>(function)), arguments,
                      std::index_sequence_for<Params...>());
  });
}

}  // namespace fake_cuda
