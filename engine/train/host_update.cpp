#include "engine/train/host_update.h"

#include <algorithm>

namespace mbench::train {

HostUpdate::HostUpdate(Device& device, std::int64_t largest, std::optional<DType> gradients,
                       std::optional<DType> converted, std::int64_t chunk)
    : device_(device), chunk_(std::min(chunk, largest)) {
  if (gradients)
    for (Tensor& t : gradients_)
      t = device.host().empty({chunk_}, *gradients, Category::gradients, "gradients of a chunk");
  if (!converted) return;
  for (Tensor& t : converted_)
    t = device.host().empty({chunk_}, *converted, Category::weights, "updated weights of a chunk");
}

void HostUpdate::run(const std::vector<Piece>& pieces, const Update& update) {
  const bool on_host = !gradients_[0];
  std::vector<Chunk> chunks;
  for (std::size_t p = 0; p < pieces.size(); ++p)
    for (std::int64_t begin = 0, all = pieces[p].gradients.numel(); begin < all; begin += chunk_) {
      const std::size_t turn = chunks.size() % 2;
      const std::int64_t size = std::min(chunk_, all - begin);
      chunks.push_back({p, begin, size,
                        on_host ? pieces[p].gradients.part(begin, {size}) : gradients_[turn].part(0, {size}),
                        converted_[turn] ? converted_[turn].part(0, {size}) : Tensor()});
    }
  std::array<std::unique_ptr<HostCopy>, 2> coming, going;
  const auto fetch = [&](std::size_t i) {
    if (on_host) return;
    const Chunk& c = chunks[i];
    coming[i % 2] =
        device_.start_copy(CopyWay::to_host, pieces[c.piece].gradients.part(c.begin, {c.size}), c.gradients);
  };
  if (!chunks.empty()) fetch(0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& c = chunks[i];
    if (i + 1 < chunks.size()) fetch(i + 1);
    if (coming[i % 2]) coming[i % 2]->wait_on_host();
    if (c.converted && going[i % 2]) going[i % 2]->wait_on_host();
    const Tensor updated = update(c);
    if (const Tensor& weights = pieces[c.piece].weights)
      going[i % 2] = device_.start_copy(CopyWay::to_device, updated, weights.part(c.begin, {c.size}));
  }
  for (const auto& copy : going)
    if (copy) copy->wait();
}

}  // namespace mbench::train
