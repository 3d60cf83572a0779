#include "engine/ops/state_scan.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::ScanShape;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Sizes, and what a scan reads, in double.
struct Scan {
  std::int64_t seq, batch, groups, group, p, n, chunk, channels, width, first;
  Values xbc, in, a_log, dt_bias, d;
  explicit Scan(const ScanShape& s)
      : seq(s.seq()),
        batch(s.batch()),
        groups(s.groups()),
        group(s.group()),
        p(s.head_dim),
        n(s.state_dim),
        chunk(s.chunk),
        channels(s.channels()),
        width(s.in.shape()[3]),
        first(s.first) {}
  Scan(const ScanShape& s, const Doubles& v) : Scan(s) {
    xbc = v[s.xbc], in = v[s.in], a_log = v[s.a_log], dt_bias = v[s.dt_bias], d = v[s.d];
  }
  std::int64_t heads() const { return groups * group; }
  std::int64_t row(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return (t * batch + b) * groups + h / group;
  }
  std::size_t x(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return at(row(t, b, h) * channels + h % group * p + i);
  }
  std::size_t bs(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return at(row(t, b, h) * channels + group * p + i);
  }
  std::size_t cs(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t i) const { return bs(t, b, h, n + i); }
  std::size_t y(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return at(row(t, b, h) * group * p + h % group * p + i);
  }
  std::size_t raw(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return at(row(t, b, h) * width + first + h % group);
  }
  std::size_t step(std::int64_t t, std::int64_t b, std::int64_t h) const { return at((b * heads() + h) * seq + t); }
  std::size_t state(std::int64_t c, std::int64_t b, std::int64_t h, std::int64_t k) const {
    return at(((c * batch + b) * heads() + h) * n * p + k);
  }
  double dt(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return std::log1p(std::exp(in[raw(t, b, h)] + dt_bias[at(h)]));
  }
};

struct Results {
  Values steps, sums, states, y;
  explicit Results(const ScanShape& s)
      : steps(at(s.steps().numel()), 0.0),
        sums(steps),
        states(at(s.states().numel()), 0.0),
        y(at(s.output().numel()), 0.0) {}
};

// One position after the other. `kept`: the states after each position, [seq + 1][n p], of one head.
void walk(const Scan& s, std::int64_t b, std::int64_t h, Results& r, std::vector<Values>* kept = nullptr) {
  Values state(at(s.n * s.p), 0.0);
  const double a = -std::exp(s.a_log[at(h)]);
  double sum = 0;
  if (kept) kept->push_back(state);
  for (std::int64_t t = 0; t < s.seq; ++t) {
    if (t % s.chunk == 0) {
      sum = 0;
      for (std::int64_t k = 0; k < s.n * s.p; ++k) r.states[s.state(t / s.chunk, b, h, k)] = state[at(k)];
    }
    const double dt = s.dt(t, b, h);
    sum += dt * a;
    r.steps[s.step(t, b, h)] = dt, r.sums[s.step(t, b, h)] = sum;
    for (std::int64_t j = 0; j < s.n; ++j)
      for (std::int64_t i = 0; i < s.p; ++i) {
        double& value = state[at(j * s.p + i)];
        value = std::exp(dt * a) * value + dt * s.xbc[s.bs(t, b, h, j)] * s.xbc[s.x(t, b, h, i)];
        r.y[s.y(t, b, h, i)] += s.xbc[s.cs(t, b, h, j)] * value;
      }
    for (std::int64_t i = 0; i < s.p; ++i) r.y[s.y(t, b, h, i)] += s.d[at(h)] * s.xbc[s.x(t, b, h, i)];
    if (kept) kept->push_back(state);
  }
}

void reference(const ops::StateScan& op, Doubles& v) {
  const Scan s(op.shape, v);
  Results r(op.shape);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads(); ++h) walk(s, b, h, r);
  v.out(op.steps) = r.steps, v.out(op.sums) = r.sums, v.out(op.states) = r.states;
  if (op.y) v.out(op.y) = r.y;
}

