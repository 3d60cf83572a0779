#include "engine/train/gradient_sync.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/device/on_stream.h"
#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/plan/framework.h"

namespace mbench::train {
namespace {

// DeepSpeed's stage 3 takes a norm of so many elements at a time (stage3.py, _constant_buffered_norm2).
constexpr std::int64_t kNormPiece = 250'000'000;

constexpr Axes kModelAxes{Axis::tp, Axis::etp, Axis::ep};

}  // namespace

GradientSync::GradientSync(Device& device, const Plan& plan, nn::ParameterStore& store, const nn::Groups& groups)
    : device_(device),
      store_(store),
      groups_(groups),
      bucket_elements_(static_cast<std::int64_t>(plan.gradient_bucket_bytes / size_of(plan.precision.gradients))),
      overlap_(plan.overlap_grad_reduce) {
  const GradientBuckets& buckets = plan.framework->buckets;
  most_travelling_ = buckets.one && !store.state().weights.sharded() ? 0 : 1;
  const auto travels = [](const auto& p) { return !(p->reduce_over & kDataAxes).empty(); };
  if (buckets.separate && !store.state().gradients.sharded() && store.state().cut != StatePlan::Cut::first &&
      std::ranges::any_of(store.all(), travels))
    buckets_ =
        device.empty(store.gradients().shape(), plan.precision.gradients, Category::gradients, "gradients in buckets");
  if (buckets.whole && store.state().weights.sharded() && std::ranges::any_of(store.all(), travels))
    room_ = device.empty({bucket_elements_}, plan.precision.gradients, Category::gradients, "bucket of gradients");
  for (const auto& p : store.all()) largest_ = std::max(largest_, p->local.numel());
  if (buckets.flat && store.state().weights.sharded())
    flat_elements_ = std::min<std::int64_t>(bucket_elements_, store_.layout().size());
  norm_in_f64_ = buckets.norm_in_f64 && store.state().weights.sharded();
  for (const nn::StateLayout::Bucket& b : store.layout().buckets()) units_left_.push_back(b.units.size());
  if (store.state().gradients_at == Residence::device) return;
  std::int64_t largest = 0;
  for (const nn::StateLayout::Own& own : store.layout().own()) largest = std::max(largest, own.size());
  landing_ = device.host().empty({largest}, plan.precision.gradients, Category::gradients, "gradients that have come");
}

void GradientSync::ready(int unit, bool last) {
  if (store_.state().cut == StatePlan::Cut::first) return;
  if (overlap_)
    reduce(unit, last);
  else if (last)
    later_.push_back(unit);
}

void GradientSync::reduce(int unit, bool last) {
  if (store_.state().gradients.sharded() || (store_.state().sharded() && last)) {
    const std::vector<int>& buckets = store_.layout().buckets_of(unit);
    for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) fill(*b, last);
  } else if (last) {
    add_runs(unit);
  }
}

void GradientSync::flush(nn::StateLayout::Run& bucket) {
  if (bucket.begin == bucket.end) return;
  const Tensor gradients = store_.gradients().part(bucket.begin, {bucket.size()});
  pending_.push_back(groups_.over(bucket.data).start(comm::AllReduce{in_bucket(gradients, bucket.begin)}));
  if (buckets_) copied_.push_back(bucket);
  bucket = {};
}

Tensor GradientSync::in_bucket(const Tensor& gradients, std::int64_t begin) {
  if (!buckets_) return gradients;
  const Tensor place = buckets_.part(begin, gradients.shape());
  run(device_, ops::Copy{gradients, place});
  return place;
}

void GradientSync::out_of_bucket(const Tensor& gradients, std::int64_t begin) {
  if (buckets_) run(device_, ops::Copy{buckets_.part(begin, gradients.shape()), gradients});
}

void GradientSync::add_runs(int unit) {
  const auto& runs = store_.layout().runs(unit);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->data.empty()) continue;
    nn::StateLayout::Run& bucket = run->begin < store_.layout().fp8_begin() ? bucket_ : fp8_bucket_;
    // Of another chunk, or reduced over other ranks: not one piece with what waits.
    if (bucket.begin != bucket.end && (run->end != bucket.begin || run->data != bucket.data)) flush(bucket);
    if (bucket.begin == bucket.end) bucket = {{run->end, run->end}, run->data};
    bucket.begin = run->begin;
    if (bucket.size() >= bucket_elements_) flush(bucket);
  }
}

