#include <cmath>

#include "engine/ops/selective_scan.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::SelectiveShape;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// A scan's inputs in double, and where their elements lie.
struct Selective {
  Values x, in, steps, bc, a_log, dt_bias, d;
  std::int64_t seq, batch, groups, width, channels, n, chunk, gates, columns, first;

  explicit Selective(const SelectiveShape& s)
      : seq(s.seq()),
        batch(s.batch()),
        groups(s.groups()),
        width(s.group_width()),
        channels(s.channels()),
        n(s.state_dim),
        chunk(s.chunk),
        gates(s.in.shape()[3]),
        columns(s.bc.shape()[2]),
        first(s.first) {}
  Selective(const SelectiveShape& s, const Doubles& v) : Selective(s) {
    x = v[s.x], in = v[s.in], steps = v[s.steps], bc = v[s.bc], a_log = v[s.a_log], dt_bias = v[s.dt_bias], d = v[s.d];
  }
  std::size_t row(std::int64_t t, std::int64_t b, std::int64_t c) const { return at((t * batch + b) * channels + c); }
  std::size_t gate(std::int64_t t, std::int64_t b, std::int64_t c) const {
    return at(((t * batch + b) * groups + c / width) * gates + c % width);
  }
  std::size_t b_at(std::int64_t t, std::int64_t b, std::int64_t j) const {
    return at((t * batch + b) * columns + first + j);
  }
  std::size_t state(std::int64_t k, std::int64_t b, std::int64_t c, std::int64_t j) const {
    return at(((k * batch + b) * channels + c) * n + j);
  }
  double raw(std::int64_t t, std::int64_t b, std::int64_t c) const { return steps[row(t, b, c)] + dt_bias[at(c)]; }
  double dt(std::int64_t t, std::int64_t b, std::int64_t c) const { return std::log1p(std::exp(raw(t, b, c))); }
  double a(std::int64_t c, std::int64_t j) const { return -std::exp(a_log[at(c * n + j)]); }
};

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// One position of a channel after the other: the states before and after each, [seq + 1][n], and where chunks begin.
std::vector<Values> walk(const Selective& s, std::int64_t b, std::int64_t c, Values& states) {
  std::vector<Values> kept = {Values(at(s.n), 0.0)};
  for (std::int64_t t = 0; t < s.seq; ++t) {
    Values h = kept.back();
    for (std::int64_t j = 0; j < s.n; ++j) {
      if (t % s.chunk == 0) states[s.state(t / s.chunk, b, c, j)] = h[at(j)];
      const double dt = s.dt(t, b, c);
      h[at(j)] = std::exp(dt * s.a(c, j)) * h[at(j)] + dt * s.bc[s.b_at(t, b, j)] * s.x[s.row(t, b, c)];
    }
    kept.push_back(h);
  }
  return kept;
}

double before_gate(const Selective& s, const Values& h, std::int64_t t, std::int64_t b, std::int64_t c) {
  double sum = s.d[at(c)] * s.x[s.row(t, b, c)];
  for (std::int64_t j = 0; j < s.n; ++j) sum += s.bc[s.b_at(t, b, s.n + j)] * h[at(j)];
  return sum;
}

void reference(const ops::SelectiveScan& op, Doubles& v) {
  const Selective s(op.shape, v);
  Values& states = v.out(op.states);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const std::vector<Values> kept = walk(s, b, c, states);
      for (std::int64_t t = 0; op.y && t < s.seq; ++t) {
        const double z = s.in[s.gate(t, b, c)];
        v.out(op.y)[s.row(t, b, c)] = before_gate(s, kept[at(t + 1)], t, b, c) * z * sigmoid(z);
      }
    }
}

