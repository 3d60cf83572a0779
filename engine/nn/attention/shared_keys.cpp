#include "engine/nn/attention/shared_keys.h"

#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

constexpr std::string_view kShare = "keys and values of other ranks", kGradients = "gradient of shared keys and values";

Shape of_all(Shape share, const comm::Group& ranks) {
  share[0] *= ranks.size();
  return share;
}

// The rank whose share is worked on in that step.
int owner(const comm::Group& ranks, int step) {
  return (ranks.rank() + ranks.size() - step) % ranks.size();
}

Tensor share_in(const Tensor& all, const comm::Group& ranks, int step) {
  const std::int64_t rows = all.shape()[0] / ranks.size();
  return all.slice(owner(ranks, step) * rows, rows);
}

}  // namespace

SharedKeys::SharedKeys(Context& context, KeysBy way, Tensor own)
    : context_(context), way_(way), ranks_(context.groups.over({Axis::cp})), now_(std::move(own)) {}

SharedKeys::~SharedKeys() = default;

Tensor SharedKeys::share(int step) {
  if (way_ == KeysBy::all_gather) {
    if (step == 0) {
      next_ = context_.activation(of_all(now_.shape(), ranks_), kShare);
      arriving_ = ranks_.start(comm::AllGather{now_, next_});
      return now_;
    }
    if (arriving_) {
      arriving_->wait();
      arriving_.reset();
      now_.reset();
    }
    return share_in(next_, ranks_, step);
  }
  if (step > 0) {
    arriving_->wait();
    now_ = std::exchange(next_, Tensor());
  }
  if (step + 1 < ranks_.size()) {
    next_ = context_.activation(now_.shape(), kShare);
    arriving_ = ranks_.start(comm::Shift{now_, next_});
  }
  return now_;
}

SharedKeyGradients::SharedKeyGradients(Context& context, KeysBy way, Shape share)
    : context_(context), way_(way), ranks_(context.groups.over({Axis::cp})), share_(share) {
  if (way_ == KeysBy::all_gather) all_ = zeros(of_all(share, ranks_));
}

SharedKeyGradients::~SharedKeyGradients() = default;

Tensor SharedKeyGradients::zeros(const Shape& shape) const {
  const Tensor t = context_.activation(shape, kGradients);
  run(context_.device, ops::Fill{t, 0});
  return t;
}

Tensor SharedKeyGradients::place(int step, bool zeroed) {
  if (way_ == KeysBy::all_gather) return share_in(all_, ranks_, step);
  return mine_ = zeroed ? zeros(share_) : context_.activation(share_, kGradients);
}

// What the ranks before this one have added to the share that is here.
void SharedKeyGradients::arrived() {
  arriving_->wait();
  arriving_.reset();
  sent_.reset();
}

void SharedKeyGradients::added(int step) {
  if (way_ == KeysBy::all_gather) return;
  if (step == 0) {
    own_ = std::exchange(mine_, Tensor());
    return;
  }
  if (arriving_) {
    arrived();
    run(context_.device, ops::Add{mine_, from_neighbour_, mine_});
  }
  sent_ = std::exchange(mine_, Tensor());
  from_neighbour_ = context_.activation(share_, kGradients);
  arriving_ = ranks_.start(comm::Shift{sent_, from_neighbour_});
}

Tensor SharedKeyGradients::finish() {
  if (way_ == KeysBy::all_gather) {
    const Tensor own = context_.activation(share_, kGradients);
    ranks_.run(comm::ReduceScatter{all_, own});
    all_.reset();
    return own;
  }
  arrived();
  run(context_.device, ops::Add{own_, from_neighbour_, own_});
  from_neighbour_.reset();
  return std::exchange(own_, Tensor());
}

}  // namespace mbench::nn