// Backwards from position to position.
void walk_back(const Scan& s, std::int64_t b, std::int64_t h, const ops::StateScanGrad& op, const Values& dy,
               Results& r, Doubles& v) {
  std::vector<Values> states;
  walk(s, b, h, r, &states);
  Values &dxbc = v.out(op.dxbc), &din = v.out(op.din), later(at(s.n * s.p), 0.0);
  const double a = -std::exp(s.a_log[at(h)]);
  for (std::int64_t t = s.seq; t-- > 0;) {
    if ((t + 1) % s.chunk == 0 || t + 1 == s.seq)
      for (std::int64_t k = 0; k < s.n * s.p; ++k) v.out(op.dstates)[s.state(t / s.chunk, b, h, k)] = later[at(k)];
    const double dt = s.dt(t, b, h), decay = std::exp(dt * a);
    double ddt = 0, ddecay = 0;
    for (std::int64_t j = 0; j < s.n; ++j)
      for (std::int64_t i = 0; i < s.p; ++i) {
        double& d = later[at(j * s.p + i)];
        const double x = s.xbc[s.x(t, b, h, i)], in = s.xbc[s.bs(t, b, h, j)], out = dy[s.y(t, b, h, i)];
        dxbc[s.cs(t, b, h, j)] += out * states[at(t + 1)][at(j * s.p + i)];
        d += out * s.xbc[s.cs(t, b, h, j)];
        dxbc[s.bs(t, b, h, j)] += d * dt * x;
        dxbc[s.x(t, b, h, i)] += d * dt * in;
        ddt += d * in * x;
        ddecay += d * states[at(t)][at(j * s.p + i)];
        d *= decay;
      }
    for (std::int64_t i = 0; i < s.p; ++i) {
      dxbc[s.x(t, b, h, i)] += s.d[at(h)] * dy[s.y(t, b, h, i)];
      if (op.dd) v.out(op.dd)[at(h)] += dy[s.y(t, b, h, i)] * s.xbc[s.x(t, b, h, i)];
    }
    const double all = (ddt + ddecay * decay * a) / (1 + std::exp(-(s.in[s.raw(t, b, h)] + s.dt_bias[at(h)])));
    din[s.raw(t, b, h)] = all;
    if (op.ddt_bias) v.out(op.ddt_bias)[at(h)] += all;
    if (op.da_log) v.out(op.da_log)[at(h)] += ddecay * decay * dt * a;
  }
}

void reference(const ops::StateScanGrad& op, Doubles& v) {
  const Scan s(op.shape, v);
  Results r(op.shape);
  v.out(op.dxbc) = Values(at(op.dxbc.numel()), 0.0);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads(); ++h) walk_back(s, b, h, op, v[op.dy], r, v);
}

// `first` columns stand before the steps, and `after` behind them.
struct Form {
  std::int64_t seq, batch, groups, group, p, n, chunk, first = 0, after = 0;
  std::string str() const {
    return fmt::format("{} x {}, {} groups of {} heads of {} x {}, chunks of {}", seq, batch, groups, group, n, p,
                       chunk);
  }
};

ScanShape make_shape(Tensors& t, const Form& f, DType type) {
  ScanShape s;
  s.xbc = t.in({f.seq, f.batch, f.groups, f.group * f.p + 2 * f.n}, type);
  s.in = t.in({f.seq, f.batch, f.groups, f.first + f.group + f.after}, type, -3, 1);
  s.a_log = t.in({f.groups * f.group}, type, -1, 1);
  s.dt_bias = t.in({f.groups * f.group}, type);
  s.d = t.in({f.groups * f.group}, type);
  s.head_dim = f.p, s.state_dim = f.n, s.chunk = f.chunk, s.first = f.first;
  return s;
}

ops::StateScan make(Tensors& t, const Form& f, DType type, bool outputs = true) {
  const ScanShape s = make_shape(t, f, type);
  const Tensor steps = t.out(s.steps()), sums = t.out(s.steps()), states = t.out(s.states());
  return {s, steps, sums, states, outputs ? t.out(s.output(), type) : Tensor()};
}

// The gradient of a scan whose steps, sums and states are these tensors.
ops::StateScanGrad backward_of(Tensors& t, const ScanShape& s, const Tensor& steps, const Tensor& sums,
                               const Tensor& states, DType sum) {
  const DType type = s.xbc.dtype();
  ops::StateScanGrad op{s, t.in(s.output(), type), steps, sums, states};
  op.dstates = t.out(s.states());
  op.dxbc = t.out(s.xbc.shape(), type);
  op.din = t.inout(s.in.shape(), type);
  for (Tensor* vector : {&op.da_log, &op.ddt_bias, &op.dd}) *vector = t.inout({s.heads()}, sum);
  return op;
}

