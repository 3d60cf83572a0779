#include "engine/ops/embedding.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("embedding picks the local rows, zero or nothing for the others") {
  for (DType type : kFloatTypes)
    for (std::int64_t width : {1, 5, 1030}) {
      CAPTURE(name_of(type), width);
      OpTest test;
      const Tensor ids = test.ids({12, 9, 10, 13, 14, 10, 0, 11});
      const Tensor table = test.random({4, width}, type, 1), y = test.garbage({8, width}, type);
      test.run(ops::Embedding{ids, table, y, 10, false});
      const Values t = OpTest::get(table);
      Values want;
      for (int row : {2, -1, 0, 3, -1, 0, -1, 1})
        for (std::int64_t j = 0; j < width; ++j)
          want.push_back(row < 0 ? 0 : t[static_cast<std::size_t>(row * width + j)]);
      CHECK(OpTest::get(y) == want);
      test.run(ops::Embedding{ids, table, y, 10, true});
      for (double& v : want) v *= 2;
      CHECK(OpTest::get(y) == want);
    }
}

TEST_CASE("the shards of a vocabulary add up to the whole look-up") {
  OpTest test;
  const Tensor ids = test.ids({0, 5, 7, 2, 2}), table = test.random({8, 6}, DType::f32, 1);
  const Tensor whole = test.empty({5, 6}), sum = test.put({5, 6}, DType::f32, Values(30, 0.0));
  test.run(ops::Embedding{ids, table, whole, 0, false});
  for (std::int64_t first : {0, 4}) test.run(ops::Embedding{ids, table.slice(first, 4), sum, first, true});
  CHECK(OpTest::get(sum) == OpTest::get(whole));
}

TEST_CASE("embedding_grad adds every row to its word's, repeated words included") {
  for (DType type : kFloatTypes)
    for (DType sum_type : {DType::f32, type})
      for (std::int64_t width : {3, 300}) {
        CAPTURE(name_of(type), name_of(sum_type), width);
        OpTest test;
        std::vector<std::int64_t> words(200);
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::int64_t>(i * 7 % 13);
        const std::int64_t first = 2, rows = 9;  // words 0, 1, 11 and 12 belong to other shards
        const Tensor dy = test.random({200, width}, type, 1),
                     dtable = test.random({rows, width}, sum_type, 2);
        Values want = OpTest::get(dtable);
        const Values d = OpTest::get(dy);
        for (std::size_t i = 0; i < words.size(); ++i)
          for (std::int64_t j = 0; j < width; ++j)
            if (words[i] >= first && words[i] < first + rows)
              want[static_cast<std::size_t>((words[i] - first) * width + j)] +=
                  d[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(j)];
        test.run(ops::EmbeddingGrad{test.ids(words), dy, dtable, first});
        // A 16-bit sum is rounded after each of its 16 or so additions.
        check_close(OpTest::get(dtable), want, 0, sum_type == DType::f32 ? 1e-5 : 16 * epsilon(sum_type));
      }
}
