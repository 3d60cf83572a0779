// What people have, from the command line: imported, taken where a spec is, and exported.
#include <fmt/format.h>

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
  const Run search = room.shell(
      "$M search config.json --on sim:2xH100-SXM5-80GB --set global_batch=8 --best 2 --out o && $M export o --layout 1 "
      "--to hf");
  INFO(search.err);
  CHECK(search.code == 0);
  CHECK_THAT(search.out, Contains("\"model_type\": \"llama\""));
}

TEST_CASE("formats: imported, exported and imported again it is the same spec") {
  const Room room;
  room.put("train.sh", kScript);
  const Run run = room.shell(
      "$M import train.sh -o a.json && $M export a.json --to megatron -o b.sh && $M import b.sh -o b.json && bash -n "
      "b.sh && diff a.json b.json");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.err, Contains("without meaning for cost: --save"));
}

TEST_CASE("formats: a log is a result that is reported, stored, and compared with another") {
  const Room room;
  std::string head =
      "using world size: 4, data-parallel size: 2\n------------------------ arguments ------------------------\n";
  for (const char* line :
       {"attention_backend ............................... AttnBackend.flash",
        "bf16 ............................................ True", "global_batch_size ............................... 8",
        "hidden_dropout .................................. 0.0",
        "attention_dropout ............................... 0.0",
        "hidden_size ..................................... 256",
        "max_position_embeddings ......................... 128", "micro_batch_size ................................ 1",
        "num_attention_heads ............................. 4", "num_layers ...................................... 4",
        "seq_length ...................................... 128", "tensor_model_parallel_size ...................... 2",
        "apply_rope_fusion ............................... False",
        "vocab_size ...................................... 1024", "world_size ...................................... 4",
        "padded_vocab_size ............................... 1024",
        "data_path ....................................... ['/data/a b; touch ran']"})
    head += std::string("  ") + line + "\n";
  const auto log = [&](double ms) {
    std::string text = head;
    for (int i = 1; i <= 40; ++i)
      text += fmt::format(
          "[2025-05-27 15:23:07] iteration {:8}/  40 | elapsed time per iteration (ms): {:.1f} | global batch size:    "
          " 8 | lm loss: {:.6E} | grad norm: 1.0 |\n",
          i, i == 1 ? 9000 : ms + i % 5, 5 - 0.01 * i);
    return text;
  };
  room.put("old.log", log(100));
  room.put("new.log", log(120));
  const Run old =
      room.shell("$M import-log old.log --revision aaa -o old.json && $M report old.json && $M baseline add old.json");
  INFO(old.out << old.err);
  CHECK(old.code == 0);
  CHECK_THAT(old.out, Contains("1 of 1 points were measured by megatron-lm, by its log; 1 times of warm-up"));
  CHECK_THAT(old.err, Contains("measured by megatron-lm, by its log old.log; 1 of a warm-up left out"));
  CHECK_FALSE(std::filesystem::exists(room / "ran"));
  const Run fresh = room.shell(
      "cat new.log | $M import-log - --revision bbb -o new.json && $M compare new.json --baseline baselines");
  INFO(fresh.out << fresh.err);
  CHECK(fresh.code == 1);
  CHECK_THAT(fresh.out, Contains("slower"));
  const Run trend = room.shell("$M baseline add new.json && $M trend");
  INFO(trend.out << trend.err);
  CHECK(trend.code == 0);
  CHECK_THAT(trend.out, Contains("aaa") && Contains("bbb"));
  // With a spec: the flags of a script are those of the log.
  room.put("train.sh", kScript);
  CHECK_THAT(room.shell("$M import-log old.log train.sh --set dp=8 --set global_batch=8 -o x.json").err,
             Contains("the log is of 4 ranks"));
  CHECK(room.shell("$M import-log old.log train.sh --on h200 -o x.json && $M compare x.json --baseline x.json").code ==
        0);
  CHECK_THAT(room.shell("$M import-log train.sh train.sh").err, Contains("no step of a trainer is in it"));
}

