#include <utility>

#include "engine/nn/attention/context_attention.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

const Exchanges kToHeads = {{Axis::cp, Collective::all_to_all, 0, 2}},
                kToPositions = {{Axis::cp, Collective::all_to_all, 2, 0}};

class HeadsForPositions final : public AttentionCore {
 public:
  explicit HeadsForPositions(std::unique_ptr<AttentionCore> core) : core_(std::move(core)) {}

  Tensor forward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                 const AttentionParts& parts, Saved& saved) const override {
    {
      const Tensor mine = packed(c, n, "queries, keys and values of all heads");
      const AttentionParts to = parts_in(mine, n);
      copy(c, n, parts.q, to.q, n.group);
      copy(c, n, parts.k, to.k, 1);
      copy(c, n, parts.v, to.v, 1);
      saved.exchanged = communicate(c, kToHeads, mine);
    }
    const AttentionSizes whole = some_heads(c, n);
    const Tensor context = core_->forward(c, batch, site, whole, parts_in(saved.exchanged, whole), saved);
    return communicate(c, kToPositions, context);
  }

  void backward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                const Tensor& dcontext, const AttentionParts&, const AttentionParts& gradients,
                Saved& saved) const override {
    const AttentionSizes whole = some_heads(c, n);
    Tensor dmine;
    {
      const Tensor dwhole = communicate(c, kToHeads, dcontext);
      const Tensor exchanged = std::exchange(saved.exchanged, Tensor());
      const Tensor dexchanged = packed(c, whole, "gradient of all positions");
      core_->backward(c, batch, site, whole, dwhole, parts_in(exchanged, whole), parts_in(dexchanged, whole), saved);
      dmine = communicate(c, kToPositions, dexchanged);
    }
    const AttentionParts from = parts_in(dmine, n);
    copy(c, n, from.q, gradients.q, n.group);
    copy(c, n, from.k, gradients.k, 1);
    copy(c, n, from.v, gradients.v, 1);
  }

  bool keeps_parts() const override { return true; }

 private:
  // Of a group the queries of its heads, key and value side by side.
  static std::int64_t width(const AttentionSizes& n) { return (n.group + 1) * n.qk_dim + n.v_dim; }
  static Tensor packed(Context& c, const AttentionSizes& n, std::string_view what) {
    return c.activation({n.seq, n.batch, n.local_heads / n.group, width(n)}, what);
  }
  static AttentionParts parts_in(const Tensor& t, const AttentionSizes& n) {
    const auto part = [&](std::int64_t first, std::int64_t dim) {
      return ops::Matrix(t, n.seq, dim, n.groups() * width(n), first, width(n));
    };
    const std::int64_t queries = n.group * n.qk_dim;
    return {part(0, n.qk_dim), part(queries, n.qk_dim), part(queries + n.qk_dim, n.v_dim)};
  }
  // `heads` side by side of every group.
  static void copy(Context& c, const AttentionSizes& n, ops::Matrix from, ops::Matrix to, std::int64_t heads) {
    from.cols *= heads;
    to.cols *= heads;
    run(c.device, ops::CopyBlocks{from, to, n.groups()});
  }
  // What this rank has after the exchange.
  static AttentionSizes some_heads(const Context& c, const AttentionSizes& n) {
    const comm::Group& ranks = c.groups.over({Axis::cp});
    AttentionSizes some = n;
    some.seq = n.seq * ranks.size();
    some.local_heads = n.local_heads / ranks.size();
    const std::int64_t first = ranks.rank() * some.local_heads;
    some.head0 = n.head0 + first;
    if (n.sinks) some.sinks = n.sinks.slice(first, some.local_heads);
    if (n.dsinks) some.dsinks = n.dsinks.slice(first, some.local_heads);  // none yet in a forward
    return some;
  }

  std::unique_ptr<AttentionCore> core_;
};

}  // namespace

std::unique_ptr<AttentionCore> heads_for_positions(std::unique_ptr<AttentionCore> core) {
  return std::make_unique<HeadsForPositions>(std::move(core));
}

}  // namespace mbench::nn
