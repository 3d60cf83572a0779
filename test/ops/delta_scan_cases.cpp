#include "engine/ops/delta_scan.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::ScanShape;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}
double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// Sizes, and what a scan reads, in double.
struct Scan {
  std::int64_t seq, batch, groups, group, p, n, chunk, channels, width, first;
  double beta_scale;
  Values xbc, in, a_log, dt_bias;
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
        first(s.first),
        beta_scale(s.beta_scale) {}
  Scan(const ScanShape& s, const Doubles& v) : Scan(s) {
    xbc = v[s.xbc], in = v[s.in], a_log = v[s.a_log], dt_bias = v[s.dt_bias];
  }
  std::int64_t heads() const { return groups * group; }
  std::int64_t row(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return (t * batch + b) * groups + h / group;
  }
  std::size_t v(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return at(row(t, b, h) * channels + h % group * p + i);
  }
  std::size_t k(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t j) const {
    return at(row(t, b, h) * channels + group * p + j);
  }
  std::size_t q(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t j) const { return k(t, b, h, n + j); }
  std::size_t y(std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return at(row(t, b, h) * group * p + h % group * p + i);
  }
  std::size_t raw(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return at(row(t, b, h) * width + first + h % group);
  }
  std::size_t state(std::int64_t c, std::int64_t b, std::int64_t h, std::int64_t e) const {
    return at(((c * batch + b) * heads() + h) * n * p + e);
  }
  double step(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return std::log1p(std::exp(in[raw(t, b, h)] + dt_bias[at(h)]));
  }
  double decay(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return std::exp(-std::exp(a_log[at(h)]) * step(t, b, h));
  }
  double beta(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return beta_scale * sigmoid(in[raw(t, b, h) + at(group)]);
  }
  // What makes a key or a query of that first element one of length one.
  double inverse(std::size_t from) const {
    double sum = 1e-6;
    for (std::int64_t j = 0; j < n; ++j) sum += xbc[from + at(j)] * xbc[from + at(j)];
    return 1 / std::sqrt(sum);
  }
};

struct Results {
  Values states, y;
  explicit Results(const ScanShape& s) : states(at(s.states().numel()), 0.0), y(at(s.output().numel()), 0.0) {}
};

// Of one position: what the state said of the key, decayed, and u.
struct Walked {
  std::vector<Values> states, said, u;  // states: before the first position, then after each
};

Walked walk(const Scan& s, std::int64_t b, std::int64_t h, Results& r) {
  Walked w;
  Values state(at(s.n * s.p), 0.0);
  w.states.push_back(state);
  for (std::int64_t t = 0; t < s.seq; ++t) {
    if (t % s.chunk == 0)
      for (std::int64_t e = 0; e < s.n * s.p; ++e) r.states[s.state(t / s.chunk, b, h, e)] = state[at(e)];
    const double decay = s.decay(t, b, h), beta = s.beta(t, b, h), k_inverse = s.inverse(s.k(t, b, h, 0)),
                 q_inverse = s.inverse(s.q(t, b, h, 0)) / std::sqrt(static_cast<double>(s.n));
    Values said(at(s.p), 0.0), u(at(s.p), 0.0);
    for (double& each : state) each *= decay;
    for (std::int64_t i = 0; i < s.p; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) said[at(i)] += state[at(j * s.p + i)] * s.xbc[s.k(t, b, h, j)] * k_inverse;
      u[at(i)] = beta * (s.xbc[s.v(t, b, h, i)] - said[at(i)]);
      for (std::int64_t j = 0; j < s.n; ++j) {
        state[at(j * s.p + i)] += s.xbc[s.k(t, b, h, j)] * k_inverse * u[at(i)];
        r.y[s.y(t, b, h, i)] += state[at(j * s.p + i)] * s.xbc[s.q(t, b, h, j)] * q_inverse;
      }
    }
    w.states.push_back(state), w.said.push_back(said), w.u.push_back(u);
  }
  return w;
}

void reference(const ops::DeltaScan& op, Doubles& v) {
  const Scan s(op.shape, v);
  Results r(op.shape);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads(); ++h) walk(s, b, h, r);
  v.out(op.states) = r.states, v.out(op.y) = r.y;
}

