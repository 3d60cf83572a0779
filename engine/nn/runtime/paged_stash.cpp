#include "engine/nn/runtime/paged_stash.h"

#include <algorithm>
#include <utility>

#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"
#include "engine/plan/plan.h"

namespace mbench::nn {
namespace {

constexpr std::int64_t kPageRows = ExpertRoom::kPageRows;

}  // namespace

void PagedStash::make(Device& device, const ExpertRoom& room, std::int64_t waiting,
                      const std::vector<std::int64_t>& row_bytes) {
  room_ = room.rows;
  std::map<std::int64_t, std::int64_t> tensors;  // of a group, by the bytes of a row
  for (const std::int64_t bytes : row_bytes) ++tensors[bytes];
  for (const auto& [bytes, count] : tensors) {
    const std::int64_t pages = room.pages_for(waiting * count);
    if (pages == 0) continue;  // a stage without experts
    Buffer& buffer = buffers_[bytes];
    buffer.pages =
        device.empty({pages * kPageRows, bytes}, DType::u8, Category::activations, "pages of what experts keep");
    for (std::int64_t page = 0; page < pages; ++page) buffer.free.push_back(page);
  }
}

void PagedStash::release() {
  buffers_.clear();
}

bool PagedStash::overflowed() {
  return std::exchange(overflowed_, false);
}

void PagedStash::begin_forward(StashedGroups& groups, int most) {
  groups_ = &groups, forward_ = true, left_ = most;
}

void PagedStash::settle() {
  if (!groups_) return;
  for (StashedGroup& group : *groups_) {
    if (group.where != StashedGroup::Where::leaving) continue;
    for (StashedGroup::Part& part : group.parts) part.memory.give_back();
    group.where = StashedGroup::Where::stash;
  }
}

void PagedStash::end_forward() {
  settle();
  groups_ = nullptr, forward_ = false;
}

int PagedStash::keep(Device& device, std::int64_t rows, const std::vector<Tensor>& tensors) {
  if (!groups_ || !forward_ || left_ == 0) return -1;
  --left_;
  StashedGroup group;
  group.rows = rows;
  bool fits = true;
  for (const Tensor& tensor : tensors) {
    if (!tensor) continue;
    StashedGroup::Part part{TensorMemory(tensor), static_cast<std::int64_t>(tensor.bytes()) / room_, {}};
    check(tensor.shape().rows() == room_ && part.memory.bytes() == tensor.bytes(), "paged stash",
          "a tensor {} of {} bytes, need all rows of the room, {}", tensor.shape(), part.memory.bytes(), room_);
    const auto it = buffers_.find(part.row_bytes);
    check(it != buffers_.end(), "paged stash", "rows of {} bytes, need such as the pages were made for",
          part.row_bytes);
    std::deque<std::int64_t>& free = it->second.free;
    fits = fits && static_cast<std::int64_t>(free.size()) >= ExpertRoom::pages_of(rows);
    for (std::int64_t n = ExpertRoom::pages_of(rows); fits && n > 0; --n) {
      part.pages.push_back(free.front());
      free.pop_front();
    }
    group.parts.push_back(std::move(part));
  }
  if (!fits) {
    overflowed_ = true;
    for (const StashedGroup::Part& part : group.parts) {
      std::deque<std::int64_t>& free = buffers_.at(part.row_bytes).free;
      free.insert(free.end(), part.pages.begin(), part.pages.end());
    }
    return -1;
  }
  for (const StashedGroup::Part& part : group.parts) copy(device, part, rows, Way::to_pages);
  group.where = StashedGroup::Where::leaving;
  groups_->push_back(std::move(group));
  return static_cast<int>(groups_->size()) - 1;
}

// A block for each run of neighbouring pages. The last page may be full in part.
void PagedStash::copy(Device& device, const StashedGroup::Part& part, std::int64_t rows, Way way) const {
  const Tensor memory = part.memory.all(), &pages = buffers_.at(part.row_bytes).pages;
  for (std::size_t first = 0; first < part.pages.size();) {
    std::size_t end = first + 1;
    while (end < part.pages.size() && part.pages[end] == part.pages[end - 1] + 1) ++end;
    const std::int64_t begin = static_cast<std::int64_t>(first) * kPageRows,
                       count = std::min(rows, static_cast<std::int64_t>(end) * kPageRows) - begin;
    const ops::Matrix in_tensor(memory, count, part.row_bytes, part.row_bytes, begin * part.row_bytes),
        in_pages(pages, count, part.row_bytes, part.row_bytes, part.pages[first] * kPageRows * part.row_bytes);
    if (way == Way::to_pages)
      run(device, ops::CopyBlocks{in_tensor, in_pages});
    else
      run(device, ops::CopyBlocks{in_pages, in_tensor});
    first = end;
  }
}

void PagedStash::begin_backward(Device& device, StashedGroups& groups, bool comes) {
  groups_ = &groups, forward_ = false;
  if (comes) fetch_next(device);
}

void PagedStash::end_backward() {
  for (const StashedGroup& group : *groups_)
    check(group.where == StashedGroup::Where::device, "paged stash", "rows of experts that no backward asked for");
  groups_->clear();
  groups_ = nullptr;
}

void PagedStash::fetch(Device& device, StashedGroup& group) {
  for (StashedGroup::Part& part : group.parts) {
    part.memory.take_again(Category::activations, "rows of experts from pages");
    copy(device, part, group.rows, Way::to_tensor);
    std::deque<std::int64_t>& free = buffers_.at(part.row_bytes).free;
    free.insert(free.end(), part.pages.begin(), part.pages.end());
  }
  group.parts.clear();
  group.where = StashedGroup::Where::device;
}

void PagedStash::bring_back(Device& device, int number) {
  if (number < 0) return;
  StashedGroup& group = groups_->at(static_cast<std::size_t>(number));
  if (group.where != StashedGroup::Where::device) fetch(device, group);
}

void PagedStash::fetch_next(Device& device) {
  if (!groups_ || forward_) return;
  for (auto group = groups_->rbegin(); group != groups_->rend(); ++group)
    if (group->where == StashedGroup::Where::stash) return fetch(device, *group);
}

}  // namespace mbench::nn
