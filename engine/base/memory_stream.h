// The stream that asks for memory. PyTorch's allocator keeps the memory of each stream to itself: a block that one asked for is never given
// to another. The framework's file says which of these are streams of their own (memory.allocator.streams); all others are the compute
// stream. A new one is an enumerator and its name, in this file only.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mbench {

enum class MemoryStream : std::uint8_t {
  compute,
  gathers,    // weights that are gathered from the ranks that share them, and what is sent of them
  reductions  // gradients in flight to the ranks that own them
};
inline constexpr std::array<std::string_view, 3> kMemoryStreamNames = {"compute", "gathers", "reductions"};
inline constexpr std::size_t kMemoryStreams = kMemoryStreamNames.size();
static_assert(static_cast<std::size_t>(MemoryStream::reductions) == kMemoryStreams - 1,
              "a name for each, in their order");

// Which of them are streams of their own.
using OwnStreams = std::array<bool, kMemoryStreams>;

}  // namespace mbench