// One more of the bucket's units is ready.
void GradientSync::fill(int bucket, bool last) {
  std::size_t& left = units_left_[static_cast<std::size_t>(bucket)];
  if (--left > 0) return;
  left = store_.layout().buckets()[static_cast<std::size_t>(bucket)].units.size();
  if (store_.alone(bucket) && store_.state().gradients_at == Residence::device) {
    store_.drop_gradients(bucket);
    if (last) reduce_between_copies(bucket);
    return;
  }
  start(bucket, last);
  // One is under way beside the backward of the next unit, and one of weights in FP8, which are a bucket of their own of every unit.
  const auto same_kind = [&](const Travelling& t) { return in_fp8(t.bucket) == in_fp8(bucket); };
  if (store_.state().gradients.sharded())
    while (std::ranges::count_if(travelling_, same_kind) > most_travelling_) settle_oldest();
}

bool GradientSync::in_fp8(int bucket) const {
  return store_.layout().buckets()[static_cast<std::size_t>(bucket)].begin >= store_.layout().fp8_begin();
}

void GradientSync::start(int bucket, bool last) {
  const nn::StateLayout::Bucket& all = store_.layout().buckets()[static_cast<std::size_t>(bucket)];
  const Tensor gradients = flattened(bucket, store_.gradients_to_reduce(bucket));
  comm::Group& peers = groups_.over(all.sharers());
  Travelling& travelling = travelling_.emplace_back(Travelling{bucket, last, gradients, {}});
  if (store_.alone(bucket)) return;
  const auto within = [&](const nn::StateLayout::Range& range) {
    return gradients.part(range.begin - all.begin, {range.size()});
  };
  if (all.parts.empty()) {
    const Tensor own = within(store_.layout().own_of(bucket).front());
    auto reduced = peers.start(comm::ReduceScatter{gradients, own});
    if (!store_.state().gradients.sharded())
      reduced = groups_.over(all.copies()).start(comm::AllReduce{own}, std::move(reduced));
    travelling.parts.push_back(std::move(reduced));
  } else if (!store_.state().gradients.sharded())
    travelling.parts.push_back(groups_.over(all.data).start(comm::AllReduce{in_bucket(gradients, all.begin)}));
  else
    for (const nn::StateLayout::Part& part : all.parts)
      travelling.parts.push_back(peers.start(comm::Reduce{within(part), part.owner}));
}

Tensor GradientSync::flattened(int bucket, const Tensor& gradients) {
  // A gradient that fills more than a bucket by itself is reduced where it lies.
  if (gradients.numel() > flat_elements_ || store_.alone(bucket)) return gradients;
  const OnStream reductions(MemoryStream::reductions);
  const Tensor flat =
      device_.empty({flat_elements_}, gradients.dtype(), Category::gradients, "bucket of gradients, flat")
          .part(0, gradients.shape());
  run(device_, ops::Copy{gradients, flat});
  store_.drop_gradients(bucket);
  return flat;
}

void GradientSync::settle_oldest() {
  Travelling oldest = std::move(travelling_.front());
  travelling_.pop_front();
  for (const auto& part : oldest.parts) part->wait();
  const nn::StateLayout::Bucket& all = store_.layout().buckets()[static_cast<std::size_t>(oldest.bucket)];
  const Tensor gradients = std::exchange(oldest.gradients, Tensor());
  if (!store_.state().gradients.sharded()) {
    if (!all.parts.empty()) out_of_bucket(gradients, all.begin);
    return;
  }
  for (const nn::StateLayout::Own& own : store_.layout().own_of(oldest.bucket)) {
    const Tensor sum = store_.own_gradients(own), part = gradients.part(own.begin - all.begin, {own.size()});
    if (store_.state().gradients_at == Residence::host)
      send_to_host(own, part);
    else
      run(device_, ops::Add{sum, part, sum});
  }
  store_.drop_gradients(oldest.bucket);
  if (oldest.last) reduce_between_copies(oldest.bucket);
}

