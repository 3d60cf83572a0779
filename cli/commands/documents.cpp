// mbench schema, man, completion: what editors, shells and packages want to know of this program, made from its own tables: the
// fields of a spec, and the commands with their options.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/cli.h"
#include "engine/base/json_reader.h"
#include "sweeps/spec/schema.h"

namespace mbench::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* o) { return o->nonpositional(); });
}

// "--on", "-h": an option's names as they are typed, long ones first.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

std::string joined(const std::vector<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

// What roff would take for its own: backslashes, and a dot or quote at the start of a line.
std::string roff(const std::string& text) {
  std::string out;
  bool begin = true;
  for (const char c : text) {
    if (begin && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begin = c == '\n';
  }
  return out;
}

std::string man_options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* o : options_of(command)) {
    const std::string type = o->get_expected_max() > 0 ? o->get_type_name() : "";
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(joined(names_of(*o), ", ")),
                        type.empty() ? "" : " \\fI" + roff(type) + "\\fR", roff(o->get_description()));
  }
  return text;
}

std::string man_page(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH MBENCH 1 \"\" \"mbench {}\" \"User Commands\"\n.SH NAME\nmbench \\- what a training step of "
      "a transformer costs on a machine\n.SH SYNOPSIS\n.B mbench\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n"
      ".SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      MBENCH_VERSION, roff(app.get_description()));
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format(".SS mbench {}\n.nf\n{}\n.fi\n{}", roff(command->get_name()), roff(command->get_description()),
                        man_options(*command));
    for (const CLI::App* inner : commands_of(*command))
      text += fmt::format(".SS mbench {} {}\n.nf\n{}\n.fi\n{}", roff(command->get_name()), roff(inner->get_name()),
                          roff(inner->get_description()), man_options(*inner));
  }
  return text + fmt::format(".SH \"EXIT STATUS\"\n.nf\n{}\n.fi\n", roff(app.get_footer()));
}

// The words that may follow `command`.
std::string words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* inner : commands_of(command)) words.push_back(inner->get_name());
  for (const CLI::Option* o : options_of(command))
    for (const std::string& name : names_of(*o)) words.push_back(name);
  return joined(words, " ");
}

// Commands and options by name, files for everything else.
std::string bash_completion(const CLI::App& app) {
  std::string text =
      "# bash completion of mbench: source it, or install it as share/bash-completion/completions/mbench\n_mbench() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words\n  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n";
  for (const CLI::App* command : commands_of(app))
    for (const CLI::App* inner : commands_of(*command))
      text +=
          fmt::format("    \"{} {}\") words=\"{}\" ;;\n", command->get_name(), inner->get_name(), words_after(*inner));
  for (const CLI::App* command : commands_of(app))
    text += fmt::format("    \"{} \"*) words=\"{}\" ;;\n", command->get_name(), words_after(*command));
  text += fmt::format("    *) words=\"{}\" ;;\n  esac\n", words_after(app));
  return text + "  if [ \"$COMP_CWORD\" -eq 1 ]; then words=\"" + words_after(app) +
         "\"; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o default -F _mbench mbench\n";
}

std::string zsh_completion(const CLI::App& app) {
  std::string text =
      "#compdef mbench\n# zsh completion of mbench: install it as _mbench in a folder of $fpath\n_mbench() {\n"
      "  if (( CURRENT == 2 )); then\n";
  text += fmt::format("    compadd -- {}\n    return\n  fi\n  case \"$words[2]\" in\n", words_after(app));
  for (const CLI::App* command : commands_of(app))
    text += fmt::format("    {}) compadd -- {} ;;\n", command->get_name(), words_after(*command));
  return text + "  esac\n  _files\n}\n_mbench \"$@\"\n";
}

}  // namespace

void add_documents(CLI::App& app, Exit&) {
  CLI::App* schema = app.add_subcommand(
      "schema", "Prints the JSON Schema (2020-12) of a spec, for editors and programs that write specs");
  auto command = std::make_shared<std::string>("sweep");
  schema->add_option("COMMAND", *command, "whose specs: sweep (the default) or search")
      ->check(CLI::IsMember({"sweep", "search"}));
  schema->callback([command] {
    fmt::print("{}", dump_json(*command == "search" ? sweeps::search_schema() : sweeps::spec_schema()));
  });
  CLI::App* man = app.add_subcommand("man", "Prints the manual page: mbench man | man -l -");
  man->callback([&app] { fmt::print("{}", man_page(app)); });
  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "Prints the completion of a shell: source <(mbench completion bash)");
  completion->add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  completion->callback(
      [&app, shell] { fmt::print("{}", *shell == "bash" ? bash_completion(app) : zsh_completion(app)); });
}

}  // namespace mbench::cli
