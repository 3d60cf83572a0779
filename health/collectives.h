// The collectives that a check and a bench measure, with what they count and what they must give.
//
// Sizes and rates are those of nccl-tests (its PERFORMANCE.md). `bytes` are of the whole buffer: of all-gather the gathered one, of
// reduce-scatter the one that is scattered. Algorithm bandwidth is bytes over time. Bus bandwidth is that times a factor which makes it
// comparable to the speed of the links. The factor is 2 (k - 1) / k for all-reduce, (k - 1) / k for all-gather, reduce-scatter and
// all-to-all, and 1 for send. Send is a round of the ring: every rank sends its buffer to the next.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/comm/group.h"

namespace mbench::health {

struct Buffers {
  Tensor whole, other, part;  // [elements], [elements], [elements / ranks]
};
// `elements` is a multiple of the group's size.
Buffers make_buffers(Device& device, std::int64_t elements, DType dtype, int ranks);

// An element of an input: of one rank, or the sum over all of them.
struct Source {
  static constexpr int kAll = -1;
  int rank = kAll;
  std::int64_t element = 0;
};

struct Collective {
  std::string_view name;
  double (*factor)(int ranks);  // of the bus bandwidth
  comm::Collective (*call)(const Buffers& buffers);
  Tensor (*input)(const Buffers& buffers);   // what a rank gives; of all-reduce it becomes the result
  Tensor (*output)(const Buffers& buffers);  // what it gets
  // Where element `i` of rank `rank`'s result comes from; `each`: elements of the whole buffer over the ranks.
  Source (*source)(int rank, int ranks, std::int64_t each, std::int64_t i);
};
const std::vector<Collective>& collectives();

// Element `i` of a rank's input: small integers, so that sums of them over 2^17 ranks are exact in f32.
float sample(int rank, std::int64_t i);

// Does the collective once on f32 samples and counts the wrong elements of this rank's result.
std::int64_t wrong_elements(const Collective& collective, comm::Group& group, Device& device, const Buffers& buffers);

}  // namespace mbench::health
