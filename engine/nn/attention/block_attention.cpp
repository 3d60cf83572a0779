#include <algorithm>
#include <utility>

#include "engine/nn/attention/context_attention.h"
#include "engine/nn/attention/shared_keys.h"
#include "engine/ops/add.h"
#include "engine/ops/attention_merge.h"
#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// A chunk of this rank's queries and one of the keys of a share, or all of a rank's own.
struct Block {
  int queries = 0, keys = 0;          // which chunks, of this rank and of the share
  std::int64_t query0 = 0, key0 = 0;  // where they stand in the sequence, in chunks
  bool first = false;                 // of those queries
  int chunks = 1;                     // that it has of each, from those on
};

// Whether a rank's own chunks are one block: only the order of their positions decides what a query sees of them, and nothing else follows
// from where they stand.
bool joins_own(const SequenceShare& share, const AttentionSizes& n, const ops::DropoutSpec& dropout) {
  return share.chunks() > 1 && n.causal && n.window == 0 && !n.alibi && !n.documents && dropout.p == 0;
}

// Whether a query of a chunk sees a key of another. The chunk sees itself in any case.
bool sees(const AttentionSizes& n, std::int64_t length, std::int64_t query0, std::int64_t key0) {
  if (n.causal && key0 > query0) return false;
  if (n.documents && key0 != query0) {
    // Where the nearest positions of the two are of one document.
    const std::int64_t last = std::min(query0, key0) * length + length - 1, first = std::max(query0, key0) * length;
    if (n.documents->at(last) != n.documents->at(first)) return false;
  }
  if (!n.causal) return true;
  return n.window == 0 || key0 == query0 || (query0 - key0) * length - (length - 1) < n.window;
}

// f(block) for all that the queries of `rank` see, where the keys are those of the rank `step` places before it. The first step's
// are its own, so that there is a first block of each chunk of queries, or, if `joined`, one of all.
template <class F>
void for_blocks(const SequenceShare& share, int rank, int step, const AttentionSizes& n, bool joined, const F& f) {
  const int owner = (rank + share.ranks() - step) % share.ranks();
  if (step == 0 && joined) return f(Block{0, 0, share.chunk(rank, 0), share.chunk(rank, 0), true, share.chunks()});
  for (int q = 0; q < share.chunks(); ++q) {
    bool first = step == 0;
    for (int k = 0; k < share.chunks(); ++k) {
      const Block block{q, k, share.chunk(rank, q), share.chunk(owner, k), first};
      if (!sees(n, share.length(), block.query0, block.key0)) continue;
      f(block);
      first = false;
    }
  }
}

// What a block costs: each as much, or, where documents are packed, its pairs.
double weight_of(const Block& b, const SequenceShare& share, const AttentionSizes& n) {
  if (!n.documents) return 1;
  ops::AttentionShape shape;
  shape.seq = share.length(), shape.causal = n.causal && b.query0 == b.key0, shape.window = n.window;
  shape.map.q0 = b.query0 * share.length(), shape.map.k0 = b.key0 * share.length();
  shape.documents = n.documents;
  return shape.visible_pairs();
}

// Without a window and documents all ranks have as many blocks. With them some have fewer: where one rank stands for all, it is one that has
// the most.
int rank_of_blocks(Context& c, const SequenceShare& share, const AttentionSizes& n) {
  const int own = c.groups.over({Axis::cp}).rank();
  if (c.device.real() || (n.window == 0 && !n.documents)) return own;
  int fullest = own;
  double most = 0;
  for (int rank = 0; rank < share.ranks(); ++rank) {
    double blocks = 0;
    for (int step = 0; step < share.ranks(); ++step)
      for_blocks(share, rank, step, n, false, [&](const Block& b) { blocks += weight_of(b, share, n); });
    if (blocks > most) fullest = rank, most = blocks;
  }
  return fullest;
}

// What all blocks of one call have in common.
class Blocks {
 public:
  Blocks(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n, const AttentionParts& parts)
      : c_(c),
        batch_(batch),
        site_(site),
        n_(n),
        parts_(parts),
        share_(c.share()),
        length_(share_.length()),
        rank_(rank_of_blocks(c, share_, n)),
        joined_(joins_own(share_, n, dropout_at(c, site))) {}

  const SequenceShare& share() const { return share_; }
  bool joined() const { return joined_; }
  template <class F>
  void each(int step, const F& f) const {
    for_blocks(share_, rank_, step, n_, joined_, f);
  }
  std::int64_t key_width() const { return n_.qk_dim + n_.v_dim; }
  Shape keys_shape() const { return {n_.seq, n_.groups(), key_width()}; }
  Shape lse_shape() const { return {n_.batch, n_.local_heads, length_}; }
  Shape rows_shape(std::int64_t width) const { return {length_, n_.batch, n_.local_heads * width}; }

