#include "engine/nn/communicate.h"

namespace mbench {
namespace {

// Where a gather goes: a tensor of its own, or for a brief use the global buffer if the graph has one.
Tensor gathered(Context& c, const Group& group, const Tensor& x, bool brief) {
  Shape shape = x.shape();
  shape[0] *= group.size();
  if (brief && c.graph().global_buffer) return c.buffer.get(c.device, shape, x.dtype());
  return c.activation(shape, "gathered activations");
}

Tensor scattered(Context& c, const Group& group, const Tensor& x) {
  Shape shape = x.shape();
  shape[0] /= group.size();
  return c.activation(shape, "scattered activations");
}

void need_dim_0(const Exchange& e) {
  check(e.dim == 0, "communicate", "{} along dim {}, need dim 0", name_of(e.what), e.dim);
}

Tensor exchange(Context& c, const Exchange& e, const Tensor& x, bool brief) {
  Group& group = c.groups.over({e.axis});
  switch (e.what) {
    case Collective::none:
      return x;
    case Collective::all_reduce:
      group.all_reduce(x);
      return x;
    case Collective::all_gather: {
      need_dim_0(e);
      const Tensor out = gathered(c, group, x, brief);
      group.all_gather(x, out);
      return out;
    }
    case Collective::reduce_scatter: {
      need_dim_0(e);
      const Tensor out = scattered(c, group, x);
      group.reduce_scatter(x, out);
      return out;
    }
    case Collective::scatter: {
      need_dim_0(e);
      const std::int64_t part = x.shape()[0] / group.size();
      return x.slice(group.rank() * part, part);
    }
    case Collective::all_to_all:
      break;
  }
  fail(ErrorKind::internal, "communicate", "no way to carry out {}", name_of(e.what));
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

Tensor communicate_briefly(Context& c, const Exchanges& list, const Tensor& x) {
  if (list.empty()) return x;
  return exchange(c, list.back(), first_exchanges(c, list, x), true);
}

Communication::Communication(Context& c, const Exchanges& list, const Tensor& before, Use use) {
  if (list.empty()) {
    x_ = before;
    return;
  }
  const Tensor x = first_exchanges(c, list, before);
  const Exchange& last = list.back();
  Group& group = c.groups.over({last.axis});
  switch (last.what) {
    case Collective::all_reduce:
      x_ = x;
      pending_ = group.start_all_reduce(x);
      return;
    case Collective::all_gather:
      need_dim_0(last);
      source_ = x;
      x_ = gathered(c, group, x, use == Use::brief);
      pending_ = group.start_all_gather(x, x_);
      return;
    case Collective::reduce_scatter:
      need_dim_0(last);
      source_ = x;
      x_ = scattered(c, group, x);
      pending_ = group.start_reduce_scatter(x, x_);
      return;
    default:
      x_ = exchange(c, last, x, use == Use::brief);
  }
}

Tensor Communication::finish() {
  if (pending_) pending_->wait();
  source_.reset();
  return std::move(x_);
}

}  // namespace mbench
