// What the tests of single kernels share, in addition to the cases of test/ops: tensors on the host, and an emulated stream.
#pragma once
#include "test/engine/ops/op_test.h"
#include "test/ops/tensors.h"
#include "test/simt/emulator.h"
