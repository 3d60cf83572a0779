// What people have, from the command line: imported, taken where a spec is, and exported.
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

namespace {

constexpr const char* kConfig =
    R"({"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1024,
        "max_position_embeddings": 512, "torch_dtype": "bfloat16", "bos_token_id": 1})";
constexpr const char* kScript = R"(TP=2
ARGS=(--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --vocab-size 1024
  --micro-batch-size 1 --global-batch-size 8 --bf16 --attention-dropout 0 --hidden-dropout 0)
X=$(touch ran)
torchrun --nproc_per_node 4 pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP --save $1
)";

}  // namespace

TEST_CASE("formats: a config or a script is planned and searched as a spec is, and nothing of it is run") {
  const Room room;
  room.put("config.json", kConfig);
  room.put("train.sh", kScript);
  const Run plan = room.shell("$M plan config.json --on sim:8xH100-SXM5-80GB --set tp=2");
  INFO(plan.err);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("ranks        2 = tp 2"));
  CHECK_THAT(plan.err, Contains("config.json: without meaning for cost: bos_token_id"));
  const Run script = room.shell("$M plan train.sh --on sim:8xH100-SXM5-80GB");
  INFO(script.err);
  CHECK(script.code == 0);
  CHECK_THAT(script.out, Contains("ranks        4 = tp 2 x dp 2"));
  CHECK_FALSE(std::filesystem::exists(room / "ran"));
  const Run search = room.shell("$M search config.json --on sim:2xH100-SXM5-80GB --set global_batch=8 --best 2 --out o && $M export o --layout 1 --to hf");
  INFO(search.err);
  CHECK(search.code == 0);
  CHECK_THAT(search.out, Contains("\"model_type\": \"llama\""));
}

TEST_CASE("formats: imported, exported and imported again it is the same spec") {
  const Room room;
  room.put("train.sh", kScript);
  const Run run = room.shell("$M import train.sh -o a.json && $M export a.json --to megatron -o b.sh && $M import b.sh -o b.json && bash -n b.sh && diff a.json b.json");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.err, Contains("without meaning for cost: --save"));
}

TEST_CASE("formats: refusals name the file, the key and what would be right") {
  const Room room;
  room.put("train.sh", std::string(kScript) + "# more\n");
  room.put("config.json", R"({"model_type": "mistral", "sliding_window": 64})");
  room.put("text.txt", "nothing\n");
  const Run window = room.shell("$M import config.json");
  CHECK(window.code == 2);
  CHECK_THAT(window.err, Contains("[config.json]") && Contains("sliding_window 64") && Contains("--without"));
  CHECK(room.shell("$M import config.json --without sliding_window").code == 0);
  CHECK_THAT(room.shell("$M import text.txt").err, Contains("[text.txt] nothing that can be imported"));
  CHECK_THAT(room.shell("$M export train.sh --to nemo").err, Contains("no such trainer, got \"nemo\""));
  CHECK_THAT(room.shell("$M export train.sh --to megatron --set zero=3 --set sequence_parallel=false").err, Contains("[Megatron-LM]") && Contains("zero 3"));
  CHECK_THAT(room.shell("$M export train.sh --to megatron --set \"tp=[1,2]\"").err, Contains("--layout") && Contains("2 points"));
}