// Backwards from position to position of a channel.
void walk_back(const Selective& s, std::int64_t b, std::int64_t c, const ops::SelectiveScanGrad& op, const Values& dy,
               Doubles& v) {
  Values states(at(op.states.numel()), 0.0), later(at(s.n), 0.0);
  const std::vector<Values> kept = walk(s, b, c, states);
  for (std::int64_t t = s.seq; t-- > 0;) {
    if ((t + 1) % s.chunk == 0 || t + 1 == s.seq)
      for (std::int64_t j = 0; j < s.n; ++j) v.out(op.dstates)[s.state(t / s.chunk, b, c, j)] = later[at(j)];
    const double z = s.in[s.gate(t, b, c)], x = s.x[s.row(t, b, c)], dt = s.dt(t, b, c), open = sigmoid(z),
                 g = dy[s.row(t, b, c)] * z * open;
    v.out(op.din)[s.gate(t, b, c)] =
        dy[s.row(t, b, c)] * before_gate(s, kept[at(t + 1)], t, b, c) * open * (1 + z * (1 - open));
    double ddt = 0, dx = g * s.d[at(c)];
    for (std::int64_t j = 0; j < s.n; ++j) {
      const double bt = s.bc[s.b_at(t, b, j)], decay = std::exp(dt * s.a(c, j)), was = kept[at(t)][at(j)],
                   dh = g * s.bc[s.b_at(t, b, s.n + j)] + later[at(j)];
      v.out(op.dbc)[s.b_at(t, b, s.n + j)] += g * kept[at(t + 1)][at(j)];
      v.out(op.dbc)[s.b_at(t, b, j)] += dh * dt * x;
      dx += dh * dt * bt;
      ddt += dh * (s.a(c, j) * decay * was + bt * x);
      if (op.da_log) v.out(op.da_log)[at(c * s.n + j)] += dh * dt * decay * was * s.a(c, j);
      later[at(j)] = decay * dh;
    }
    v.out(op.dx)[s.row(t, b, c)] = dx;
    const double dstep = ddt * sigmoid(s.raw(t, b, c));
    v.out(op.dsteps)[s.row(t, b, c)] = dstep;
    if (op.ddt_bias) v.out(op.ddt_bias)[at(c)] += dstep;
    if (op.dd) v.out(op.dd)[at(c)] += g * x;
  }
}

void reference(const ops::SelectiveScanGrad& op, Doubles& v) {
  const Selective s(op.shape, v);
  Values& dbc = v.out(op.dbc);
  for (std::int64_t t = 0; t < s.seq; ++t)
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t j = 0; j < 2 * s.n; ++j) dbc[s.b_at(t, b, j)] = 0;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t c = 0; c < s.channels; ++c) walk_back(s, b, c, op, v[op.dy], v);
}

// `before` columns stand before B and C, `more` behind the gates.
struct Form {
  std::int64_t seq, batch, groups, width, n, chunk, before = 0, more = 0;
  std::string str() const {
    return fmt::format("{} x {}, {} groups of {} channels, states of {}, chunks of {}", seq, batch, groups, width, n,
                       chunk);
  }
};

SelectiveShape make_shape(Tensors& t, const Form& f, DType type) {
  const std::int64_t channels = f.groups * f.width;
  SelectiveShape s;
  s.x = t.in({f.seq, f.batch, f.groups, f.width}, type);
  s.in = t.in({f.seq, f.batch, f.groups, f.width + f.more}, type, -2, 2);
  s.steps = t.in({f.seq, f.batch, channels}, type, -3, 1);
  s.bc = t.in({f.seq, f.batch, f.before + 2 * f.n}, type);
  s.a_log = t.in({channels * f.n}, type, -1, 1);
  s.dt_bias = t.in({channels}, type);
  s.d = t.in({channels}, type);
  s.state_dim = f.n, s.chunk = f.chunk, s.first = f.before;
  return s;
}

ops::SelectiveScan make(Tensors& t, const Form& f, DType type, bool outputs = true) {
  const SelectiveShape s = make_shape(t, f, type);
  const Tensor states = t.out(s.states());
  return {s, states, outputs ? t.out(s.x.shape(), type) : Tensor()};
}

ops::SelectiveScanGrad backward_of(Tensors& t, const SelectiveShape& s, const Tensor& states,
                                   std::optional<DType> sums) {
  const DType type = s.x.dtype();
  ops::SelectiveScanGrad op;
  op.shape = s, op.dy = t.in(s.x.shape(), type), op.states = states, op.dstates = t.out(s.states());
  op.dx = t.out(s.x.shape(), type);
  op.din = t.inout(s.in.shape(), type);
  op.dsteps = t.out(s.steps.shape(), type);
  op.dbc = t.inout(s.bc.shape(), type);
  if (!sums) return op;
  op.da_log = t.inout(s.a_log.shape(), *sums);
  op.ddt_bias = t.inout(s.dt_bias.shape(), *sums);
  op.dd = t.inout(s.d.shape(), *sums);
  return op;
}

