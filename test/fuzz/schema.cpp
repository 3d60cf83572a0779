// The reader of specs against the JSON Schema that is told of them: what the reader takes, the schema allows. By valijson, which
// knows draft 7; what the schema says is the same in 2020-12.
#include <nlohmann/json.hpp>
#define VALIJSON_USE_EXCEPTIONS 1
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "engine/base/json_reader.h"
#include "sweeps/spec/schema.h"
#include "sweeps/spec/spec.h"
#include "test/fuzz/target.h"

namespace {

const valijson::Schema& schema() {
  static const nlohmann::json text(mbench::sweeps::spec_schema());
  static const auto* parsed = [] {
    auto* schema = new valijson::Schema;
    valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(text), *schema);
    return schema;
  }();
  return *parsed;
}

}  // namespace

void mbench::fuzz::read(const std::string& text) {
  if (text.size() > 4000) return;  // keys are matched by std::regex, whose stack grows with them
  const std::string file = file_with(text);
  const sweeps::Spec spec = sweeps::read_spec({file, {}, {}, "cpu"});
  if (spec.json.contains("schema") || text.find("\"spec\"") != std::string::npos)
    return;  // a result file stands for its spec
  const nlohmann::json json(parse_json(text, file));
  valijson::ValidationResults results;
  valijson::Validator validator;
  const bool valid = validator.validate(schema(), valijson::adapters::NlohmannJsonAdapter(json), &results);
  valijson::ValidationResults::Error error;
  while (results.popError(error))
    if (!valid)
      std::fprintf(stderr, "%s: %s\n", error.context.empty() ? "" : error.context.back().c_str(),
                   error.description.c_str());
  require(valid, "a spec that the reader takes is valid by its schema");
}
