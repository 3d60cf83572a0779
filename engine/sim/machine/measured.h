// What was measured on a machine itself, as `mbench calibrate` writes it. These tables replace the models of cost_model.h and links.h
// for what they hold. They are read from the key `measured` of a machine file (machines/README.md).
//
// A curve is the time of a call by the size of its work. Between two points it is a straight line on logarithmic axes. Outside its
// points time is proportional to the work, but no call takes less than half of the first point's time. Rates of GEMMs lie on a grid of
// m, n and k. Between its points they are linear in the logarithms; beyond it they stay.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/point/choices.h"

namespace mbench::sim {

struct Curve {
  std::vector<double> work, seconds;  // ascending work
  double at(double work) const;
};

// How the operands of a GEMM lie: y = x W' (nt), dx = dy W (nn), dW += dy' x (tn).
enum class GemmForm { nn, nt, tn };
std::string_view name_of(GemmForm form);

struct GemmGrid {
  std::vector<double> m, n, k;  // ascending
  std::vector<double> rate;     // FLOP/s of [m][n][k]
  double at(double m, double n, double k) const;
};

// Measured while so many ranks of a node compute at once, each on so many threads.
struct RankTables {
  int ranks = 1, threads = 1;
  // By op and by the run's precision. Work is the op's bytes; for an op with matmuls of its own (fused attention) it is the FLOPs.
  std::map<std::pair<std::string, Precision>, Curve, std::less<>> ops;
  std::map<std::pair<GemmForm, DType>, GemmGrid> gemms;
};

// A call of a group, as in engine/comm/group.h. Bytes are of the whole tensor, before it is scattered or after it is gathered. For an
// all-to-all they are what a rank sends, for a message and a shift what is sent.
enum class Call {
  all_reduce,
  start_all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  start_all_to_all,
  broadcast,
  reduce,
  shift,
  message
};
std::string_view name_of(Call call);
const std::vector<Call>& all_calls();
// Whether the time of a call depends on the dtype of its bytes, because it adds them up.
bool adds_up(Call call);

struct CallCurve {
  Call call{};
  DType dtype = DType::f32;
  int ranks = 2;
  Curve curve;
};

struct Measured {
  std::vector<RankTables> by_ranks;  // ascending in ranks
  std::vector<CallCurve> calls;
  // What was started progresses only within calls: it takes its time where it is waited for, overlapped with nothing.
  bool progress_in_calls = false;

  // Tables of so many ranks on a node: the first measured with as many. Where more ranks take turns than were ever measured, `second`
  // is the factor by which its times are longer. Null if there is none.
  std::pair<const RankTables*, double> tables(int ranks) const;
  std::optional<double> seconds(Call call, double bytes, DType dtype, int ranks) const;
};

// Throws bad_input at `where` and below, for a missing, unknown or impossible key.
Measured measured_from_json(const nlohmann::json& json, const std::string& where);
nlohmann::ordered_json measured_to_json(const Measured& measured, const std::string& source);

}  // namespace mbench::sim
