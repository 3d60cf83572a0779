#include "engine/backend/cpu/scratch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace mbench::cpu {

Scratch::~Scratch() {
  std::free(data_);
}

void* Scratch::bytes(std::size_t bytes) {
  if (bytes > size_) {
    constexpr std::size_t huge = std::size_t{2} << 20, line = 64;
    const std::size_t unit = bytes >= huge ? huge : line;
    const std::size_t size = (bytes + unit - 1) / unit * unit;
    charged_.resize(size, "scratch of the CPU's kernels");
    std::free(data_);
    size_ = 0;
    data_ = std::aligned_alloc(unit, size);
    if (data_ == nullptr) throw std::bad_alloc();
    // Only advice: where the system has no huge pages the memory is the same.
    if (unit == huge) madvise(data_, size, MADV_HUGEPAGE);
    size_ = size;
  }
  return data_;
}

}  // namespace mbench::cpu
