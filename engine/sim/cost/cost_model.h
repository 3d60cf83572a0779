// How long a kernel takes on a device of a machine file. One model serves all GEMMs, and one all traffic.
//
// GEMMs. The output is cut into tiles that run in waves over the multiprocessors. A tile costs its FLOPs, of k + k_overhead, at the
// multiprocessor's share of the sustained peak times the tile's efficiency. Too few tiles may be split along k, at the cost of adding
// up the parts. The best tile of the machine's list counts. Quantisation of tiles and waves is what makes small and ragged GEMMs slow.
//
// Everything else, and a lower bound for GEMMs: bytes at the bandwidth that a large kernel reaches, FLOPs at the f32 peak. The
// machine's kernel latency is added to every kernel.
//
// What a framework does by several kernels where the engine has one op (UnfusedOp) takes as many latencies, and its bytes times the
// framework's traffic.
//
// Host memory. A copy between it and a device runs at the link's rate, or at a rank's share of the host memory's bandwidth, whichever
// is less. The share is that on a full node. What the host computes there streams at that share times the part of it that Adam reaches.
// Where the device is the host, both take what its own kernels take.
//
// The machine's file may have tables measured on it (measured.h). They replace the model for the ops in them and for GEMMs of a dtype
// in them, at the number of ranks on the node.
#pragma once
#include <optional>
#include <string_view>
#include <unordered_map>

#include "engine/base/dtype.h"
#include "engine/device/meter.h"
#include "engine/framework/framework.h"
#include "engine/sim/machine/machine.h"

namespace mbench::sim {

struct GemmSize {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::f32;
  bool accumulates = false;  // adds to an f32 result
  GemmForm form = GemmForm::nn;
  // Of how many GEMMs of its size, on streams of their own, it is one. They fill each other's waves: together they take those of one GEMM
  // of all tiles. Transformer Engine's Userbuffers work so (transformer_engine/common/comm_gemm_overlap): part i goes to stream i modulo
  // their number.
  std::int64_t parts = 1;
  double deviation = 0;  // of m, where that is the mean of rows that are drawn
  bool operator==(const GemmSize&) const = default;
};

class CostModel {
 public:
  // `share`: the part of the device that one rank has (1, except on a machine whose ranks share one processor). `framework`: whose
  // kernels run. `precision`: with tf32, GEMMs of f32 run on the tf32 units. `fills`: whether new tensors are filled before they are
  // written. `ranks_on_node`: how many ranks share a node's host memory and processors.
  CostModel(Machine machine, const Framework& framework, double share, Precision precision = Precision::f32,
            int ranks_on_node = 1, bool fills = false);

  double gemm_seconds(const GemmSize& size, const Cost& cost);
  // What an epilogue adds to its GEMM. `cost` is the cost of the ops that it stands for. On a GPU it adds their arithmetic, on the f32
  // units between a tile's last multiplication and its store; the GEMM's cost() has their bytes. The CPU's library has no epilogues, so
  // there it adds those ops.
  double epilogue_seconds(const Cost& cost) const;
  double attention_seconds(const AttentionSize& size, const Cost& cost, DType dtype, bool backward) const;
  // What attention's gradient takes longer where it must give the same bits in every run: cuDNN then writes the gradients of all scores
  // and reads them in another kernel. Nothing for frameworks that do not ask for it.
  double ordered_gradient_seconds(std::int64_t samples, std::int64_t heads, std::int64_t seq) const;
  double streaming_seconds(const Cost& cost) const;
  // The same of what a framework runs in place of one op.
  double streaming_seconds(const Cost& cost, const UnfusedOp& op) const;
  // What the framework runs in place of the op of that name; null where it is one kernel there too.
  const UnfusedOp* unfused(std::string_view op) const;
  double fill_seconds(double bytes) const { return traffic(bytes) + machine_.device.kernel_latency; }
  bool fills() const { return fills_; }
  bool measures_ops() const { return tables_ && !tables_->ops.empty(); }
  // The measured time of an op of that name; nothing where the tables do not have it.
  std::optional<double> measured_seconds(std::string_view op, const Cost& cost) const;
  double host_seconds(const Cost& cost) const;
  double host_copy_seconds(double bytes) const;
  // Bytes of host memory that a rank may have; 0: no limit is known.
  std::uint64_t host_memory() const { return machine_.host.memory_bytes / static_cast<std::uint64_t>(ranks_on_node_); }

 private:
  struct Hash {
    std::size_t operator()(const GemmSize& s) const {
      std::size_t h =
          static_cast<std::size_t>(s.dtype) * 4 + s.accumulates * 2u + static_cast<std::size_t>(s.parts) * 64;
      h = h * 1000003u ^ std::hash<double>()(s.deviation);
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
  const RankTables* tables_ = nullptr;  // for that many ranks on a node, or null; `longer_` multiplies their times
  double longer_ = 1;
  double bandwidth_;  // of GEMMs
  double streaming_;  // of everything else
  double f32_flops_;
  AttentionKernels attention_;
  bool ordered_gradients_;
  double attention_forward_, attention_backward_;  // relative to these kernels
  UnfusedOps unfused_;
  std::unordered_map<GemmSize, double, Hash> gemms_;  // a model has a handful of shapes
};

}  // namespace mbench::sim
