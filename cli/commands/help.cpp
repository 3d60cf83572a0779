// mbench help: what a field of a spec means, from the table of fields.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "engine/base/json_reader.h"
#include "engine/point/field_docs.h"

namespace mbench::cli {

void add_help(CLI::App& app, Exit&) {
  struct HelpArguments {
    std::vector<std::string> fields;
    std::string format = "text";
  };
  auto args = std::make_shared<HelpArguments>();
  CLI::App* command = app.add_subcommand("help", "Prints what the fields of a spec mean: values, default, unit");
  command->add_option("FIELD", args->fields, "fields, as a spec names them; without one: a line on each");
  command
      ->add_option("--format", args->format,
                   "of all fields: text, markdown (docs/reference/fields.md) or json (schemas/fields.json)")
      ->check(CLI::IsMember({"text", "markdown", "json"}));
  command->callback([args] {
    if (args->format == "markdown") return fmt::print("{}", fields_page());
    if (args->format == "json") return fmt::print("{}", dump_json(fields_json()));
    if (args->fields.empty()) fmt::print("{}", list_fields());
    for (std::size_t i = 0; i < args->fields.size(); ++i)
      fmt::print("{}{}", i == 0 ? "" : "\n", describe_field(args->fields[i]));
  });
}

}  // namespace mbench::cli
