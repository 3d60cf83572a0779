// mbench import: what people have, as a spec.
#include <fmt/format.h>

#include <iostream>

#include "cli/cli.h"
#include "cli/find_spec.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "formats/formats.h"

namespace mbench::cli {
namespace {

constexpr const char* kImportAbout =
    "Writes a spec from what you have. Several files are merged. The same file can stand wherever a SPEC does.\n"
    "  Hugging Face     the config.json of a model, or TrainingArguments (also axolotl's and LLaMA-Factory's YAML)\n"
    "  Megatron-LM      a script, which is not run, a list of arguments, or a YAML\n"
    "  Megatron-Bridge  a YAML\n"
    "  torchtitan       a TOML\n"
    "  DeepSpeed        a config\n"
    "What mbench has no part for is refused by its key and value. What has no meaning for time and memory is listed "
    "on\n"
    "standard error.";

constexpr const char* kImportFooter =
    "Examples:\n"
    "  mbench import config.json -o spec.json\n"
    "  mbench import config.json ds_config.json -o spec.json\n"
    "  mbench import config.json llama_factory.yaml ds_z3_config.json\n"
    "  mbench import config.json --without sliding_window\n"
    "  mbench import train.sh --var NUM_NODES=4 --also \"--vocab-size 128256\"";

}  // namespace

void add_import(CLI::App& app, Exit& exit) {
  struct ImportCommandOptions {
    std::vector<std::string> files;
    std::string out;
    formats::ImportOptions how;
  };
  auto options = std::make_shared<ImportCommandOptions>();
  CLI::App* command = app.add_subcommand("import", kImportAbout);
  command->footer(kImportFooter);
  command->add_option("FILE", options->files, "What there is")->required();
  command->add_option("-o,--out", options->out, "Where the spec is written; default standard output")
      ->type_name("FILE");
  add_import_options(*command, options->how);
  command->callback([options, &exit] {
    const formats::Imported imported = formats::import_files(options->files, options->how);
    const std::string text = dump_json(imported.spec);
    if (options->out.empty())
      std::cout << text << std::flush;
    else if (!write_or_print(options->out, text))
      exit.code = Exit::kFailed;
    for (const std::string& note : imported.notes) fmt::print(stderr, "{}\n", printable(note));
  });
}

}  // namespace mbench::cli
