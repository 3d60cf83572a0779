// The update of optimizer state that lives in host memory, as in ZeRO-Offload (Ren et al. 2021, section 4). Gradients
// come over chunk by chunk, each overlapped with the host's work on the one before. Where the weights live on the
// device, those of a chunk go back overlapped with the work on the chunks after it.
//
// The host has room for two chunks of gradients, and for two of weights that are converted for the device.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/device/device.h"

namespace mbench::train {

class HostUpdate {
 public:
  // Elements that go over at once: far above what a copy's start costs, far below what host memory holds.
  static constexpr std::int64_t kChunk = std::int64_t{1} << 20;

  // `largest`: the most elements of a piece. `gradients`: their type on the device; none where they are on the host. `converted`: the type
  // of the device's weights, if they are not the f32 ones that are updated.
  HostUpdate(Device& device, std::int64_t largest, std::optional<DType> gradients, std::optional<DType> converted,
             std::int64_t chunk = kChunk);

  struct Piece {
    Tensor gradients;  // on the device, or on the host
    Tensor weights;    // there, to be replaced by the updated ones; empty where weights live on the host
  };
  struct Chunk {
    std::size_t piece;
    std::int64_t begin, size;  // of the piece
    Tensor gradients;          // on the host
    Tensor converted;          // room for what the device gets; empty where nothing is converted
  };
  // Updates a chunk on the host and returns what the device gets of it. The result is not read where the device gets
  // nothing.
  using Update = std::function<Tensor(const Chunk&)>;
  // All chunks of the pieces, in order. What is enqueued on the device afterwards comes after the last copy.
  void run(const std::vector<Piece>& pieces, const Update& update);

 private:
  Device& device_;
  std::int64_t chunk_;
  std::array<Tensor, 2> gradients_, converted_;  // on the host
};

}  // namespace mbench::train
