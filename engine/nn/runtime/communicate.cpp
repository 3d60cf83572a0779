#include "engine/nn/runtime/communicate.h"

#include <optional>
#include <utility>

#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

constexpr std::string_view kReceived = "parts received";

// Of a tensor cut along `dim` into `parts`: [outer, dim, inner], a part [outer, dim / parts * inner].
struct Cut {
  Cut(const Shape& whole, int dim, int parts) : parts(parts) {
    for (int i = 0; i < dim; ++i) outer *= whole[i];
    width = whole.numel() / outer / parts;
  }
  // The parts inside the tensor, and one behind the other.
  ops::Matrix inside(const Tensor& whole) const { return {whole, outer, width, parts * width, 0, width}; }
  ops::Matrix behind(const Tensor& packed) const { return {packed, outer, width, width, 0, outer * width}; }
  std::int64_t parts, outer = 1, width = 0;
};

Tensor like(Context& c, const Tensor& x, const Shape& shape, std::string_view what) {
  return c.device.empty(shape, x.dtype(), Category::activations, what);
}

// The parts of x along `dim` one behind the other along dim 0: what collectives cut.
Tensor packed(Context& c, const Tensor& x, int dim, int parts) {
  check(x.shape()[dim] % parts == 0, "communicate", "dim {} of {}, need a multiple of {}", dim, x.shape(), parts);
  if (dim == 0) return x;
  Shape shape = x.shape();
  shape[0] *= parts;
  shape[dim] /= parts;
  const Tensor out = like(c, x, shape, "parts to send");
  const Cut cut(x.shape(), dim, parts);
  run(c.device, ops::CopyBlocks{cut.inside(x), cut.behind(out), parts});
  return out;
}

// The other way round: `x` has parts one behind the other along dim 0, the result has them side by side along `dim`.
Tensor joined(Context& c, const Tensor& x, int dim, int parts) {
  if (dim == 0) return x;
  Shape shape = x.shape();
  shape[0] /= parts;
  shape[dim] *= parts;
  const Tensor out = like(c, x, shape, kReceived);
  const Cut cut(shape, dim, parts);
  run(c.device, ops::CopyBlocks{cut.behind(x), cut.inside(out), parts});
  return out;
}

// Whether an exchange along the sequence goes through a copy, where activations are [batch, seq, hidden]. PyTorch's functional collectives
// copy the parts of what they scatter, and join what they gathered unless there is one sample.
bool copies(const Context& c, const Exchange& e, const Tensor& x) {
  const bool along_sequence =
      e.axis == Axis::tp && e.dim == 0 && x.shape().rank() == 3 && x.dtype() != DType::i64;  // not experts' numbers
  if (!c.keeps().batch_first || !along_sequence) return false;
  return e.what == Collective::reduce_scatter || (e.what == Collective::all_gather && x.shape()[1] > 1);
}

Tensor copied(Context& c, const Tensor& x, std::string_view what) {
  const Tensor out = like(c, x, x.shape(), what);
  run(c.device, ops::CopyBlocks{ops::Matrix(x), ops::Matrix(out), 1});
  return out;
}

// Of what every rank has, this rank's part along `dim`.
Tensor own_part(Context& c, const comm::Group& group, const Tensor& x, int dim) {
  const std::int64_t size = x.shape()[dim] / group.size();
  if (dim == 0) return x.slice(group.rank() * size, size);
  Shape shape = x.shape();
  shape[dim] = size;
  const Tensor out = like(c, x, shape, "scattered activations");
  const Cut cut(x.shape(), dim, group.size());
  ops::Matrix own = cut.inside(x);
  own.offset = group.rank() * cut.width;
  run(c.device, ops::CopyBlocks{own, cut.behind(out), 1});
  return out;
}

