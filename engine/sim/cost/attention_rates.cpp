#include "engine/sim/cost/attention_rates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "engine/base/json_reader.h"
#include "engine/sim/machine/axis.h"

namespace mbench::sim {

using nlohmann::json;

double AttentionRates::at(const AttentionSize& size, std::vector<double> Curve::*rates) const {
  if (curves_.empty()) return 1;
  // Those of the same mask; where there are none, of the other.
  const auto other = std::partition_point(curves_.begin(), curves_.end(), [](const Curve& c) { return !c.causal; });
  auto [first, last] = size.causal ? std::pair(other, curves_.end()) : std::pair(curves_.begin(), other);
  if (first == last) first = curves_.begin(), last = curves_.end();
  const auto rate_of = [&](const Curve& c) { return between(c.*rates, place_of(c.positions, size.positions)); };
  const auto above = std::find_if(first, last, [&](const Curve& c) { return c.head_dim >= size.head_dim; });
  if (above == first) return rate_of(*first);
  const Curve& below = *std::prev(above);
  if (above == last) return rate_of(below);
  const double share = std::log(size.head_dim / below.head_dim) / std::log(above->head_dim / below.head_dim);
  return rate_of(below) + share * (rate_of(*above) - rate_of(below));
}

AttentionRates AttentionRates::from_json(const json& value, const std::string& where) {
  if (!value.is_array() || value.empty())
    fail(ErrorKind::bad_input, where, "got {}, need an array of at least one curve", short_json(value));
  AttentionRates all;
  for (std::size_t i = 0; i < value.size(); ++i) {
    ObjectReader object(value[i], fmt::format("{}[{}]", where, i));
    Curve c;
    c.head_dim =
        static_cast<double>(read_int(object.require("head_dim", "width of a head"), object.path("head_dim"), 1, 65536));
    c.causal = read_bool(object.require("causal", "true or false"), object.path("causal"));
    const auto numbers = [&](const char* key, bool ascending) {
      return read_positive_numbers(object.require(key, "an array of numbers above 0"), object.path(key), ascending);
    };
    c.positions = numbers("positions", true);
    c.forward = numbers("forward_tflops", false);
    c.backward = numbers("backward_tflops", false);
    for (const auto& [key, rates] :
         {std::tuple("forward_tflops", &c.forward), std::tuple("backward_tflops", &c.backward)})
      if (rates->size() != c.positions.size())
        fail(ErrorKind::bad_input, object.path(key), "got {} of them, need {}, one for each of positions",
             rates->size(), c.positions.size());
    if (read_string(object.require("source", "where the rates come from"), object.path("source")).empty())
      fail(ErrorKind::bad_input, object.path("source"), "got nothing, need where the rates come from");
    object.refuse_unknown();
    all.curves_.push_back(std::move(c));
  }
  std::sort(all.curves_.begin(), all.curves_.end(), [](const Curve& a, const Curve& b) {
    return std::tuple(a.causal, a.head_dim) < std::tuple(b.causal, b.head_dim);
  });
  const AttentionSize one;
  const bool has_one = std::any_of(all.curves_.begin(), all.curves_.end(), [&](const Curve& c) {
    return c.causal == one.causal && c.head_dim == one.head_dim &&
           std::find(c.positions.begin(), c.positions.end(), one.positions) != c.positions.end();
  });
  if (!has_one)
    fail(ErrorKind::bad_input, where,
         "no rate of head_dim {}, causal, at {} positions, need it: forward and backward are of that shape",
         one.head_dim, one.positions);
  const double forward = all.forward(one), backward = all.backward(one);
  for (Curve& c : all.curves_) {
    for (double& rate : c.forward) rate /= forward;
    for (double& rate : c.backward) rate /= backward;
  }
  return all;
}

}  // namespace mbench::sim