ops::SelectiveScanGrad make_grad(Tensors& t, const Form& f, DType type, std::optional<DType> sums) {
  const SelectiveShape s = make_shape(t, f, type);
  if (!t.is_real()) return backward_of(t, s, t.in(s.states(), DType::f32), sums);
  Selective scan(s);
  Values* inputs[] = {&scan.x, &scan.in, &scan.steps, &scan.bc, &scan.a_log, &scan.dt_bias, &scan.d};
  for (std::size_t i = 0; i < std::size(inputs); ++i) *inputs[i] = t.now(i);  // in the order in which they were made
  Values states(at(s.states().numel()), 0.0);
  for (std::int64_t b = 0; b < scan.batch; ++b)
    for (std::int64_t c = 0; c < scan.channels; ++c) walk(scan, b, c, states);
  return backward_of(t, s, t.values(s.states(), DType::f32, states), sums);
}

// One position; full chunks and a short last one; more channels than a block has; states of other widths.
const Form kForms[] = {{1, 1, 1, 1, 1, 4},
                       {5, 2, 1, 3, 5, 4, 2, 1},
                       {8, 1, 2, 8, 4, 4, 3, 8},
                       {21, 2, 2, 5, 16, 8, 1, 5},
                       {70, 1, 1, 150, 3, 64, 6, 150}};
const Form kBench{1024, 1, 8, 128, 16, 64, 64, 128}, kHuge{65536, 4, 64, 128, 16, 64, 256, 128},
    kSmall{16, 1, 1, 32, 8, 8, 4, 32};

const Within kWithin{.cpu = {2e-5, 2e-5}, .kernel = {4e-5, 4e-5}, .gpu = 8};
const Within kWithinBack{.cpu = {2e-4, 1e-4}, .kernel = {4e-4, 2e-4}, .gpu = 8};

const Cases<ops::SelectiveScan> selective_scan(reference, [](CaseList<ops::SelectiveScan>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(
        fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); }, kWithin);
  });
  cases.add(
      "only the states", [](Tensors& t) { return make(t, kForms[3], DType::f32, false); }, kWithin);
  const auto backward = [](Tensors& t, const ops::SelectiveScan& op, bool columns) {
    const SelectiveShape& s = op.shape;
    ops::SelectiveScanGrad grad = backward_of(t, s, op.states, DType::f32);
    if (columns) {  // that are overwritten: all of them are
      grad.din = t.out(s.in.shape()), grad.dbc = t.out(s.bc.shape());
      return Backward{grad, {op.y, grad.dy, {{s.in, grad.din}, {s.bc, grad.dbc}}}};
    }
    return Backward{
        grad,
        {op.y,
         grad.dy,
         {{s.x, grad.dx}, {s.steps, grad.dsteps}, {s.a_log, grad.da_log}, {s.dt_bias, grad.ddt_bias}, {s.d, grad.dd}}}};
  };
  for (const bool columns : {false, true})
    for (const Form& f : {Form{7, 2, 2, 3, 4, 3}, Form{6, 1, 1, 4, 2, 8}})
      cases.gradient(
          f.str() + (columns ? ", gates, B and C" : ""), [=](Tensors& t) { return make(t, f, DType::f32); },
          [=](Tensors& t, const ops::SelectiveScan& op) { return backward(t, op, columns); }, {1e-4, 1e-3});
  cases.timed("1024 channels, states of 16", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(3, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("channels", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::SelectiveScanGrad> selective_scan_grad(reference, [](CaseList<ops::SelectiveScanGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    for (const DType sum : sum_types(type))
      cases.add(
          fmt::format("{} {} into {}", name_of(type), f.str(), name_of(sum)),
          [=](Tensors& t) { return make_grad(t, f, type, sum); }, kWithinBack);
  });
  // More chunks than a GPU's launch has blocks.
  cases.add(
      "many chunks",
      [](Tensors& t) {
        return make_grad(t, {2100, 1, 1, 1, 2, 1}, DType::f32, DType::f32);
      },
      kWithinBack);
  cases.add(
      "frozen", [](Tensors& t) { return make_grad(t, kForms[3], DType::f32, std::nullopt); }, kWithinBack);
  cases.timed("1024 channels, states of 16", [](Tensors& t) { return make_grad(t, kBench, DType::f32, DType::f32); });
  cases.enqueued(7, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32); });
  cases.huge("channels", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
