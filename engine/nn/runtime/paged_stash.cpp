#include "engine/nn/runtime/paged_stash.h"

#include <algorithm>
#include <utility>

#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

constexpr std::int64_t kPageRows = ExpertRoom::kPageRows;

void wait_for(StashedGroup::Part& part) {
  for (const auto& copy : part.copies) copy->wait();
  part.copies.clear();
}

}  // namespace

PagedStash::Place PagedStash::place_on(Device& device, std::int64_t pages, std::int64_t row_bytes) {
  Place made;
  if (pages == 0) return made;
  made.pages =
      device.empty({pages * kPageRows, row_bytes}, DType::u8, Category::activations, "pages of what experts keep");
  for (std::int64_t page = 0; page < pages; ++page) made.free.push_back(page);
  return made;
}

void PagedStash::make(Device& device, const std::vector<ExpertRoom::Pages>& pages) {
  for (const ExpertRoom::Pages& p : pages) {
    Buffer& buffer = buffers_[p.row_bytes];
    buffer.device = place_on(device, p.device, p.row_bytes);
    if (p.host > 0) buffer.host = place_on(device.host(), p.host, p.row_bytes);
  }
}

void PagedStash::release() {
  buffers_.clear();
}

bool PagedStash::overflowed() {
  return std::exchange(overflowed_, false);
}

void PagedStash::begin_forward(StashedGroups& groups, int most) {
  forward_ = &groups, left_ = most;
}

// What is enqueued from now on comes after the copies, and may have the memory.
void PagedStash::settle() {
  if (!forward_) return;
  for (StashedGroup& group : *forward_) {
    if (group.where != StashedGroup::Where::leaving) continue;
    for (StashedGroup::Part& part : group.parts) {
      wait_for(part);
      part.memory.give_back();
    }
    group.where = StashedGroup::Where::stash;
  }
}

void PagedStash::end_forward() {
  settle();
  forward_ = nullptr;
}

PagedStash::Place& PagedStash::place_of(const StashedGroup::Part& part) {
  Buffer& buffer = buffers_.at(part.row_bytes);
  return part.on_host ? buffer.host : buffer.device;
}

// All pages of a tensor lie in one place, as Megatron-Core's do.
bool PagedStash::find_pages(StashedGroup::Part& part) {
  const std::int64_t pages = ExpertRoom::pages_of(part.rows);
  for (const bool on_host : {false, true}) {
    part.on_host = on_host;
    std::deque<std::int64_t>& free = place_of(part).free;
    if (static_cast<std::int64_t>(free.size()) < pages) continue;
    part.pages.assign(free.begin(), free.begin() + pages);
    free.erase(free.begin(), free.begin() + pages);
    return true;
  }
  return false;
}

void PagedStash::free_pages(StashedGroup::Part& part) {
  std::deque<std::int64_t>& free = place_of(part).free;
  free.insert(free.end(), part.pages.begin(), part.pages.end());
  part.pages.clear();
}

int PagedStash::keep(Device& device, const std::vector<Kept>& tensors) {
  if (!forward_ || left_ == 0) return -1;
  --left_;
  StashedGroup group;
  bool fits = true;
  for (const Kept& kept : tensors) {
    if (!kept.tensor) continue;
    const std::int64_t all = kept.tensor.shape().rows(), bytes = static_cast<std::int64_t>(kept.tensor.bytes());
    StashedGroup::Part part;
    part.memory = TensorMemory(kept.tensor);
    part.row_bytes = bytes / all, part.rows = kept.rows;
    check(kept.rows <= all && bytes % all == 0 && part.memory.bytes() == kept.tensor.bytes(), "paged stash",
          "{} rows of a tensor {} in memory of {} bytes, need no more than it has, and memory of its own", kept.rows,
          kept.tensor.shape(), part.memory.bytes());
    check(buffers_.contains(part.row_bytes), "paged stash", "rows of {} bytes, need such as the pages were made for",
          part.row_bytes);
    fits = fits && find_pages(part);
    group.parts.push_back(std::move(part));
  }
  if (!fits) {
    overflowed_ = true;
    for (StashedGroup::Part& part : group.parts) free_pages(part);
    return -1;
  }
  for (StashedGroup::Part& part : group.parts) copy(device, part, Way::to_pages);
  group.where = StashedGroup::Where::leaving;
  forward_->push_back(std::move(group));
  return static_cast<int>(forward_->size()) - 1;
}

// A block for each run of neighbouring pages. The last page may be full in part. Megatron-Core's kernel takes all pages of a tensor at once,
// and so does a simulated device, on which a micro batch stands for others that find other pages.
void PagedStash::copy(Device& device, StashedGroup::Part& part, Way way) {
  const Tensor memory = part.memory.all(), &pages = place_of(part).pages;
  const std::int64_t row = part.row_bytes;
  for (std::size_t first = 0; first < part.pages.size();) {
    std::size_t end = first + 1;
    while (end < part.pages.size() && (!device.real() || part.pages[end] == part.pages[end - 1] + 1)) ++end;
    const std::int64_t begin = static_cast<std::int64_t>(first) * kPageRows,
                       page = device.real() ? part.pages[first] * kPageRows : 0,
                       count = std::min(part.rows, static_cast<std::int64_t>(end) * kPageRows) - begin;
    first = end;
    if (part.on_host) {
      const Tensor in_tensor = memory.slice(begin * row, count * row),
                   in_pages = pages.slice(page, count).view({count * row});
      part.copies.push_back(way == Way::to_pages ? device.start_copy(CopyWay::to_host, in_tensor, in_pages)
                                                 : device.start_copy(CopyWay::to_device, in_pages, in_tensor));
      continue;
    }
    const ops::Matrix in_tensor(memory, count, row, row, begin * row), in_pages(pages, count, row, row, page * row);
    if (way == Way::to_pages)
      run(device, ops::CopyBlocks{in_tensor, in_pages});
    else
      run(device, ops::CopyBlocks{in_pages, in_tensor});
  }
}

void PagedStash::begin_backward(Device& device, StashedGroups& groups, bool comes) {
  backward_ = &groups;
  if (comes) fetch_next(device);
}

void PagedStash::end_backward() {
  for (const StashedGroup& group : *backward_)
    check(group.where == StashedGroup::Where::device, "paged stash", "rows of experts that no backward asked for");
  backward_->clear();
  backward_ = nullptr;
}

// Pages on the device are free for what is enqueued from now on. Those of the host are once the copies from them have ended.
void PagedStash::fetch(Device& device, StashedGroup& group) {
  for (StashedGroup::Part& part : group.parts) {
    part.memory.take_again(Category::activations, "rows of experts from pages");
    copy(device, part, Way::to_tensor);
    if (!part.on_host) free_pages(part);
  }
  group.where = StashedGroup::Where::coming;
}

void PagedStash::bring_back(Device& device, int number) {
  if (number < 0) return;
  StashedGroup& group = backward_->at(static_cast<std::size_t>(number));
  if (group.where == StashedGroup::Where::stash) fetch(device, group);
  for (StashedGroup::Part& part : group.parts) {
    wait_for(part);
    if (part.on_host) free_pages(part);
  }
  group.parts.clear();
  group.where = StashedGroup::Where::device;
}

void PagedStash::fetch_next(Device& device) {
  if (!backward_) return;
  for (auto group = backward_->rbegin(); group != backward_->rend(); ++group)
    if (group->where == StashedGroup::Where::stash) return fetch(device, *group);
}

}  // namespace mbench::nn
