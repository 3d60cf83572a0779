#include "engine/nn/runtime/tensor_overlap.h"

#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// Of the columns of an output: num_splits of initialize_ub().
constexpr std::int64_t kPieces = 4;

std::int64_t pieces_of(std::int64_t width, std::int64_t columns) {
  std::int64_t pieces = kPieces;
  while (pieces > 1 && width % (pieces * columns) != 0) pieces /= 2;
  return pieces;
}

bool is_one(const Exchanges& exchanges, Collective what) {
  return exchanges.size() == 1 && exchanges.front() == Exchange{Axis::tp, what, 0};
}

}  // namespace

bool gathers_sequence(const Exchanges& exchanges) {
  return is_one(exchanges, Collective::all_gather);
}
bool scatters_sequence(const Exchanges& exchanges) {
  return is_one(exchanges, Collective::reduce_scatter);
}

Tensor gather_by_ring(Context& c, const Exchange& e, const Tensor& own, bool keep, const EachPart& each) {
  comm::Group& ranks = c.groups.over({e.axis});
  const std::int64_t rows = own.shape()[0], n = ranks.size();
  Shape shape = own.shape();
  shape[0] *= n;
  Tensor whole = !keep && c.keeps().global_buffer
                     ? c.buffer.get(c.device, shape, own.dtype())
                     : c.device.empty(shape, own.dtype(), Category::activations, "gathered activations");
  if (keep) c.device.copy(own, whole.slice(ranks.rank() * rows, rows));
  const OneCall call(c.device, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t first = (ranks.rank() - i + n) % n * rows, next = (ranks.rank() - i - 1 + n) % n * rows;
    const Tensor part = i == 0 ? own : whole.slice(first, rows);
    const std::unique_ptr<comm::Pending> travelling =
        i + 1 < n ? ranks.start(comm::Shift{part, whole.slice(next, rows)}) : nullptr;
    each(part, first);
    if (travelling) travelling->wait();
  }
  return keep ? std::move(whole) : Tensor();
}

Tensor scatter_in_pieces(Context& c, const Exchange& e, const Shape& shape, std::int64_t columns,
                         const MakePiece& make) {
  comm::Group& ranks = c.groups.over({e.axis});
  const std::int64_t n = ranks.size(), pieces = pieces_of(shape[2], columns), width = shape[2] / pieces;
  Shape piece = shape, mine = shape;
  piece[2] = mine[2] = width;
  mine[0] /= n;
  struct Travelling {
    Tensor made, arrived;
    std::unique_ptr<comm::Pending> pending;
  };
  std::vector<Travelling> all;
  const OneCall call(c.device, pieces);
  for (std::int64_t i = 0; i < pieces; ++i) {
    Travelling t{c.activation(piece, "a piece of a linear output"),
                 c.activation(mine, "a piece of scattered activations"), nullptr};
    make(t.made, i * width);
    t.pending = ranks.start(comm::ReduceScatter{t.made, t.arrived});
    all.push_back(std::move(t));
  }
  Shape scattered = mine;
  scattered[2] = shape[2];
  const Tensor out = pieces == 1 ? all.front().arrived : c.activation(scattered, "scattered activations");
  for (std::int64_t i = 0; i < pieces; ++i) {
    Travelling& t = all[static_cast<std::size_t>(i)];
    t.pending->wait();
    t.made.reset();
    if (pieces == 1) break;
    const std::int64_t tokens = t.arrived.shape().rows();
    run(c.device, ops::CopyBlocks{ops::Matrix(t.arrived), ops::Matrix(out, tokens, width, shape[2], i * width, 0), 1});
    t.arrived.reset();
  }
  return out;
}

}  // namespace mbench::nn
