// Collectives over tp overlapped with the GEMMs that need what arrives or make what leaves. Transformer Engine's
// Userbuffers do this (`--tp-comm-overlap`; its initialize_ub() has these two ways as defaults). Each computes what a
// collective before or after one GEMM would, up to rounding: a GEMM in parts may use another kernel.
#pragma once
#include <functional>

#include "engine/nn/runtime/communicate.h"

namespace mbench::nn {

// Whether gather_by_ring(), or scatter_in_pieces(), carries this out: one exchange over tp, along the sequence.
bool gathers_sequence(const Exchanges& exchanges);
bool scatters_sequence(const Exchanges& exchanges);

// A ring exchange: each rank's own [rows, ...] goes round the ring. `each` gets every rank's rows as soon as they
// arrive, this rank's first, with the row of the whole where they begin. `keep`: returns the whole, [ranks * rows,
// ...]; else what arrived is not kept, and nothing is returned.
using EachPart = std::function<void(const Tensor& part, std::int64_t first)>;
Tensor gather_by_ring(Context& context, const Exchange& exchange, const Tensor& own, bool keep, const EachPart& each);

// A pipeline for an output of shape [rows, batch, out] that is summed over ranks and scattered along rows. `make`
// writes one piece of its columns after the other, from column `first` on: [rows, batch, out / pieces]. Each is in
// flight while the next is made. There are four pieces, or two or one where each must be a multiple of `columns`.
// Returns [rows / ranks, batch, out].
using MakePiece = std::function<void(const Tensor& piece, std::int64_t first)>;
Tensor scatter_in_pieces(Context& context, const Exchange& exchange, const Shape& shape, std::int64_t columns,
                         const MakePiece& make);

}  // namespace mbench::nn
