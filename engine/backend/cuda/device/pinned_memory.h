// Host memory that is page-locked as it grows. So copies to and from a GPU overlap with the host's work and run at the link's rate.
#pragma once
#include <map>
#include <memory>

#include "engine/device/arena.h"

namespace mbench::cuda {

class PinnedMemory final : public RawMemory {
 public:
  explicit PinnedMemory(std::unique_ptr<RawMemory> memory) : memory_(std::move(memory)) {}
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* base() const override { return memory_->base(); }
  std::size_t granule() const override { return memory_->granule(); }
  // Also false if the system cannot lock more pages.
  bool commit(std::size_t bytes) override;
  // How many of the `bytes` from `at` on were locked as one piece: a copy may not cross from one piece to the next.
  std::size_t in_one_piece(const std::byte* at, std::size_t bytes) const;

 private:
  std::unique_ptr<RawMemory> memory_;
  std::map<std::size_t, std::size_t> pieces_;  // offset of each to its end
  std::size_t locked_ = 0;
};

}  // namespace mbench::cuda
