// A loop over several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace mbench::search {

// Calls body(i) for each i below n, each once. What a body throws is thrown here, that of
// the lowest i, after all threads have ended.
void each_in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& body);

}  // namespace mbench::search
