#include "engine/train/inputs.h"

#include "engine/nn/runtime/replicas.h"
#include "engine/ops/attention_mask.h"
#include "engine/ops/run.h"

namespace mbench::train {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

// Of values for [positions, batch], those of the share's.
template <class T>
std::vector<T> rows_of(const SequenceShare& share, const std::vector<T>& all, std::int64_t batch) {
  std::vector<T> mine;
  mine.reserve(static_cast<std::size_t>(share.rows() * batch));
  for (std::int64_t row = 0; row < share.rows(); ++row) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(share.position(row) * batch);
    mine.insert(mine.end(), at, at + static_cast<std::ptrdiff_t>(batch));
  }
  return mine;
}

// [batch, positions] -> [chunks, batch, positions of a chunk].
std::vector<std::uint8_t> chunk_by_chunk(const std::vector<std::uint8_t>& all, std::int64_t batch,
                                         std::int64_t chunks) {
  const std::int64_t seq = static_cast<std::int64_t>(all.size()) / batch, length = seq / chunks;
  std::vector<std::uint8_t> out;
  out.reserve(all.size());
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(b * seq + chunk * length);
      out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(length));
    }
  return out;
}

}  // namespace

StepInputs::StepInputs(nn::Context& context, int stage, int dp_rank, const Tensor& losses, const TokenSource* data)
    : plan_(context.plan), device_(context.device), context_(context), dp_rank_(dp_rank), losses_(losses) {
  open_loader(data, stage);
}

void StepInputs::keep_all() {
  for (int micro = 0; micro < plan_.training.micro_batches; ++micro) kept_.push_back(allocate(micro));
}

void StepInputs::write_kept(float loss_scale) {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    device_.host_work(HostWork::micro_batch);
    write(kept_[i], static_cast<int>(i), loss_scale);
  }
}

// Steps take batches as their forwards come, or all before they are replayed.
void StepInputs::open_loader(const TokenSource* data, int stage) {
  const bool replicated = nn::is_replicated(context_);
  if (!data || (replicated && dp_rank_ > 0)) return;  // the first replica has the samples of all
  const TrainingPlan& p = plan_.training;
  std::vector<int> order;
  if (plan_.capture)
    for (int micro = 0; micro < p.micro_batches; ++micro) order.push_back(micro);
  else
    for (const Action& a : plan_.schedule[static_cast<std::size_t>(stage)])
      if (a.kind == Action::Kind::forward && a.part == 0) order.push_back(a.micro);
  loader_ = std::make_unique<Loader>(
      [this, data, replicated](std::int64_t step, int micro) {
        const TrainingPlan& t = plan_.training;
        const auto make = [&](std::int64_t first) {
          return make_batch(*data, plan_.model, t.seed, step, first, t.micro_batch, t.seq, t.positions_by());
        };
        if (!replicated) return make(first_sample(micro));
        std::vector<HostBatch> of_replicas;
        for (int r = 0; r < plan_.mesh.size(kBatchAxes); ++r)
          of_replicas.push_back(make(first_sample(micro) + r * t.micro_batch));
        return join(of_replicas);
      },
      std::move(order), plan_.loader.workers);
}

std::int64_t StepInputs::first_sample(int micro) const {
  return (static_cast<std::int64_t>(micro) * plan_.mesh.size(kBatchAxes) + dp_rank_) * plan_.training.micro_batch;
}

