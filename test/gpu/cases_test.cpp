// Every op of the GPU on the cases of test/ops, against the CPU's, whose own test holds it to references in double.
// Needs a GPU.
#include <cstdio>

#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::test;

// With -c NAME of one op alone: a fault in a kernel ends what its process may ask of the GPU, and should not hide the other ops.
TEST_CASE("the GPU's ops agree with the CPU's", "[each-op]") {
  Twin twin;
  for (const OpCases& op : all_op_cases()) DYNAMIC_SECTION(op.op) {
      for (const auto* list : {&op.compared, &op.unemulated})
        for (const Case& c : *list)
          if (c.within.gpu > 0) twin.compare(c);
    }
}

TEST_CASE("the names of the ops, a line for each", "[.][op-names]") {
  for (const OpCases& op : all_op_cases()) std::printf("op: %s\n", op.op.c_str());
}
