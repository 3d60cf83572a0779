// Collectives over tp beside the products that need what arrives or make what leaves, as Userbuffers of Transformer Engine have
// it (`--tp-comm-overlap`; initialize_ub() there has these two ways as its defaults). Each computes what a collective before or
// after one product would, to rounding: a product in parts may be another kernel's.
#pragma once
#include <functional>

#include "engine/nn/communicate.h"

namespace mbench {

// Whether this is what gather_by_ring() carries out, or scatter_in_pieces(): one exchange over tp, along the sequence.
bool gathers_sequence(const Exchanges& exchanges);
bool scatters_sequence(const Exchanges& exchanges);

// A ring exchange: own [rows, ...] of each rank goes round the ring, and `each` gets every rank's rows as soon as they are here,
// this rank's first, with the row of the whole where they begin. `keep`: returns the whole, [ranks * rows, ...]; else what arrived
// is not kept, and nothing is returned.
using EachPart = std::function<void(const Tensor& part, std::int64_t first)>;
Tensor gather_by_ring(Context& context, const Exchange& exchange, const Tensor& own, bool keep, const EachPart& each);

// A pipeline: of an output of shape [rows, batch, out] that is to be summed over ranks and scattered along rows, `make` writes
// one piece of its columns after the other, from column `first` on, [rows, batch, out / pieces]; each travels while the next is
// made. Four pieces, or as many of them as leave a multiple of `columns` to each. Returns [rows / ranks, batch, out].
using MakePiece = std::function<void(const Tensor& piece, std::int64_t first)>;
Tensor scatter_in_pieces(Context& context, const Exchange& exchange, const Shape& shape, std::int64_t columns,
                         const MakePiece& make);

}  // namespace mbench