nn::MicroBatch StepInputs::allocate(int micro) {
  const TrainingPlan& p = plan_.training;
  const ModelParts& parts = plan_.model.parts();
  const SequenceShare share = context_.share();
  const std::int64_t b = p.micro_batch;
  nn::MicroBatch batch;
  batch.sample0 = first_sample(micro);
  const auto make = [&](const Shape& shape, DType dtype, const char* what) {
    return device_.empty(shape, dtype, Category::activations, what);
  };
  const Shape rows{share.rows(), b};
  // What the loss is computed of: of replicas of one process the first has that of all.
  const bool replicated = nn::is_replicated(context_), has_loss = !replicated || dp_rank_ == 0;
  const std::int64_t losses = replicated ? plan_.mesh.size(kBatchAxes) : 1;
  batch.tokens = make(rows, DType::i64, "tokens");
  const bool has_words = has_loss && plan_.model.labels == 0;
  if (has_words) batch.labels = make({losses * rows[0], b}, DType::i64, "labels");
  batch.positions = make(rows, DType::i64, "positions");
  if (has_words) batch.weights = make({losses * rows[0], b}, DType::f32, "loss weights");
  for (std::int64_t d = 0; d < plan_.model.mtp_layers; ++d) {
    nn::MicroBatch::Ahead& ahead = batch.ahead.emplace_back();
    ahead.labels = make(rows, DType::i64, "labels further on");
    ahead.weights = make(rows, DType::f32, "their loss weights");
    ahead.loss = losses_.slice((d + 1) * p.micro_batches + micro, 1);
  }
  if (parts.token_types > 0) batch.token_types = make(rows, DType::i64, "token types");
  const bool masked = parts.objective == Objective::masked_words_and_order;
  if (masked) {
    // Attention reads it chunk by chunk, or whole.
    const std::int64_t chunks = share.chunks() == 1 ? 1 : share.chunks() * share.ranks();
    batch.keep = make({chunks, b, p.seq / chunks}, DType::u8, "padding mask");
  }
  if (has_loss && (masked || plan_.model.labels > 0))
    batch.classes = make({losses * b}, DType::i64, "classes of samples");
  batch.loss = losses_.slice(micro, 1);
  if (plan_.capture) batch.factors = make({plan_.model.mtp_layers + 2, 2}, DType::f32, "factors of losses");
  return batch;
}

void StepInputs::write(nn::MicroBatch& batch, int micro, float loss_scale) {
  const TrainingPlan& p = plan_.training;
  const SequenceShare share = context_.share();
  const std::int64_t b = p.micro_batch;
  batch.gradient_scale = loss_scale / static_cast<float>(p.micro_batches * plan_.mesh.size(kBatchAxes));
  // The loss is of one position alone: along cp it is a sum to which the ranks without it add nothing.
  if (batch.classes) batch.classes_inv_weight_sum = context_.has_class_position() ? 1.0f / static_cast<float>(b) : 0.0f;
  const double depth_share = plan_.model.parts().mtp_loss_scaling_factor / static_cast<double>(batch.ahead.size());
  for (nn::MicroBatch::Ahead& ahead : batch.ahead)
    ahead.gradient_scale = batch.gradient_scale * static_cast<float>(depth_share);
  if (nn::is_replicated(context_)) return write_of_all(batch, micro);
  if (!loader_) return;
  HostBatch host = context_.rerun ? loader_->again(context_.step, micro) : loader_->take(context_.step, micro);
  const auto put = [&](const Tensor& t, const auto& values) { device_.write(t, bytes_of(values)); };
  // Of a value for each position, those of this rank's share.
  const auto put_rows = [&](const Tensor& t, const auto& values) {
    share.ranks() > 1 ? put(t, rows_of(share, values, b)) : put(t, values);
  };
  put_rows(batch.tokens, host.tokens);
  put_rows(batch.positions, host.positions);
  if (batch.labels) {
    put_rows(batch.labels, host.labels);
    put_rows(batch.weights, host.weights);
    batch.inv_weight_sum = static_cast<float>(1 / host.weight_sum);
  }
  for (std::size_t d = 0; d < batch.ahead.size(); ++d) {
    put_rows(batch.ahead[d].labels, host.ahead[d].labels);
    put_rows(batch.ahead[d].weights, host.ahead[d].weights);
    batch.ahead[d].inv_weight_sum = static_cast<float>(1 / host.ahead[d].weight_sum);
  }
  if (batch.token_types) put_rows(batch.token_types, host.token_types);
  if (batch.keep) put(batch.keep, chunk_by_chunk(host.keep, b, batch.keep.shape()[0]));
  if (batch.classes) put(batch.classes, host.classes);
  if (batch.factors) write_factors(batch);
}

