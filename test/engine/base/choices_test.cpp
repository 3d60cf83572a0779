#include "engine/base/text.h"
#include "test/catch.h"

using namespace mbench;
using Catch::StartsWith;

TEST_CASE("of many choices the nearest are named, and how many others there are") {
  std::vector<std::string> choices{"gpt345m"};
  for (int i = 0; i < 40; ++i) choices.push_back("some-layout-" + std::to_string(i));
  choices.push_back("gpt345m-zero3");
  CHECK(nearest_choices("gpt354m", choices, 2) ==
        "need one of gpt345m, gpt345m-zero3 or 40 others; did you mean \"gpt345m\"?");
  // What holds all that was typed comes first, however long it is.
  CHECK_THAT(nearest_choices("zero3", choices, 1), StartsWith("need one of gpt345m-zero3 or 41 others"));
  CHECK(nearest_choices("far-away", {"one", "two"}, 2) == "need one of one, two");
  CHECK(nearest_choices(std::string(1 << 20, 'x'), choices, 1).size() < 100);
}
