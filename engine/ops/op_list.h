// All ops by name. Their definitions are in ops.h, which a source includes that makes or reads them: a kernel needs only the names.
#pragma once
#include <array>
#include <cstddef>
#include <type_traits>

namespace mbench {

template <class... Op>
struct OpList {};

namespace ops {

using All =
    OpList<struct Matmul, struct BiasAdd, struct BiasGrad, struct LayerNorm, struct LayerNormGrad, struct BiasGelu,
           struct BiasGeluGrad, struct Dropout, struct DropoutGrad, struct BiasDropoutAdd, struct AttentionMask,
           struct Softmax, struct SoftmaxGrad, struct Attention, struct AttentionGrad, struct AttentionMerge,
           struct Embedding, struct EmbeddingGrad, struct RowMax, struct ExpSum, struct CrossEntropyLoss,
           struct CrossEntropyGrad, struct Adam, struct ClipScale, struct AdamBlockwise, struct AdafactorSums,
           struct AdafactorMoments, struct AdafactorSquares, struct AdafactorUpdate, struct Sgd, struct SumSquares,
           struct Add, struct Copy, struct Fill, struct RandomNormal, struct Tanh, struct TanhGrad, struct CopyBlocks,
           struct RmsNorm, struct RmsNormGrad, struct Rotary, struct SwiGlu, struct SwiGluGrad, struct SquaredRelu,
           struct SquaredReluGrad, struct GeluErf, struct GeluErfGrad, struct DispatchPlan, struct DispatchGrad,
           struct Combine, struct CombineGrad, struct Route, struct RouteGrad, struct RouterLoss, struct AddCounts,
           struct MoveCorrection, struct ExpertRanks, struct Dispatch, struct GroupedMatmul, struct SumBlocks,
           struct AbsMax, struct Fp8Scale, struct ScaleRows, struct ScaleRowsGrad, struct UpdateScales, struct Quantise,
           struct QuantiseBlocks, struct Fp8Transpose, struct Fp8Matmul, struct BlockMaxima, struct QuantisePart,
           struct Activate, struct ActivateGrad, struct Scale, struct Softcap, struct SoftcapGrad, struct Sigmoid,
           struct SigmoidGrad, struct AttentionSink, struct AttentionSinkGrad, struct MaxExpSum, struct ExpertBias,
           struct ExpertBiasGrad, struct MuonMomentum, struct MuonNormalise, struct MuonUpdate, struct CausalConv,
           struct CausalConvGrad, struct StateScan, struct StateScanGrad, struct GatedNorm, struct GatedNormGrad,
           struct DeltaScan, struct DeltaScanGrad, struct ColumnGate, struct ColumnGateGrad, struct QuantiseNf4,
           struct DequantiseNf4, struct QuantiseScales, struct DequantiseScales, struct HeadNorm, struct HeadNormGrad,
           struct XIelu, struct XIeluGrad, struct SelectiveScan, struct SelectiveScanGrad, struct ShortConv,
           struct ShortConvGrad, struct ScaleColumns>;

}  // namespace ops

using AllOps = ops::All;

template <class... Op>
constexpr std::size_t count_of(OpList<Op...>) {
  return sizeof...(Op);
}

// Where `Wanted` stands in the list; the length of the list if it is no part of it.
template <class Wanted, class... Op>
constexpr std::size_t place_of(OpList<Op...>) {
  const std::array<bool, sizeof...(Op)> found{std::is_same_v<Wanted, Op>...};
  std::size_t place = 0;
  while (place < found.size() && !found[place]) ++place;
  return place;
}

}  // namespace mbench