// The first replica writes what all of them read, and scatters it; what the loss needs stays with it.
void StepInputs::write_of_all(nn::MicroBatch& batch, int micro) {
  const std::int64_t replicas = plan_.mesh.size(kBatchAxes);
  HostBatch host;
  if (loader_) host = loader_->take(context_.step, micro);
  const auto share_out = [&](const Tensor& mine, const auto& values, const char* what) {
    if (!mine) return;
    Tensor all;
    if (dp_rank_ == 0) {
      all = device_.empty({replicas, mine.numel()}, mine.dtype(), Category::activations, what);
      if (loader_) device_.write(all, bytes_of(values));
    }
    nn::scatter_from_first(context_, all, mine);
  };
  share_out(batch.tokens, host.tokens, "tokens of all replicas");
  share_out(batch.positions, host.positions, "positions of all replicas");
  share_out(batch.token_types, host.token_types, "token types of all replicas");
  share_out(batch.keep, host.keep, "padding masks of all replicas");
  batch.inv_weight_sum = 1;
  if (!loader_) return;
  if (batch.labels) device_.write(batch.labels, bytes_of(host.labels));
  if (batch.weights) device_.write(batch.weights, bytes_of(host.weights));
  if (batch.classes) device_.write(batch.classes, bytes_of(host.classes));
}

void StepInputs::write_factors(const nn::MicroBatch& batch) {
  std::vector<float> factors;
  const auto add = [&](float inv_weight_sum, float gradient_scale) {
    factors.push_back(inv_weight_sum);
    factors.push_back(gradient_scale * inv_weight_sum);
  };
  add(batch.inv_weight_sum, batch.gradient_scale);
  for (const nn::MicroBatch::Ahead& ahead : batch.ahead) add(ahead.inv_weight_sum, ahead.gradient_scale);
  add(batch.classes_inv_weight_sum, batch.gradient_scale);
  device_.write(batch.factors, bytes_of(factors));
}

bool StepInputs::brings_mask() const {
  return plan_.keeps().mask_in_batch && plan_.model.parts().objective == Objective::next_token &&
         plan_.mesh.size(Axis::cp) == 1;
}

Tensor StepInputs::document_bounds() {
  const DocumentsOrNone& documents = plan_.training.documents;
  return documents ? context_.document_bounds(documents) : Tensor();
}

// What a forward reads: fetched for it, or there since before the step.
nn::MicroBatch StepInputs::of(int micro, float loss_scale) {
  nn::MicroBatch batch;
  if (plan_.capture) {
    batch = kept_[static_cast<std::size_t>(micro)];
  } else {
    device_.host_work(HostWork::micro_batch);
    batch = allocate(micro);
    write(batch, micro, loss_scale);
  }
  if (plan_.keeps().attention_mask) {
    const TrainingPlan& p = plan_.training;
    batch.attention_mask = device_.empty({batch.keep ? p.micro_batch : 1, p.seq, p.seq}, DType::u8,
                                         Category::activations, "attention mask");
    run(device_, ops::AttentionMask{nn::keys_of(batch), batch.attention_mask, document_bounds()});
  }
  if (brings_mask()) {
    const TrainingPlan& p = plan_.training;
    batch.attention_mask = device_.empty({p.micro_batch, p.seq, p.seq}, DType::u8, Category::activations,
                                         "attention mask of a micro batch");
    run(device_, ops::AttentionMask{Tensor(), batch.attention_mask, document_bounds()});
  }
  return batch;
}

}  // namespace mbench::train
