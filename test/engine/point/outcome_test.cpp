#include "engine/point/outcome.h"

#include <set>

#include "test/catch.h"

using namespace mbench;

TEST_CASE("every outcome has its line: a name of its own, and whether it is a failure") {
  std::set<std::string_view> names;
  for (const OutcomeTraits& traits : outcomes()) {
    CHECK(names.insert(traits.name).second);
    CHECK(name_of(traits.outcome) == traits.name);
    CHECK(outcome_named(traits.name) == traits.outcome);
    CHECK(is_failure(traits.outcome) != is_done(traits.outcome));
    if (traits.raised_by) CHECK(outcome_of(*traits.raised_by) == traits.outcome);
  }
  CHECK(outcomes().size() == 9);
  CHECK_FALSE(outcome_named("fine"));
  // What a sweep does not run again, and what makes its exit code 3.
  for (const Outcome done : {Outcome::ok, Outcome::oom, Outcome::infeasible, Outcome::unsupported})
    CHECK(is_done(done));
  for (const Outcome failed :
       {Outcome::timeout, Outcome::crashed, Outcome::wrong, Outcome::launch_failed, Outcome::partial})
    CHECK(is_failure(failed));
  CHECK(outcome_of(ErrorKind::out_of_memory) == Outcome::oom);
  CHECK_FALSE(outcome_of(ErrorKind::bad_input));
  CHECK_FALSE(outcome_of(ErrorKind::internal));
}
