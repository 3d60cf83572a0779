// How long a kernel takes on a device of a machine file. One model for all products and one for all traffic:
//
// Products. The output is cut into tiles that run in waves over the multiprocessors; a tile costs its FLOPs,
// of k + k_overhead, at the multiprocessor's share of the sustained peak times the tile's efficiency. Too few
// tiles may be split along k, at the cost of adding the parts up. The best tile of the machine's list counts.
// Tile and wave quantisation are what makes small and ragged products slow. Everything else, and a lower
// bound for products: bytes at the bandwidth a large kernel reaches, FLOPs at the f32 peak. Every kernel
// takes at least the machine's kernel latency besides.
//
// Host memory. A copy between it and a device goes at the link's rate or the share of the host memory's bandwidth that a rank
// of a full node has, whichever is less. What the host computes there streams at that share times what Adam reaches of it.
// Where the device is the host, both are what its own kernels take.
//
// Where the machine's file has tables of what was measured on it (measured.h), an op that they have takes what they say, as many
// ranks as there are on the node, and so does a product of a dtype that they have.
#pragma once
#include <optional>
#include <string_view>
#include <unordered_map>

#include "engine/base/dtype.h"
#include "engine/device/meter.h"
#include "engine/sim/machine.h"

namespace mbench::sim {

struct GemmSize {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::f32;
  bool accumulates = false;  // adds to an f32 result
  GemmForm form = GemmForm::nn;
  bool operator==(const GemmSize&) const = default;
};

class CostModel {
 public:
  // `share`: the part of the device that one rank has (1 but on a machine whose ranks share one processor).
  // `framework`: whose kernels run. `precision`: with tf32, products of f32 run on the units for that.
  // `fills`: whether new tensors are filled before they are written.
  // `ranks_on_node`: among how many a node's host memory and processors are divided.
  CostModel(const Machine& machine, const Framework& framework, double share, Precision precision = Precision::f32,
            int ranks_on_node = 1, bool fills = false);

  double gemm_seconds(const GemmSize& size, const Cost& cost);
  // What an epilogue adds to its product; `cost` is that of the ops it stands for. On a GPU its arithmetic,
  // on the f32 units between a tile's last product and its store, and the product's cost() has its bytes; on
  // the CPU, whose library has no epilogues, it is those ops.
  double epilogue_seconds(const Cost& cost) const;
  double attention_seconds(const AttentionSize& size, const Cost& cost, DType dtype, bool backward) const;
  double streaming_seconds(const Cost& cost) const;
  double fill_seconds(double bytes) const { return traffic(bytes) + machine_.device.kernel_latency; }
  bool fills() const { return fills_; }
  bool measures_ops() const { return tables_ && !tables_->ops.empty(); }
  // What tables say of an op of that name; nothing where they do not have it.
  std::optional<double> measured_seconds(std::string_view op, const Cost& cost) const;
  double host_seconds(const Cost& cost) const;
  double host_copy_seconds(double bytes) const;
  // Bytes of host memory that a rank may have; 0: no limit is known.
  std::uint64_t host_memory() const { return machine_.host.memory_bytes / static_cast<std::uint64_t>(ranks_on_node_); }

 private:
  struct Hash {
    std::size_t operator()(const GemmSize& s) const {
      std::size_t h = static_cast<std::size_t>(s.dtype) * 2 + s.accumulates;
      for (const std::int64_t v : {s.m, s.n, s.k, s.batch}) h = h * 1000003u ^ static_cast<std::size_t>(v);
      return h;
    }
  };
  double traffic(double bytes) const { return bytes / bandwidth_; }
  double tiled(const GemmSize& size) const;
  std::optional<double> measured_gemm(const GemmSize& size) const;
  Precision units_of(DType dtype) const;
  double sustained_flops(DType dtype) const;

  Machine machine_;
  double share_;
  int ranks_on_node_;
  bool fills_;
  bool tf32_;
  Precision precision_;
  const RankTables* tables_ = nullptr;  // of so many ranks on a node, or null; their times are that much longer
  double longer_ = 1;
  double bandwidth_;  // of products
  double streaming_;  // of everything else
  double f32_flops_;
  AttentionKernels attention_;
  std::unordered_map<GemmSize, double, Hash> gemms_;  // a model has a handful of shapes
};

}  // namespace mbench::sim
