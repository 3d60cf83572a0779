#include "engine/nn/runtime/activation_offload.h"

#include <algorithm>
#include <set>

namespace mbench::nn {

void ActivationOffload::begin_group(Device& device) {
  check(!device.lists_activations(), "offload", "a group of activations within another");
  made_.clear();
  device.list_activations(&made_);
}

int ActivationOffload::leave(Device& device, int kind, std::int64_t min_elements, const Tensor& output,
                             const Tensor& second) {
  device.list_activations(nullptr);
  OffloadGroup group{kind, OffloadGroup::Where::leaving, {}};
  for (const TensorMemory& memory : made_.living()) {
    const bool known = std::any_of(group.moved.begin(), group.moved.end(),
                                   [&](const OffloadGroup::Moved& moved) { return moved.memory == memory; });
    const bool stays = (output && TensorMemory(output) == memory) || (second && TensorMemory(second) == memory);
    if (!known && !stays && memory.bytes() > 0 && memory.numel() >= min_elements)
      group.moved.push_back({memory, Tensor(), nullptr});
  }
  made_.clear();
  if (group.moved.empty()) return -1;
  for (OffloadGroup& earlier : *groups_)
    if (earlier.kind == kind) away(earlier);
  for (OffloadGroup::Moved& moved : group.moved) {
    moved.host = device.host().empty({static_cast<std::int64_t>(moved.memory.bytes())}, DType::u8,
                                     Category::activations, "activation until its backward");
    moved.copy = device.start_copy(CopyWay::to_host, moved.memory.all(), moved.host);
  }
  groups_->push_back(std::move(group));
  return static_cast<int>(groups_->size()) - 1;
}

// What is enqueued from now on comes after the copies, and may have the memory.
void ActivationOffload::away(OffloadGroup& group) {
  if (group.where != OffloadGroup::Where::leaving) return;
  for (OffloadGroup::Moved& moved : group.moved) {
    moved.copy->wait();
    moved.copy.reset();
    moved.memory.give_back();
  }
  group.where = OffloadGroup::Where::host;
}

void ActivationOffload::end_forward(Device&) {
  for (OffloadGroup& group : *groups_) away(group);
  groups_ = nullptr;
  forward_ = moves_ = false;
}

void ActivationOffload::begin_backward(Device& device, OffloadGroups& groups) {
  groups_ = &groups;
  std::set<int> kinds;
  for (const OffloadGroup& group : groups) kinds.insert(group.kind);
  ahead_ = kinds.size();
  fetch_ahead(device);
}

void ActivationOffload::end_backward() {
  for (const OffloadGroup& group : *groups_)
    check(group.where == OffloadGroup::Where::device, "offload", "activations of kind {} that no backward asked for",
          group.kind);
  groups_->clear();
  groups_ = nullptr;
}

void ActivationOffload::fetch(Device& device, OffloadGroup& group) {
  for (OffloadGroup::Moved& moved : group.moved) {
    moved.memory.take_again(Category::activations, "activation from the host");
    moved.copy = device.start_copy(CopyWay::to_device, moved.host, moved.memory.all());
  }
  group.where = OffloadGroup::Where::coming;
}

// Those of the forward's end first.
void ActivationOffload::fetch_ahead(Device& device) {
  std::size_t coming = 0;
  for (const OffloadGroup& group : *groups_) coming += group.where == OffloadGroup::Where::coming ? 1 : 0;
  for (auto group = groups_->rbegin(); group != groups_->rend() && coming < ahead_; ++group)
    if (group->where == OffloadGroup::Where::host) fetch(device, *group), ++coming;
}

void ActivationOffload::bring_back(Device& device, int number) {
  if (number < 0) return;
  OffloadGroup& group = groups_->at(static_cast<std::size_t>(number));
  if (group.where == OffloadGroup::Where::device) return;
  if (group.where == OffloadGroup::Where::host) fetch(device, group);
  for (OffloadGroup::Moved& moved : group.moved) moved.copy->wait();
  group.moved.clear();
  group.where = OffloadGroup::Where::device;
  fetch_ahead(device);
}

}  // namespace mbench::nn
