// The shapes that the cases of several ops share.
#pragma once
#include <fmt/format.h>

#include "engine/base/shape.h"
#include "test/ops/values.h"

namespace mbench::test {

inline std::string label(DType type, const Shape& shape) {
  return fmt::format("{} {}", name_of(type), shape);
}

// f(type, one of `all`) for every floating-point type.
template <class All, class F>
void for_types_and(const All& all, F&& f) {
  for (const DType type : kFloatTypes)
    for (const auto& one : all) f(type, one);
}

// What sums over many values of that type may be kept in.
inline std::vector<DType> sum_types(DType type) {
  return type == DType::f32 ? std::vector{DType::f32} : std::vector{DType::f32, type};
}

// Flat tensors: none, single elements, some that fit no vector and one that does, and the borders of the CPU's blocks.
inline constexpr std::int64_t kLengths[] = {0, 1, 31, 33, 64, 255, 1023, 1024, 1025, 1027};

// Rows and columns: single elements, ragged rows, rows of whole vectors, rows that one or several warps' registers hold, and rows that
// are read repeatedly.
inline const Shape kRows[] = {{1, 1}, {3, 31}, {7, 33}, {2, 64}, {3, 5, 7}, {2, 255}, {5, 1027}, {2, 1032}};
inline const Shape kLargeRows[] = {{64, 1024}, {9, 4096}, {2, 50257}};

// gpt2-345m at a micro batch of 1, for ops_bench.
inline constexpr std::int64_t kBenchTokens = 1024, kBenchWidth = 1024, kBenchFfn = 4 * kBenchWidth, kBenchHeads = 16,
                              kBenchHeadDim = 64, kBenchVocabulary = 50304, kBenchWords = 50257;
inline const Shape kHidden{kBenchTokens, 1, kBenchWidth}, kFfn{kBenchTokens, 1, kBenchFfn},
    kScores{1, kBenchHeads, kBenchTokens, kBenchTokens}, kLogits{kBenchTokens, kBenchVocabulary};

// Small enough that a kernel is over before the next is enqueued, for launch_bench.
inline const Shape kSmallHidden{64, 1, 256};

// gpt3-175b with samples of 64 Ki tokens, and one of a mega token: more elements than 32 bits count.
inline const Shape kHugeHidden{65536, 8, 12288}, kLongHidden{1 << 20, 1, 12288}, kHugeFfn{65536, 8, 4 * 12288},
    kHugeScores{1, 96, 65536, 65536}, kHugeLogits{524288, 50304};

}  // namespace mbench::test
