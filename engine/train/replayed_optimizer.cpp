// The optimizer's step where it is replayed (engine/train/optimizer.h): the same arithmetic, of numbers in the device's
// memory.
#include <array>
#include <cmath>

#include "engine/ops/adam.h"
#include "engine/ops/clip_scale.h"
#include "engine/ops/run.h"
#include "engine/train/optimizer.h"

namespace mbench::train {

void Optimizer::prepare() {
  if (!device_.real()) return;
  const ops::Adam adam;
  const std::int64_t step = steps_taken_ + 1;  // unless it is skipped, which changes nothing
  std::array<float, ops::kStepGradScale> known{};
  known[ops::kStepRate] = learning_rate();
  known[ops::kStepMScale] = ops::bias_correction(adam.beta1, step);
  known[ops::kStepVScale] = ops::bias_correction(adam.beta2, step);
  known[ops::kStepUnscale] = 1 / scaler_.scale();
  device_.write(by_step_.slice(0, ops::kStepGradScale), std::as_bytes(std::span(known)));
}

void Optimizer::enqueue() {
  std::vector<Tensor> gradients;
  // As they are stored: the loss scale, a power of two, is undone with the clipping, to the same bits.
  if (copies_gradients())
    gradients = in_f32(1);
  else
    for (const Piece& piece : pieces_) gradients.push_back(piece.gradients);
  sum_squares(gradients);
  run(device_, ops::ClipScale{norm_, by_step_, static_cast<float>(plan_.training.clip_grad)});
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    ops::Adam adam{piece.main, gradients[i], piece.states[0], piece.states[1], piece.model};
    adam.weight_decay = static_cast<float>(plan_.training.weight_decay);
    adam.undecayed = piece.undecayed;
    adam.by_step = by_step_;
    run(device_, adam);
  }
}

Optimizer::Outcome Optimizer::settle() {
  Outcome outcome;
  outcome.gradient_norm = device_.read(by_step_.slice(ops::kStepNorm, 1), 1.0f);
  const bool overflow = !std::isfinite(outcome.gradient_norm);
  outcome.skipped = overflow && plan_.precision.loss_scaling;
  scaler_.update(outcome.skipped);
  ++steps_seen_;
  if (!overflow) ++steps_taken_;
  return outcome;
}

}  // namespace mbench::train