TEST_CASE("formats: names are found as people write them, and several are listed") {
  const Room room;
  const Run plan = room.shell("$M plan tiny.json --on sim:1xh200 --set tp=1 --set strategy=baseline");
  INFO(plan.err);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out + plan.err, Contains("H200-SXM5-141GB"));
  const Run known = room.shell("$M plan tiny.json --on sim:8xA100-80GB --set tp=1 --set strategy=baseline --set dp=8");
  INFO(known.err);
  CHECK(known.code == 0);
  CHECK_THAT(known.err,
             Contains("is taken as sim:8xA100-SXM4-80GB; there are also A100-PCIe-80GB, A100-SXM4-80GB-RoCE"));
  const Run several = room.shell("$M plan tiny.json --on sim:8xV100");
  CHECK(several.code == 2);
  CHECK_THAT(several.err,
             Contains("several machines are meant") && Contains("V100-SXM2-16GB") && Contains("V100-SXM2-32GB"));
  CHECK(room.shell("$M plan tiny.json --set model=meta-llama/Llama-2-7b-hf --set tp=1 --set strategy=baseline").code ==
        0);
}

TEST_CASE("formats: a search says how the trainer is told its best layout") {
  const Room room;
  room.put("config.json", kConfig);
  const Run search = room.shell(
      "$M search config.json --on sim:2xH100-SXM5-80GB --set global_batch=8 --set framework=megatron-core --best 2 "
      "--out o");
  INFO(search.out << search.err);
  CHECK(search.code == 0);
  CHECK_THAT(search.out, Contains("## The best as settings of megatron-core") &&
                             Contains("mbench export o --layout 1 --to megatron"));
  CHECK_THAT(search.out, Contains("|  tp |  pp |  dp |  cp |  ep | micro_batch |"));
}

TEST_CASE("formats: what a script recomputes is among the layouts of its search") {
  const Room room;
  std::string script = kScript;
  script.insert(script.find("--save"), "--recompute-granularity selective --recompute-modules layernorm mlp ");
  room.put("train.sh", script);
  const Run search = room.shell(
      "$M search train.sh --on sim:4xH100 --best 30 --no-front --set tp=1 --set pp=1 --set offload=none --out o");
  INFO(search.out << search.err);
  CHECK(search.code == 0);
  CHECK_THAT(read_text_file(room / "o/results.json"), Contains("\"mlp+norm\"") || Contains("\"norm+mlp\""));
  CHECK_THAT(search.out, !Contains("less than the best"));
}

TEST_CASE("formats: a search of a spec with nothing free frees its layout, and reads a script as import does") {
  const Room room;
  room.put("train.sh", kScript);
  CHECK(room.shell("$M import train.sh --also \"--swiglu\" -o spec.json").code == 0);
  const Run search = room.shell("$M search spec.json --on sim:4xH100 --best 1 --no-front --out o");
  INFO(search.out << search.err);
  CHECK(search.code == 0);
  CHECK_THAT(search.err, Contains("its layout is free here ("));
  CHECK_THAT(search.out, Contains("As spec.json has it ("));
  CHECK(room.shell("$M search train.sh --also \"--swiglu\" --on sim:4xH100 --best 1 --no-front --out p").code == 0);
  CHECK(room.shell("$M plan train.sh --also \"--swiglu\"").code == 0);
}

TEST_CASE("formats: a model with a DeepSpeed config runs in DeepSpeed") {
  const Room room;
  room.put("config.json", kConfig);
  room.put("ds.json", R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "train_batch_size": 8})");
  const Run imported = room.shell("$M import config.json ds.json");
  CHECK(imported.code == 0);
  CHECK_THAT(imported.out, Contains("\"framework\": \"deepspeed\""));
}

TEST_CASE("formats: a search frees the layout of a script, and says how far the script's own is from the best") {
  const Room room;
  room.put("train.sh", kScript);
  const std::string search = "$M search train.sh --on sim:4xH100 --best 3 --no-front";
  const Run free = room.shell(search + " --out free");
  INFO(free.out << free.err);
  CHECK(free.code == 0);
  CHECK_THAT(free.err, Contains("its layout is free here (") && Contains("--set ") && Contains(" keeps a part of it"));
  CHECK_THAT(free.out, Contains("As train.sh has it (") && Contains("than the best."));
  const Run kept = room.shell(search + " --set tp=2 --out kept");
  CHECK(kept.code == 0);
  const auto layouts = [](const Run& run) { return std::stoi(run.out.substr(run.out.find("\n\n") + 2)); };
  CHECK(layouts(kept) < layouts(free));
  const Run two = room.shell("$M search train.sh --on sim:2xH100 --best 1 --no-front --out two");
  CHECK_THAT(two.out, Contains("it is of 4 devices, not of 2."));
}