// Backwards from position to position. `dk` and `dq`: of units, [seq][n], which heads of a group add to.
void walk_back(const Scan& s, std::int64_t b, std::int64_t h, const ops::DeltaScanGrad& op, const Values& dy,
               std::vector<Values>& dk, std::vector<Values>& dq, Doubles& v) {
  Results r(op.shape);
  const Walked w = walk(s, b, h, r);
  Values &dxbc = v.out(op.dxbc), &din = v.out(op.din), later(at(s.n * s.p), 0.0);
  const double a = -std::exp(s.a_log[at(h)]), scale = 1 / std::sqrt(static_cast<double>(s.n));
  for (std::int64_t t = s.seq; t-- > 0;) {
    const double decay = s.decay(t, b, h), beta = s.beta(t, b, h), k_inverse = s.inverse(s.k(t, b, h, 0)),
                 q_inverse = s.inverse(s.q(t, b, h, 0));
    double dbeta = 0, ddecay = 0;
    for (std::int64_t i = 0; i < s.p; ++i) {
      double du = 0;
      const double out = scale * dy[s.y(t, b, h, i)];
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::size_t e = at(j * s.p + i);
        later[e] += out * s.xbc[s.q(t, b, h, j)] * q_inverse;
        dq[at(t)][at(j)] += out * w.states[at(t + 1)][e];
        du += later[e] * s.xbc[s.k(t, b, h, j)] * k_inverse;
        dk[at(t)][at(j)] += later[e] * w.u[at(t)][at(i)];
      }
      const double value = s.xbc[s.v(t, b, h, i)], dsaid = -beta * du;
      dbeta += du * (value - w.said[at(t)][at(i)]);
      dxbc[s.v(t, b, h, i)] = beta * du;
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::size_t e = at(j * s.p + i);
        const double before = w.states[at(t)][e];
        dk[at(t)][at(j)] += dsaid * decay * before;
        later[e] += dsaid * s.xbc[s.k(t, b, h, j)] * k_inverse;
        ddecay += later[e] * before;
        later[e] *= decay;
      }
    }
    const double dstep = ddecay * decay * a, all = dstep * sigmoid(s.in[s.raw(t, b, h)] + s.dt_bias[at(h)]);
    din[s.raw(t, b, h)] = all;
    din[s.raw(t, b, h) + at(s.group)] = dbeta * beta * (1 - beta / s.beta_scale);
    v.out(op.ddt_bias)[at(h)] += all;
    v.out(op.da_log)[at(h)] += dstep * s.step(t, b, h);
  }
}

void reference(const ops::DeltaScanGrad& op, Doubles& v) {
  const Scan s(op.shape, v);
  Values& dxbc = v.out(op.dxbc);
  dxbc = Values(at(op.dxbc.numel()), 0.0);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.groups; ++g) {
      std::vector<Values> dk(at(s.seq), Values(at(s.n), 0.0)), dq = dk;
      for (std::int64_t h = g * s.group; h < (g + 1) * s.group; ++h) walk_back(s, b, h, op, v[op.dy], dk, dq, v);
      for (std::int64_t t = 0; t < s.seq; ++t)
        for (const auto& [d, first] :
             {std::pair(&dk[at(t)], s.k(t, b, g * s.group, 0)), std::pair(&dq[at(t)], s.q(t, b, g * s.group, 0))}) {
          const double inverse = s.inverse(first);
          double along = 0;
          for (std::int64_t j = 0; j < s.n; ++j) along += (*d)[at(j)] * s.xbc[first + at(j)] * inverse;
          for (std::int64_t j = 0; j < s.n; ++j)
            dxbc[first + at(j)] = inverse * ((*d)[at(j)] - along * s.xbc[first + at(j)] * inverse);
        }
    }
}

// `first` columns stand before the decays, and `after` behind the betas.
struct Form {
  std::int64_t seq, batch, groups, group, p, n, chunk, first = 0, after = 0;
  float beta = 1;
  std::string str() const {
    return fmt::format("{} x {}, {} groups of {} heads of {} x {}, chunks of {}{}", seq, batch, groups, group, n, p,
                       chunk, beta == 1 ? "" : ", large betas");
  }
};

ScanShape make_shape(Tensors& t, const Form& f, DType type) {
  ScanShape s;
  s.xbc = t.in({f.seq, f.batch, f.groups, f.group * f.p + 2 * f.n}, type);
  s.in = t.in({f.seq, f.batch, f.groups, f.first + 2 * f.group + f.after}, type, -2, 2);
  s.a_log = t.in({f.groups * f.group}, type, -2, 0);
  s.dt_bias = t.in({f.groups * f.group}, type);
  s.head_dim = f.p, s.state_dim = f.n, s.chunk = f.chunk, s.first = f.first, s.beta_scale = f.beta;
  return s;
}

