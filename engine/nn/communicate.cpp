#include "engine/nn/communicate.h"

namespace mbench {

namespace {

// Where a gather goes: a tensor of its own, or for a brief use the global buffer if the graph has one.
Tensor gathered(Context& c, const Tensor& x, bool brief) {
  Shape shape = x.shape();
  shape[0] *= c.tp.size();
  if (brief && c.graph().global_buffer) return c.buffer.get(c.device, shape, x.dtype());
  return c.activation(shape, "gathered activations");
}

Tensor scattered(Context& c, const Tensor& x) {
  Shape shape = x.shape();
  shape[0] /= c.tp.size();
  return c.activation(shape, "scattered activations");
}

}  // namespace

Tensor communicate(Context& c, Collective collective, const Tensor& x) {
  switch (collective) {
    case Collective::none:
      return x;
    case Collective::all_reduce:
      c.tp.all_reduce(x);
      return x;
    case Collective::all_gather: {
      const Tensor out = gathered(c, x, false);
      c.tp.all_gather(x, out);
      return out;
    }
    case Collective::reduce_scatter: {
      const Tensor out = scattered(c, x);
      c.tp.reduce_scatter(x, out);
      return out;
    }
    case Collective::split:
      return x.slice(c.tp.rank() * (x.shape()[0] / c.tp.size()), x.shape()[0] / c.tp.size());
  }
  return x;
}

Tensor communicate_briefly(Context& c, Collective collective, const Tensor& x) {
  if (collective != Collective::all_gather) return communicate(c, collective, x);
  const Tensor out = gathered(c, x, true);
  c.tp.all_gather(x, out);
  return out;
}

Communication::Communication(Context& c, Collective collective, const Tensor& x, Use use) {
  switch (collective) {
    case Collective::all_reduce:
      x_ = x;
      pending_ = c.tp.start_all_reduce(x);
      return;
    case Collective::all_gather:
      source_ = x;
      x_ = gathered(c, x, use == Use::brief);
      pending_ = c.tp.start_all_gather(x, x_);
      return;
    case Collective::reduce_scatter:
      source_ = x;
      x_ = scattered(c, x);
      pending_ = c.tp.start_reduce_scatter(x, x_);
      return;
    case Collective::none:
    case Collective::split:
      x_ = communicate(c, collective, x);
  }
}

Tensor Communication::finish() {
  if (pending_) pending_->wait();
  source_.reset();
  return std::move(x_);
}

}  // namespace mbench
