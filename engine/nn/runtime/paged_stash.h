// Pages for what experts keep until their backward, where they have static room (ExpertRoom): Megatron-Core's paged stash,
// megatron/core/transformer/moe/paged_stash.py. The experts' tensors are as long as the bound. After a forward the rows in use are copied
// to pages that all layers and micro batches share, and the tensors give their memory back. Before the backward they are copied back.
//
// The copies are enqueued where the forward or the backward is; Megatron-Core's run on a stream of their own. The tensors of a group keep
// their memory until the next layer's experts begin, or the chunk's forward ends. As a backward through experts ends, the group before it
// comes back, so that at most two groups are there.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "engine/device/device.h"

namespace mbench {
struct ExpertRoom;
}

namespace mbench::nn {

// What the experts of one layer keep of one micro batch.
struct StashedGroup {
  enum class Where { leaving, stash, device };
  struct Part {
    TensorMemory memory;
    std::int64_t row_bytes = 0;
    std::vector<std::int64_t> pages;
  };
  Where where = Where::device;
  std::int64_t rows = 0;  // in use
  std::vector<Part> parts;
};
// Of one micro batch in one chunk, in the order of its forward.
using StashedGroups = std::vector<StashedGroup>;

class PagedStash {
 public:
  // Makes the pages of this stage. `row_bytes`: of each tensor that experts keep, the bytes of a row.
  void make(Device& device, const ExpertRoom& room, std::int64_t waiting, const std::vector<std::int64_t>& row_bytes);
  // The step is run again without them.
  void release();
  bool on() const { return !buffers_.empty(); }
  // Whether a group found too few pages since this was last asked.
  bool overflowed();

  // Around a chunk's forward and its backward. `most`: so many of its groups go to pages, the first ones. The one whose backward follows
  // at once stays.
  void begin_forward(StashedGroups& groups, int most);
  void end_forward();
  // `comes`: whether the last group comes at once, because none that stayed is before it.
  void begin_backward(Device& device, StashedGroups& groups, bool comes);
  void end_backward();

  // The experts of the next layer begin: memory of the group before is given back.
  void settle();
  // Copies the first `rows` rows of these tensors, which are as long as the room. Returns the group's number for bring_back(); -1: it stays.
  int keep(Device& device, std::int64_t rows, const std::vector<Tensor>& tensors);
  // What is enqueued from now on finds the group in its tensors; -1: there is none.
  void bring_back(Device& device, int group);
  // The backward of a group's experts has ended: the one before it comes.
  void fetch_next(Device& device);

 private:
  struct Buffer {
    Tensor pages;  // [pages * ExpertRoom::kPageRows, bytes of a row] u8
    std::deque<std::int64_t> free;
  };
  enum class Way { to_pages, to_tensor };
  void copy(Device& device, const StashedGroup::Part& part, std::int64_t rows, Way way) const;
  void fetch(Device& device, StashedGroup& group);

  std::map<std::int64_t, Buffer> buffers_;  // by the bytes of a row
  std::int64_t room_ = 0;                   // rows of the tensors
  StashedGroups* groups_ = nullptr;
  bool forward_ = false, overflowed_ = false;
  int left_ = 0;  // groups of this forward that still go to pages
};

}  // namespace mbench::nn