TEST_CASE("formats: refusals name the file, the key and what would be right") {
  const Room room;
  room.put("train.sh", std::string(kScript) + "# more\n");
  room.put("config.json", R"({"model_type": "mpt", "attn_config": {"qk_ln": true}})");
  room.put("text.txt", "nothing\n");
  const Run norms = room.shell("$M import config.json");
  CHECK(norms.code == 2);
  CHECK_THAT(norms.err, Contains("[config.json]") && Contains("attn_config {\"qk_ln\":true}") &&
                            Contains("layer norms of queries and keys") && Contains("--without"));
  CHECK(room.shell("$M import config.json --without attn_config").code == 0);
  CHECK_THAT(room.shell("$M import text.txt").err, Contains("[text.txt] nothing that can be imported"));
  CHECK_THAT(room.shell("$M export train.sh --to nemo").err, Contains("no such trainer, got \"nemo\""));
  CHECK_THAT(room.shell("$M export train.sh --to megatron --set zero=oss").err,
             Contains("[Megatron-LM]") && Contains("zero \"oss\""));
  CHECK_THAT(room.shell("$M export train.sh --to megatron --set \"tp=[1,2]\"").err,
             Contains("--layout") && Contains("2 points"));
}

TEST_CASE("formats: a run is explained from its log, and from a result with a trace") {
  const Room room;
  std::string log = "using world size: 4, data-parallel size: 2\n";
  for (int i = 1; i <= 40; ++i)
    log += fmt::format(
        " iteration {:8}/  40 | elapsed time per iteration (ms): {:.1f} | global batch size:     8 | lm loss: 5.0E+00 "
        "|\n",
        i,
        i == 1        ? 9000.0
        : i % 10 == 0 ? 900.0
                      : 300.0);
  room.put("train.log", log);
  room.put("train.sh", kScript);
  const Run run = room.shell("$M explain train.log train.sh --on sim:4xH100-SXM5-80GB");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("measured and expected") && Contains("| Step (ms) |") && Contains("published steps") &&
                          Contains("most likely first") && Contains("stalls: every 10th step") &&
                          Contains("To confirm:"));
  CHECK_FALSE(std::filesystem::exists(room / "ran"));
  room.put(
      "t.json",
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "nvjet", "pid": 0, "tid": 7, "ts": 0, "dur": 20000}, {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 30000}]})");
  const Run traced = room.shell(
      "$M import-log train.log train.sh -o r.json && $M explain r.json --on sim:4xH100-SXM5-80GB --trace t.json");
  INFO(traced.out << traced.err);
  CHECK(traced.code == 0);
  CHECK_THAT(traced.out, Contains("## The gap by part") && Contains("| GEMMs | 20 |"));
  CHECK_THAT(room.shell("$M explain train.log train.sh --on cpu").err, Contains("[--on] is the simulated machine"));
  CHECK_THAT(room.shell("$M sweep tiny.json --on sim:8xH100-SXM5-80GB --filter strategy=baseline --out s --quiet && $M "
                        "explain s --filter tp=1 --on sim:8xH100-SXM5-80GB")
                 .err,
             Contains("is simulated, need a measured run"));
}

TEST_CASE("formats: a log of nccl-tests is a check file, held to the machine") {
  const Room room;
  std::string log = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 2048 step: 2(factor)\n";
  for (int i = 0; i < 8; ++i)
    log += fmt::format("#  Rank {:2} Group  0 Pid 1 on one device {:2} [0x{:02x}] NVIDIA H100 80GB HBM3\n", i, i, i);
  log +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n"
      "  1073741824     268435456     float     sum      -1    10000  107.37  187.90      0    10000  107.37  187.90   "
      "   0\n";
  room.put("all_reduce.log", log);
  const Run run = room.shell("$M import-log all_reduce.log --on H100-SXM5-80GB -o check.json && cat check.json");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out,
             Contains("\"schema\": \"mbench.check/1\"") && Contains("\"what\": \"all_reduce\"") && Contains("187.9"));
  CHECK_THAT(run.err, Contains("all_reduce"));  // below what the machine's file says
}

TEST_CASE("formats: YAML stands wherever a spec does") {
  const Room room;
  room.put("run.yaml",
           "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\nmicro_batch_size: "
           "1\ngradient_accumulation_steps: 8\nbf16: true\ngradient_checkpointing: true\nfsdp: [full_shard]\n");
  const Run run = room.shell("$M plan run.yaml --on sim:8xH100-SXM5-80GB --set dp=8 --set global_batch=64");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("ranks        8 = tp 1 x dp 8") && Contains("full recompute"));
  room.put("odd.yaml", "a: 1\n");
  CHECK_THAT(room.shell("$M import odd.yaml").err, Contains("a YAML of no trainer that is known"));
}
