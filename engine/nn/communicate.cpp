#include "engine/nn/communicate.h"

namespace mbench {

Tensor communicate(Context& c, Collective collective, const Tensor& x) {
  Shape shape = x.shape();
  switch (collective) {
    case Collective::none:
      return x;
    case Collective::all_reduce:
      c.tp.all_reduce(x);
      return x;
    case Collective::all_gather: {
      shape[0] *= c.tp.size();
      const Tensor out = c.activation(shape, "gathered activations");
      c.tp.all_gather(x, out);
      return out;
    }
    case Collective::reduce_scatter: {
      shape[0] /= c.tp.size();
      const Tensor out = c.activation(shape, "scattered activations");
      c.tp.reduce_scatter(x, out);
      return out;
    }
    case Collective::split:
      return x.slice(c.tp.rank() * (shape[0] / c.tp.size()), shape[0] / c.tp.size());
  }
  return x;
}

Tensor communicate_briefly(Context& c, Collective collective, const Tensor& x) {
  if (collective != Collective::all_gather || !c.graph().global_buffer) return communicate(c, collective, x);
  Shape shape = x.shape();
  shape[0] *= c.tp.size();
  const Tensor out = c.buffer.get(c.device, shape, x.dtype());
  c.tp.all_gather(x, out);
  return out;
}

Communication::Communication(Context& c, Collective collective, const Tensor& x) {
  if (collective == Collective::all_reduce) {
    x_ = x;
    pending_ = c.tp.start_all_reduce(x);
  } else {
    x_ = communicate(c, collective, x);
  }
}

Tensor Communication::finish() {
  if (pending_) pending_->wait();
  return std::move(x_);
}

}  // namespace mbench
