// Every op of the GPU on the cases of test/ops, against the CPU's, whose own test holds it to references in double.
// Needs a GPU.
#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("the GPU's ops agree with the CPU's") {
  Twin twin;
  for (const OpCases& op : all_op_cases()) DYNAMIC_SECTION(op.op) {
      for (const auto* list : {&op.compared, &op.unemulated})
        for (const Case& c : *list)
          if (c.within.gpu > 0) twin.compare(c);
    }
}