ops::DeltaScan make(Tensors& t, const Form& f, DType type) {
  const ScanShape s = make_shape(t, f, type);
  const Tensor states = t.out(s.states());
  return {s, states, t.out(s.output(), type)};
}

ops::DeltaScanGrad backward_of(Tensors& t, const ScanShape& s, const Tensor& states, DType sum) {
  ops::DeltaScanGrad op{s, t.in(s.output(), s.xbc.dtype()), states};
  op.dxbc = t.out(s.xbc.shape(), s.xbc.dtype());
  op.din = t.inout(s.in.shape(), s.xbc.dtype());
  for (Tensor* vector : {&op.da_log, &op.ddt_bias}) *vector = t.inout({s.heads()}, sum);
  return op;
}

ops::DeltaScanGrad make_grad(Tensors& t, const Form& f, DType type, DType sum) {
  const ScanShape s = make_shape(t, f, type);
  if (!t.is_real()) return backward_of(t, s, t.in(s.states(), DType::f32), sum);
  Results r(s);
  Scan scan(s);
  Values* inputs[] = {&scan.xbc, &scan.in, &scan.a_log, &scan.dt_bias};
  for (std::size_t i = 0; i < std::size(inputs); ++i) *inputs[i] = t.now(i);  // in the order in which they were made
  for (std::int64_t b = 0; b < scan.batch; ++b)
    for (std::int64_t h = 0; h < scan.heads(); ++h) walk(scan, b, h, r);
  return backward_of(t, s, t.values(s.states(), DType::f32, r.states), sum);
}

// One position; chunks that are full, and a short last one; widths that fit no vector; groups of several heads.
const Form kForms[] = {{1, 1, 1, 1, 1, 2, 4},         {5, 2, 1, 3, 3, 5, 4, 2, 1},     {8, 1, 2, 2, 8, 4, 4, 16, 0},
                       {21, 2, 2, 1, 5, 16, 8, 1, 3}, {13, 1, 1, 2, 5, 6, 4, 1, 0, 2}, {70, 1, 1, 2, 16, 8, 64, 32, 6}};
const Form kBench{1024, 1, 4, 2, 128, 128, 64, 640, 0}, kHuge{16384, 2, 16, 2, 128, 128, 64, 1024, 0},
    kSmall{16, 1, 1, 2, 8, 8, 8, 16, 0};

const Within kWithin{.cpu = {4e-5, 4e-5}, .kernel = {8e-5, 8e-5}, .gpu = 8};
const Within kWithinBack{.cpu = {4e-4, 2e-4}, .kernel = {8e-4, 4e-4}, .gpu = 8};

const Cases<ops::DeltaScan> delta_scan(reference, [](CaseList<ops::DeltaScan>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(
        fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); }, kWithin);
  });
  for (const Form& f : {Form{7, 2, 2, 2, 3, 4, 3}, Form{6, 1, 1, 3, 4, 3, 8}})
    cases.gradient(
        f.str(), [=](Tensors& t) { return make(t, f, DType::f32); },
        [](Tensors& t, const ops::DeltaScan& op) {
          const ScanShape& s = op.shape;
          ops::DeltaScanGrad grad = backward_of(t, s, op.states, DType::f32);
          grad.din = t.out(s.in.shape());
          return Backward{grad,
                          {op.y,
                           grad.dy,
                           {{s.xbc, grad.dxbc}, {s.in, grad.din}, {s.a_log, grad.da_log}, {s.dt_bias, grad.ddt_bias}}}};
        },
        {1e-4, 1e-3});
  cases.timed("4 groups of 2 heads of 128 x 128", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("heads", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::DeltaScanGrad> delta_scan_grad(reference, [](CaseList<ops::DeltaScanGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    for (const DType sum : sum_types(type))
      cases.add(
          fmt::format("{} {} into {}", name_of(type), f.str(), name_of(sum)),
          [=](Tensors& t) { return make_grad(t, f, type, sum); }, kWithinBack);
  });
  cases.timed("4 groups of 2 heads of 128 x 128", [](Tensors& t) {
    const ScanShape s = make_shape(t, kBench, DType::f32);  // of any states
    return backward_of(t, s, t.in(s.states(), DType::f32), DType::f32);
  });
  cases.enqueued(12, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32); });
  cases.huge("heads", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