// The same of any steps and states, for what is not compared.
ops::StateScanGrad any_backward(Tensors& t, const ScanShape& s, DType sum) {
  const Tensor steps = t.in(s.steps(), DType::f32, 0, 0.1), sums = t.in(s.steps(), DType::f32, -2, 0);
  return backward_of(t, s, steps, sums, t.in(s.states(), DType::f32), sum);
}

ops::StateScanGrad make_grad(Tensors& t, const Form& f, DType type, DType sum) {
  const ScanShape s = make_shape(t, f, type);
  if (!t.is_real()) return any_backward(t, s, sum);
  Results r(s);
  Scan scan(s);
  Values* inputs[] = {&scan.xbc, &scan.in, &scan.a_log, &scan.dt_bias, &scan.d};
  for (std::size_t i = 0; i < std::size(inputs); ++i) *inputs[i] = t.now(i);  // in the order in which they were made
  for (std::int64_t b = 0; b < scan.batch; ++b)
    for (std::int64_t h = 0; h < scan.heads(); ++h) walk(scan, b, h, r);
  const Tensor steps = t.values(s.steps(), DType::f32, r.steps), sums = t.values(s.steps(), DType::f32, r.sums),
               states = t.values(s.states(), DType::f32, r.states);
  return backward_of(t, s, steps, sums, states, sum);
}

// One position; chunks that are full, and a short last one; widths that fit no vector; groups of several heads.
const Form kForms[] = {{1, 1, 1, 1, 1, 1, 4},
                       {5, 2, 1, 3, 3, 5, 4, 2, 1},
                       {8, 1, 2, 2, 8, 4, 4, 16, 0},
                       {21, 2, 2, 1, 5, 16, 8, 1, 3},
                       {70, 1, 1, 2, 16, 8, 64, 32, 6}};
const Form kBench{1024, 1, 8, 4, 64, 128, 256, 768, 0}, kHuge{65536, 4, 8, 16, 64, 128, 256, 1280, 0},
    kSmall{16, 1, 1, 2, 8, 8, 8, 16, 0};

const Within kWithin{.cpu = {2e-5, 2e-5}, .kernel = {4e-5, 4e-5}, .gpu = 8};
const Within kWithinBack{.cpu = {2e-4, 1e-4}, .kernel = {4e-4, 2e-4}, .gpu = 8};

const Cases<ops::StateScan> state_scan(reference, [](CaseList<ops::StateScan>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(
        fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); }, kWithin);
  });
  cases.add(
      "the states alone", [](Tensors& t) { return make(t, kForms[3], DType::f32, false); }, kWithin);
  for (const Form& f : {Form{7, 2, 2, 2, 3, 4, 3}, Form{6, 1, 1, 3, 4, 2, 8}})
    cases.gradient(
        f.str(), [=](Tensors& t) { return make(t, f, DType::f32); },
        [](Tensors& t, const ops::StateScan& op) {
          const ScanShape& s = op.shape;
          const ops::StateScanGrad grad = backward_of(t, s, op.steps, op.sums, op.states, DType::f32);
          return Backward{grad,
                          {op.y,
                           grad.dy,
                           {{s.xbc, grad.dxbc}, {s.a_log, grad.da_log}, {s.dt_bias, grad.ddt_bias}, {s.d, grad.dd}}}};
        },
        {1e-4, 1e-3});
  // The raw steps, which are overwritten.
  cases.gradient(
      "raw steps",
      [](Tensors& t) {
        return make(t, {7, 1, 2, 2, 3, 4, 3}, DType::f32);
      },
      [](Tensors& t, const ops::StateScan& op) {
        ops::StateScanGrad grad = backward_of(t, op.shape, op.steps, op.sums, op.states, DType::f32);
        grad.din = t.out(op.shape.in.shape());
        return Backward{grad, {op.y, grad.dy, {{op.shape.in, grad.din}}}};
      },
      {1e-4, 1e-3});
  cases.timed("8 groups of 4 heads of 128 x 64", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(4, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("heads", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::StateScanGrad> state_scan_grad(reference, [](CaseList<ops::StateScanGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    for (const DType sum : sum_types(type))
      cases.add(
          fmt::format("{} {} into {}", name_of(type), f.str(), name_of(sum)),
          [=](Tensors& t) { return make_grad(t, f, type, sum); }, kWithinBack);
  });
  cases.timed("8 groups of 4 heads of 128 x 64",
              [](Tensors& t) { return any_backward(t, make_shape(t, kBench, DType::f32), DType::f32); });
  cases.enqueued(8, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32); });
  cases.huge("heads", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
