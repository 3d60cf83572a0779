// Low-rank adapters as a field of a point, and the weights that they add.
#include "engine/point/adapter.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/adapter_weights.h"
#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

std::string refusal(const std::string& text) {
  try {
    read_adapter(text, "p.json: $.adapter");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

std::int64_t count(const char* model, const std::string& adapter) {
  return adapter_parameter_count(find_preset(model, "test"), read_adapter(adapter, "test"));
}

}  // namespace

TEST_CASE("adapter: a text says rank, alpha and targets, and what is at its default is left out") {
  const AdapterSpec plain = read_adapter("lora:16", "test");
  CHECK(plain.rank == 16);
  CHECK(plain.scale() == 1);
  CHECK(plain.targets == std::vector<std::string>{"qkv", "proj", "fc1", "fc2"});
  const AdapterSpec some = read_adapter("lora:8,targets=fc2+qkv,alpha=20", "test");
  CHECK(some.scale() == 2.5f);
  CHECK(some.targets == std::vector<std::string>{"qkv", "fc2"});
  for (const char* text :
       {"none", "lora:16", "lora:8,alpha=20,targets=qkv+fc2", "lora:3,alpha=0.5", "lora:4,targets=proj",
        "lora:4,base=nf4", "lora:4,alpha=8,targets=qkv+fc1,base=nf4-double"}) {
    INFO(text);
    CHECK(str(read_adapter(text, "test")) == text);
    CHECK(read_adapter(str(read_adapter(text, "test")), "test") == read_adapter(text, "test"));
  }
  CHECK(str(read_adapter("lora:4,alpha=4,targets=fc2+fc1+proj+qkv", "test")) == "lora:4");
  CHECK_FALSE(read_adapter("none", "test").on());
  CHECK_FALSE(plain.in_4_bits());
  CHECK(read_adapter("lora:4,base=nf4-double", "test").base == FrozenBase::nf4_double);
}

TEST_CASE("adapter: what is none says what would be") {
  for (const char* text : {"", "lora", "lora:", "lora:0", "lora:-3", "lora:2.5", "lora:99999", "dora:4", "lora:4x"})
    CHECK_THAT(refusal(text),
               Contains("[p.json: $.adapter] no adapter, got \"") && Contains("such as lora:16,alpha=32"));
  CHECK_THAT(refusal("lora:4,alpha=0"), Contains("no alpha of an adapter, got \"0\", need a number above 0"));
  CHECK_THAT(refusal("lora:4,alpha=inf"), Contains("no alpha"));
  CHECK_THAT(refusal("lora:4,dropout=0.1"), Contains("no part of an adapter, got \"dropout=0.1\""));
  CHECK_THAT(refusal("lora:4,base=fp4"), Contains("no base of an adapter, got \"fp4\", need nf4 or nf4-double"));
  CHECK_THAT(refusal("lora:4,targets=qkv+prj"), Contains("got \"prj\"") && Contains("proj"));
}

TEST_CASE("adapter: numbers of parameters are those that peft prints") {
  // GPT-2, rank 8, c_attn: 12 layers of 8 * (768 + 3 * 768).
  CHECK(count("gpt2-124m", "lora:8,targets=qkv") == 294912);
  CHECK(count("gpt2-124m", "lora:8") == 12 * 8 * ((768 + 2304) + (768 + 768) + 2 * (768 + 3072)));
  // LLaMA 3 8B, rank 16, o_proj and down_proj: 32 layers of 16 * (4096 + 4096 + 14336 + 4096).
  CHECK(count("llama-3-8b", "lora:16,targets=proj+fc2") == 13631488);
  CHECK(count("llama-3-8b", "none") == 0);
  // An adapter for each expert. Mixtral 8x7B, rank 4: 32 layers of 8 experts of 4 * (4096 + 2 * 14336) and 4 * (14336 + 4096).
  CHECK(count("mixtral-8x7b", "lora:4,targets=fc1+fc2") == 32 * 8 * 4 * ((4096 + 2 * 14336) + (14336 + 4096)));
}

TEST_CASE("adapter: a field of a point that counts in its id") {
  const auto point = [](const char* adapter) {
    return point_from_json({{"model", "gpt2-124m"}, {"adapter", adapter}}, "p.json: $");
  };
  CHECK(point_id(point("none")) == point_id(point_from_json({{"model", "gpt2-124m"}}, "p.json: $")));
  CHECK(point_id(point("lora:4")) != point_id(point("none")));
  CHECK(point_id(point("lora:4,alpha=4")) == point_id(point("lora:4")));
  CHECK(point_to_json(point("lora:4,targets=fc1+qkv")).at("adapter") == "lora:4,targets=qkv+fc1");
}