// An exchange with its tensors: collectives work along dim 0, so what lies along another dim is packed before and
// joined after.
class Carried {
 public:
  // `brief`: the result is read once and not kept; a gather along dim 0 then goes into the global buffer, if the graph
  // has one.
  Carried(Context& c, const Exchange& e, const Tensor& x, bool brief)
      : context_(c), exchange_(e), group_(c.groups.over({e.axis})), copies_(copies(c, e, x)) {
    Shape shape = x.shape();
    switch (e.what) {
      case Collective::none:
      case Collective::all_reduce:
        in_ = out_ = x;
        return;
      case Collective::all_gather:
        in_ = x;
        shape[0] *= group_.size();
        out_ = brief && e.dim == 0 && c.keeps().global_buffer ? c.buffer.get(c.device, shape, x.dtype())
                                                              : like(c, x, shape, "gathered activations");
        return;
      case Collective::reduce_scatter:
        in_ = copies_ ? copied(c, x, "parts to send") : packed(c, x, e.dim, group_.size());
        shape[e.dim] /= group_.size();
        out_ = like(c, x, shape, "scattered activations");
        return;
      case Collective::scatter:
        out_ = own_part(c, group_, x, e.dim);
        return;
      case Collective::all_to_all:
        in_ = packed(c, x, e.to_dim, group_.size());
        out_ = like(c, x, in_.shape(), "exchanged activations");
        return;
    }
  }

  void run() const {
    if (const auto c = collective()) group_.run(*c);
  }
  // Null where nothing travels.
  std::unique_ptr<comm::Pending> start() const {
    const auto c = collective();
    return c ? group_.start(*c) : nullptr;
  }
  // Once it has run, as the collective leaves it.
  Tensor arrived() {
    in_.reset();
    return std::move(out_);
  }
  // Once it has run, or what was started has been waited for.
  Tensor result() {
    in_.reset();
    const bool gathers = exchange_.what == Collective::all_gather || exchange_.what == Collective::all_to_all;
    if (gathers && copies_) return copied(context_, std::exchange(out_, Tensor()), kReceived);
    if (gathers && exchange_.dim != 0) return joined(context_, out_, exchange_.dim, group_.size());
    return std::move(out_);
  }

 private:
  std::optional<comm::Collective> collective() const {
    switch (exchange_.what) {
      case Collective::none:
      case Collective::scatter:
        return std::nullopt;
      case Collective::all_reduce:
        return comm::AllReduce{in_};
      case Collective::all_gather:
        return comm::AllGather{in_, out_};
      case Collective::reduce_scatter:
        return comm::ReduceScatter{in_, out_};
      case Collective::all_to_all:
        return comm::AllToAll{in_, out_};
    }
    return std::nullopt;
  }

  Context& context_;
  Exchange exchange_;
  comm::Group& group_;
  bool copies_;
  Tensor in_, out_;
};

Tensor exchange(Context& c, const Exchange& e, const Tensor& x, bool brief) {
  Carried carried(c, e, x, brief);
  carried.run();
  return carried.result();
}

// All but the last.
Tensor first_exchanges(Context& c, const Exchanges& list, Tensor x) {
  for (std::size_t i = 0; i + 1 < list.size(); ++i) x = exchange(c, list[i], x, false);
  return x;
}

}  // namespace

Tensor communicate(Context& c, const Exchanges& list, const Tensor& x) {
  if (list.empty()) return x;
  return exchange(c, list.back(), first_exchanges(c, list, x), false);
}

Tensor communicate_for_each(Context& c, const Exchanges& list, const Tensor& x) {
  if (list.empty()) return x;
  Carried carried(c, list.back(), first_exchanges(c, list, x), false);
  carried.run();
  return carried.arrived();
}

Tensor in_order(Context& c, const Exchanges& list, const Tensor& arrived) {
  return !list.empty() && copies(c, list.back(), arrived) ? copied(c, arrived, kReceived) : arrived;
}

Tensor communicate_briefly(Context& c, const Exchanges& list, const Tensor& x) {
  if (list.empty()) return x;
  return exchange(c, list.back(), first_exchanges(c, list, x), true);
}

class Communication::Started {
 public:
  Started(Context& c, const Exchange& e, const Tensor& x, bool brief)
      : carried_(c, e, x, brief), pending_(carried_.start()) {}
  Tensor finish() {
    if (pending_) pending_->wait();
    return carried_.result();
  }

 private:
  Carried carried_;
  std::unique_ptr<comm::Pending> pending_;
};

Communication::Communication(Context& c, const Exchanges& list, const Tensor& x, Use use) {
  if (list.empty())
    x_ = x;
  else
    started_ = std::make_unique<Started>(c, list.back(), first_exchanges(c, list, x), use == Use::brief);
}

Communication::~Communication() = default;

Tensor Communication::finish() {
  return started_ ? started_->finish() : std::move(x_);
}

}  // namespace mbench::nn
