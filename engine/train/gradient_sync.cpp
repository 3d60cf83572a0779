#include "engine/train/gradient_sync.h"

#include "engine/ops/ops.h"

namespace mbench {

GradientSync::GradientSync(Device& device, const Plan& plan, ParameterStore& store, Group& dp, Group& tp,
                           Group* tied)
    : device_(device),
      store_(store),
      dp_(dp),
      tp_(tp),
      tied_(tied),
      bucket_elements_(
          static_cast<std::int64_t>(plan.gradient_bucket_bytes / size_of(plan.gradient_dtype()))) {}

void GradientSync::flush() {
  if (begin_ == end_) return;
  pending_.push_back(dp_.start_all_reduce(store_.gradients().part(begin_, {end_ - begin_})));
  begin_ = end_ = 0;
}

void GradientSync::ready(int unit) {
  if (dp_.size() == 1) return;
  const ParameterUnit& u = store_.unit(unit);
  if (begin_ != end_ && u.end != begin_) flush();  // another chunk: not contiguous with what waits
  if (begin_ == end_) end_ = u.end;
  begin_ = u.begin;
  if (end_ - begin_ >= bucket_elements_) flush();
}

void GradientSync::sum_over_tp() {
  if (tp_.size() == 1) return;
  std::vector<const Parameter*> some;
  std::int64_t n = 0;
  for (const auto& p : store_.all())
    if (p->partial_over_tp) some.push_back(p.get()), n += p->local.numel();
  if (n == 0) return;
  // Many small tensors: one collective over a packed copy.
  const Tensor packed = device_.empty({n}, store_.gradients().dtype(), Category::workspace,
                                      "packed gradients of replicated parameters");
  const auto each = [&](auto&& action) {
    std::int64_t at = 0;
    for (const Parameter* p : some) {
      action(p->gradient, packed.part(at, p->local));
      at += p->local.numel();
    }
  };
  each([&](const Tensor& gradient, const Tensor& place) { run(device_, ops::Copy{gradient, place}); });
  tp_.all_reduce(packed);
  each([&](const Tensor& gradient, const Tensor& place) { run(device_, ops::Copy{place, gradient}); });
}

void GradientSync::finish() {
  flush();
  for (auto& p : pending_) p->wait();
  pending_.clear();
  sum_over_tp();
  if (tied_)
    if (const Parameter* word = store_.find("embedding.word")) tied_->all_reduce(word->gradient);
}

}  // namespace mbench
