// How tokens find their experts in a benchmark of an MoE: the spec's field `router`.
#pragma once
#include <string>

namespace mbench {

enum class Routing {
  balanced,  // by position, every expert has the same share: sizes do not depend on data or layout
  capacity,  // as learned, but every expert has room for a fixed number of tokens: excess is dropped, the rest padded
  learned    // as the router says; the experts' sizes follow the data
};

struct RouterMode {
  Routing routing = Routing::balanced;
  // With `capacity`: of the tokens that one rank dispatches at a time, an expert has room for factor * tokens * active experts / experts,
  // rounded up.
  double factor = 1;
  // With `balanced`: a token's experts are neighbours, so that it visits as few ranks as possible. Otherwise it visits as many as possible.
  bool local = false;
  bool operator==(const RouterMode&) const = default;
};

// "balanced", "balanced_local", "capacity:1.25", "learned"; bad_input at `where` for anything else.
RouterMode read_router(const std::string& text, const std::string& where);
std::string str(const RouterMode& mode);

}  // namespace mbench
