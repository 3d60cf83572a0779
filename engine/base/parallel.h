// A loop over several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace mbench {

// Calls body(i) once for each i below n; a thread takes `run` neighbours at a time. If bodies throw, the exception of the lowest i is
// rethrown after all threads have ended.
void each_in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& body, std::size_t run = 1);

}  // namespace mbench
