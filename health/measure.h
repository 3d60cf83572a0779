// Measures the ranks of a job and the links between them, all ranks at once, as they are in training.
//
// Of each rank it measures
//
//   - A large GEMM in each precision, in TFLOP/s. Every element of the result is checked. One in FP64 where the caller has it.
//   - The bandwidth of its memory, in GB/s of a sum of two tensors that no cache holds. Bytes are as the op's cost counts them.
//   - The time of an op of 16 KiB, in us.
//
// Of each group of a scope it measures the collectives of collectives.h on f32, by size. Their data are checked before and after. A
// sample is some calls between a barrier of all ranks and the end of the slowest rank of the group. A figure is the median of samples.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/comm/group.h"
#include "engine/device/fp64_gemm.h"
#include "engine/plan/mesh.h"
#include "health/figures.h"

namespace mbench::health {

// Groups that do the same at the same time.
struct Scope {
  std::string name;
  std::vector<std::vector<int>> groups;  // disjoint, of two ranks or more
};
// All ranks; neighbours in pairs, from the even and from the odd ranks on; and the groups of every axis of the meshes. Of these groups
// there is a scope for each way they lie. The pairs show which rank of a ring is slow. Equal groups are measured under the first name.
std::vector<Scope> scopes_of(int ranks, const std::vector<Mesh>& meshes);

struct MeasureOptions {
  double seconds = 0.2;                              // for each figure of a rank, about
  std::vector<std::int64_t> sizes;                   // bytes of collectives, ascending
  std::function<void(const std::string&)> progress;  // on rank 0: what is measured next
  MakeFp64Gemm fp64_gemm;                            // null: not measured
};

// All ranks of the world call it; every one gets all figures.
std::vector<Figure> measure(Device& device, comm::World& world, const std::vector<Scope>& scopes,
                            const MeasureOptions& options);

// 4 KiB, then 16 times as many each time, up to `most`.
std::vector<std::int64_t> sizes_up_to(std::int64_t most);

}  // namespace mbench::health