void GradientSync::send_to_host(const nn::StateLayout::Own& own, const Tensor& part) {
  add_on_host();
  const OnStream reductions(MemoryStream::reductions);
  if (norm_in_f64_)
    device_.empty({std::min({part.numel(), largest_, kNormPiece})}, DType::i64, Category::workspace,
                  "gradients in f64, whose norm is taken");
  Sent sent{store_.own_gradients(own),
            device_.empty(part.shape(), part.dtype(), Category::gradients, "gradients that go to the host"),
            landing_.part(0, part.shape()), nullptr};
  run(device_, ops::Copy{part, sent.part});  // the bucket is given back
  sent.copy = device_.start_copy(CopyWay::to_host, sent.part, sent.arrived);
  sent_ = std::move(sent);
}

void GradientSync::add_on_host() {
  if (!sent_) return;
  sent_->copy->wait_on_host();
  run(device_.host(), ops::Add{sent_->there, sent_->arrived, sent_->there});
  sent_.reset();
}

void GradientSync::reduce_between_copies(int bucket) {
  comm::Group& copies = groups_.over(store_.layout().buckets()[static_cast<std::size_t>(bucket)].copies());
  for (const nn::StateLayout::Own& own : store_.layout().own_of(bucket))
    pending_.push_back(copies.start(comm::AllReduce{store_.own_gradients(own)}));
}

// What the others have is lost then: their next backward begins anew.
void GradientSync::reduce_to_first() {
  bool first = true;
  for (int b = static_cast<int>(store_.layout().buckets().size()); b-- > 0;) {
    if (store_.alone(b)) continue;
    comm::Group& peers = groups_.over(store_.layout().buckets()[static_cast<std::size_t>(b)].sharers());
    first = peers.rank() == 0;
    peers.run(comm::Reduce{store_.bucket_gradients(b), 0});
  }
  if (!first) run(device_, ops::Fill{store_.gradients(), 0});
}

void GradientSync::end_of_micro_batch() {
  if (store_.state().cut == StatePlan::Cut::first) return reduce_to_first();
  if (!store_.state().gradients.sharded()) return;
  while (!travelling_.empty()) settle_oldest();
  add_on_host();
}

// Many small tensors: one collective over a packed copy.
void GradientSync::reduce_packed(Axes axes) {
  std::vector<Tensor> some;
  std::int64_t n = 0;
  for (const auto& p : store_.all()) {
    if ((p->reduce_over & kModelAxes) != axes) continue;
    const Tensor gradient = store_.own_gradient(*p);
    if (!gradient) continue;
    some.push_back(gradient);
    n += gradient.numel();
  }
  if (some.empty()) return;  // on all ranks of the group, which own the same parts
  const Tensor packed =
      device_.empty({n}, store_.gradients().dtype(), Category::workspace, "packed gradients of replicated parameters");
  const auto each = [&](auto&& action) {
    std::int64_t at = 0;
    for (const Tensor& gradient : some) {
      action(gradient, packed.part(at, gradient.shape()));
      at += gradient.numel();
    }
  };
  each([&](const Tensor& gradient, const Tensor& place) { run(device_, ops::Copy{gradient, place}); });
  groups_.over(axes).run(comm::AllReduce{packed});
  each([&](const Tensor& gradient, const Tensor& place) { run(device_, ops::Copy{place, gradient}); });
}

void GradientSync::finish() {
  for (const int unit : std::exchange(later_, {})) reduce(unit, true);
  flush(bucket_);
  flush(fp8_bucket_);
  while (!travelling_.empty()) settle_oldest();
  add_on_host();
  for (auto& p : pending_) p->wait();
  pending_.clear();
  for (const nn::StateLayout::Range& range : std::exchange(copied_, {}))
    out_of_bucket(store_.gradients().part(range.begin, {range.size()}), range.begin);
  std::set<Axes> sets;
  for (const auto& p : store_.all())
    if (const Axes axes = p->reduce_over & kModelAxes; !axes.empty()) sets.insert(axes);
  for (const Axes axes : sets) reduce_packed(axes);
  if (comm::Group* ends = groups_.embedding())
    for (const auto& p : store_.all())
      if (p->shared_by_ends)
        if (const Tensor gradient = store_.own_gradient(*p)) ends->run(comm::AllReduce{gradient});
}

}  // namespace mbench::train