  // Keys and values of this rank side by side.
  Tensor own_keys() const {
    const Tensor own = c_.activation(keys_shape(), "keys and values to share");
    run(c_.device, ops::CopyBlocks{parts_.k, keys_in(own, n_.seq), n_.groups()});
    run(c_.device, ops::CopyBlocks{parts_.v, values_in(own, n_.seq), n_.groups()});
    return own;
  }
  ops::Matrix keys_in(const Tensor& t, std::int64_t rows) const { return columns(t, rows, 0, n_.qk_dim); }
  ops::Matrix values_in(const Tensor& t, std::int64_t rows) const { return columns(t, rows, n_.qk_dim, n_.v_dim); }
  ops::Matrix queries(const Block& b) const {
    ops::Matrix q = parts_.q;
    q.rows = b.chunks * length_;
    q.offset += b.queries * length_ * q.ld;
    return q;
  }
  // Rows of a block's queries and of its keys. A chunk of rows, and of statistics.
  Tensor of_queries(const Tensor& t, const Block& b) const { return t.slice(b.queries * length_, b.chunks * length_); }
  Tensor of_keys(const Tensor& t, const Block& b) const { return t.slice(b.keys * length_, b.chunks * length_); }
  Tensor chunk(const Tensor& t, int i) const { return t.slice(i * length_, length_); }
  Tensor statistics(const Tensor& lse, int i) const { return lse.slice(i, 1).view(lse_shape()); }
  ops::Matrix heads(const Tensor& rows, std::int64_t width) const { return heads_of(rows, n_, rows.shape()[0], width); }
  // Statistics of all chunks by head, as a block of all has them, to or from those by chunk.
  Tensor by_head() const {
    return c_.device.empty({n_.batch, n_.local_heads, share_.chunks() * length_}, DType::f32, Category::activations,
                           "attention row statistics of a block");
  }
  void copy_statistics(const Tensor& by_head, const Tensor& by_chunk, bool to_chunks) const {
    const std::int64_t rows = n_.batch * n_.local_heads;
    const ops::Matrix heads(by_head, rows, length_, share_.chunks() * length_, 0, length_),
        chunks(by_chunk, rows, length_, length_, 0, rows * length_);
    run(c_.device, ops::CopyBlocks{to_chunks ? heads : chunks, to_chunks ? chunks : heads, share_.chunks()});
  }

  ops::AttentionShape shape(const Block& b) const {
    const ops::HeadMap map{n_.heads, n_.head0, batch_.sample0, c_.training().seq, b.query0 * length_, b.key0 * length_};
    return {n_.batch,
            n_.local_heads,
            b.chunks * length_,
            n_.qk_dim,
            n_.scale(),
            n_.causal && b.query0 == b.key0,
            n_.causal ? Tensor() : keys_of(batch_, b.key0),
            dropout_at(c_, site_),
            map,
            n_.group,
            n_.v_dim,
            n_.window,
            n_.softcap,
            n_.alibi,
            n_.documents};
  }

 private:
  ops::Matrix columns(const Tensor& t, std::int64_t rows, std::int64_t first, std::int64_t dim) const {
    return {t, rows, dim, n_.groups() * key_width(), first, key_width()};
  }

  Context& c_;
  const MicroBatch& batch_;
  std::uint64_t site_;
  const AttentionSizes& n_;
  const AttentionParts& parts_;
  SequenceShare share_;
  std::int64_t length_;
  int rank_;
  bool joined_;
};

class BlockAttention final : public AttentionCore {
 public:
  explicit BlockAttention(KeysBy way) : way_(way) {}

