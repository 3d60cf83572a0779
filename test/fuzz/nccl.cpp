// A log of nccl-tests.
#include <sstream>

#include "formats/logs/nccl_tests.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  std::istringstream in(text);
  for (const formats::NcclTest& test : formats::read_nccl_tests(in, "a.log", "all_gather"))
    require(test.ranks > 0 && !test.rows.empty(), "a test has ranks and rows");
}
