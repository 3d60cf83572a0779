// Pages for what experts keep until their backward, where they have static room (ExpertRoom): Megatron-Core's paged stash,
// megatron/core/transformer/moe/paged_stash.py. The experts' tensors are as long as the bound. After a forward the rows in use are copied
// to pages that all layers and micro batches share, and the tensors give their memory back. Before the backward they are copied back.
//
// A tensor that finds too few free pages on the device goes to pages in the host's memory, where there are some. Its copies overlap with
// what the device computes (Device::start_copy); Megatron-Core's kernel writes to page-locked memory itself.
//
// Copies on the device are enqueued where the forward or the backward is; Megatron-Core's run on a stream of their own. The tensors of a
// group keep their memory until the next layer's experts begin, or the chunk's forward ends. As a backward through experts ends, the group
// before it comes back, so that at most two groups are there. A forward and a backward of two micro batches may take turns.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

// What the experts of one layer keep of one micro batch.
struct StashedGroup {
  enum class Where { leaving, stash, coming, device };
  struct Part {
    TensorMemory memory;
    std::int64_t row_bytes = 0, rows = 0;  // rows in use
    bool on_host = false;                  // its pages
    std::vector<std::int64_t> pages;
    std::vector<std::unique_ptr<HostCopy>> copies;  // in flight to the host or from it
  };
  Where where = Where::device;
  std::vector<Part> parts;
};
// Of one micro batch in one chunk, in the order of its forward.
using StashedGroups = std::vector<StashedGroup>;

class PagedStash {
 public:
  // A tensor [rows, ...] that experts keep, with memory of its own, and how many of its rows are in use: the first ones.
  struct Kept {
    Tensor tensor;
    std::int64_t rows = 0;
  };

  // Makes the pages of this stage.
  void make(Device& device, const std::vector<ExpertRoom::Pages>& pages);
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

  // The experts of the forward's next layer begin: memory of the group before is given back.
  void settle();
  // Copies the rows in use of these tensors; some may be empty. Returns the group's number for bring_back(); -1: it stays.
  int keep(Device& device, const std::vector<Kept>& tensors);
  // What is enqueued from now on finds the group in its tensors; -1: there is none.
  void bring_back(Device& device, int group);
  // The backward of a group's experts has ended: the one before it comes.
  void fetch_next(Device& device);

 private:
  struct Place {
    Tensor pages;  // [pages * ExpertRoom::kPageRows, bytes of a row] u8
    std::deque<std::int64_t> free;
  };
  struct Buffer {
    Place device, host;
  };
  enum class Way { to_pages, to_tensor };
  static Place place_on(Device& device, std::int64_t pages, std::int64_t row_bytes);
  Place& place_of(const StashedGroup::Part& part);
  // Gives the part pages of a place that has enough of them. False: there is none.
  bool find_pages(StashedGroup::Part& part);
  void free_pages(StashedGroup::Part& part);
  void copy(Device& device, StashedGroup::Part& part, Way way);
  void fetch(Device& device, StashedGroup& group);

  std::map<std::int64_t, Buffer> buffers_;  // by the bytes of a row
  StashedGroups *forward_ = nullptr, *backward_ = nullptr;
  bool overflowed_ = false;
  int left_ = 0;  // groups of this forward that still go to pages
};

}  // namespace mbench::nn