  Tensor forward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                 const AttentionParts& parts, Saved& saved) const override {
    const Blocks all(c, batch, site, n, parts);
    saved.lse = c.device.empty({all.share().chunks(), n.batch, n.local_heads, all.share().length()}, DType::f32,
                               Category::activations, "attention row statistics");
    saved.context = c.activation(n.context(), "attention context");
    // Sums of 16-bit outputs are rounded once, at the end.
    const bool separate = c.dtype() != DType::f32;
    const Tensor sum = separate
                           ? c.device.empty(n.context(), DType::f32, Category::activations, "attention context in f32")
                           : saved.context;
    const Tensor part = c.activation(all.rows_shape(n.v_dim), "attention context of a block"),
                 part_lse = c.device.empty(all.lse_shape(), DType::f32, Category::activations,
                                           "attention row statistics of a block");
    SharedKeys keys(c, way_, all.own_keys());
    for (int step = 0; step < all.share().ranks(); ++step) {
      const Tensor share = keys.share(step);
      const auto attend = [&](const Block& b, const Tensor& out, const Tensor& lse) {
        const Tensor k = all.of_keys(share, b);
        run(c.device, ops::Attention{all.shape(b), all.queries(b), all.keys_in(k, k.shape()[0]),
                                     all.values_in(k, k.shape()[0]), all.heads(out, n.v_dim), lse, Tensor()});
      };
      all.each(step, [&](const Block& b) {
        if (b.chunks > 1) {
          const Tensor lse = all.by_head();
          attend(b, saved.context, lse);
          all.copy_statistics(lse, saved.lse, true);
          if (separate) run(c.device, ops::Copy{saved.context, sum});
          return;
        }
        const Tensor to = all.of_queries(sum, b), lse = all.statistics(saved.lse, b.queries),
                     out = b.first && !separate ? to : part;
        attend(b, out, b.first ? lse : part_lse);
        const Shape by_head{part.shape()[0], n.batch, n.local_heads, n.v_dim};
        if (!b.first)
          run(c.device, ops::AttentionMerge{to.view(by_head), lse, part.view(by_head), part_lse});
        else if (separate)
          run(c.device, ops::Copy{part, to});
      });
    }
    for (int i = 0; n.sinks && i < all.share().chunks(); ++i)
      add_sinks(c, n, all.chunk(sum, i), all.statistics(saved.lse, i));
    if (separate) run(c.device, ops::Copy{sum, saved.context});
    return saved.context;
  }

  // With the outputs and statistics of all keys, every block's gradients are parts of a sum.
  void backward(Context& c, const MicroBatch& batch, std::uint64_t site, const AttentionSizes& n,
                const Tensor& dcontext, const AttentionParts& parts, const AttentionParts& gradients,
                Saved& saved) const override {
    const Blocks all(c, batch, site, n, parts);
    const std::int64_t length = all.share().length();
    const Tensor dq = c.activation({n.seq, n.batch, n.local_heads * n.qk_dim}, "gradient of queries");
    const Tensor part_dq = c.activation(all.rows_shape(n.qk_dim), "gradient of queries of a block"),
                 part_dkeys = c.activation({length, n.groups(), all.key_width()}, "gradient of keys of a block");
    SharedKeys keys(c, way_, all.own_keys());
    SharedKeyGradients dkeys(c, way_, all.keys_shape());
    for (int step = 0; step < all.share().ranks(); ++step) {
      const Tensor share = keys.share(step), place = dkeys.place(step, step > 0 || !all.joined());
      const auto back = [&](const Block& b, const Tensor& lse, const Tensor& to_queries, const Tensor& to_keys) {
        const Tensor k = all.of_keys(share, b);
        const std::int64_t rows = k.shape()[0];
        run(c.device, ops::AttentionGrad{all.shape(b), all.heads(all.of_queries(dcontext, b), n.v_dim), all.queries(b),
                                         all.keys_in(k, rows), all.values_in(k, rows),
                                         all.heads(all.of_queries(saved.context, b), n.v_dim), lse, Tensor(),
                                         all.heads(to_queries, n.qk_dim), all.keys_in(to_keys, rows),
                                         all.values_in(to_keys, rows), c.keeps().deterministic_attention});
      };
      all.each(step, [&](const Block& b) {
        if (b.chunks > 1) {
          const Tensor lse = all.by_head();
          all.copy_statistics(lse, saved.lse, false);
          return back(b, lse, dq, place);
        }
        const Tensor to = all.of_queries(dq, b);
        back(b, all.statistics(saved.lse, b.queries), b.first ? to : part_dq, part_dkeys);
        if (!b.first) run(c.device, ops::Add{to, part_dq, to});
        const Tensor sum = all.of_keys(place, b);
        run(c.device, ops::Add{sum, part_dkeys, sum});
      });
      dkeys.added(step);
    }
    for (int i = 0; n.sinks && i < all.share().chunks(); ++i)
      sinks_back(c, n, all.chunk(dcontext, i), all.chunk(saved.context, i), all.statistics(saved.lse, i));
    saved = {};
    const Tensor own = dkeys.finish();
    const auto copy = [&](ops::Matrix from, ops::Matrix to, std::int64_t heads) {
      from.cols *= heads;
      to.cols *= heads;
      run(c.device, ops::CopyBlocks{from, to, n.groups()});
    };
    copy(heads_of(dq, n, n.seq, n.qk_dim), gradients.q, n.group);
    copy(all.keys_in(own, n.seq), gradients.k, 1);
    copy(all.values_in(own, n.seq), gradients.v, 1);
  }

 private:
  KeysBy way_;
};

}  // namespace

std::unique_ptr<AttentionCore> attention_by_blocks(KeysBy way) {
  return std::make_unique<BlockAttention>(way);
}

}  // namespace mbench::nn
