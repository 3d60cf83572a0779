#include "formats/shell/shell.h"

#include "engine/base/error.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

// The words of all commands, commands apart by " | ".
std::string words(const std::string& text, const std::map<std::string, std::string>& variables = {}) {
  std::string all;
  for (const ShellCommand& command : shell_commands(text, "a.sh", variables)) {
    if (!all.empty()) all += " | ";
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const ShellWord& word = command.words[i];
      if (i) all += ' ';
      all += word.unknown.empty() ? fmt::format("<{}>", word.text) : "?";
    }
  }
  return all;
}

std::string refusal(const std::string& text) {
  try {
    shell_commands(text, "a.sh");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("shell: variables, quotes and line continuations are as bash has them") {
  CHECK(words("run a 'b c' \"d e\" f\\ g") == "<run> <a> <b c> <d e> <f g>");
  CHECK(words("A=1\nB=\"x $A\"\nrun $A ${A}2 $B \"$B\" '$B'") == "<run> <1> <12> <x> <1> <x 1> <$B>");
  CHECK(words("run --a \\\n  1 \\\r\n  --b # not this\nnext") == "<run> <--a> <1> <--b> | <next>");
  CHECK(words("OPTIONS=\" \\\n --a 1 \\\n --b 2\"\nrun $OPTIONS") == "<run> <--a> <1> <--b> <2>");
  CHECK(words("A=\"it's\"; run \"$A\"") == "<run> <it's>");
  CHECK(words("export A=2 B=3; run $A$B") == "<run> <23>");
  CHECK(words("A=x; A+=y; run $A") == "<run> <xy>");
  CHECK(words("run \"\" ''") == "<run> <> <>");
}

TEST_CASE("shell: arrays keep their elements, and unquoted ones split") {
  CHECK(words("A=(--x 1 # why\n  \"--y 2\"\n)\nA+=(--z)\nrun ${A[@]}") == "<run> <--x> <1> <--y> <2> <--z>");
  CHECK(words("A=(a \"b c\")\nrun \"${A[@]}\" \"${A[*]}\" ${A[1]} ${#A[@]}") == "<run> <a> <b c> <a b c> <b> <c> <2>");
  CHECK(words("A=()\nrun \"${A[@]}\" end") == "<run> <end>");
  CHECK(words("A=(1)\nB=(\"${A[@]}\" 2)\nrun ${B[@]}") == "<run> <1> <2>");
}

TEST_CASE("shell: defaults, arithmetic and arguments") {
  CHECK(words("A=${A:-8}; B=${1:-x}; run $A $B ${C-} ${A:+set} ${D:+set}") == "<run> <8> <x> <set>");
  CHECK(words("N=8; M=2\nrun $((N * $M)) $(( (N+M)/5 )) $((2**10)) $((7%4))") == "<run> <16> <2> <1024> <3>");
  CHECK(words("A=3\nrun $A", {{"B", "4"}}) == "<run> <3>");
  CHECK(words("run $B", {{"B", "4 5"}}) == "<run> <4> <5>");
  CHECK(words("B=1; B+=2; run $B", {{"B", "9"}}) == "<run> <9>");
  CHECK(words("set -- p q\nrun $2 $#") == "<run> <q> <2>");
  CHECK(words("f() { run $1; }\nf a\nf b") == "<run> <a> | <run> <b>");
}

TEST_CASE("shell: conditions choose a branch, or nothing where they cannot be decided") {
  CHECK(words("T=fp8\nif [[ \"$T\" == \"fp8\" ]]; then A=1; elif [ $T = x ]; then A=2; else A=3; fi\nrun $A") ==
        "<run> <1>");
  CHECK(words("N=4\nif [ $N -gt 8 ] || [ -z \"$N\" ]; then A=1; else A=2; fi\nrun $A") == "<run> <2>");
  CHECK(words("if [ -z \"$NOT_SET\" ]; then A=1; fi\nrun $A") == "<run> <1>");
  CHECK(words("A=0\nif [ -f file ]; then A=1; fi\nrun $A") == "<run> ?");
  CHECK(words("A=0\nif [[ 3 > 2 ]]; then A=1; fi\nrun $A") == "<run> ?");
  CHECK(words("A=0\nwhile [[ $# -gt 0 ]]; do A=1; shift; done\nrun $A") == "<run> <0>");
  CHECK(words("S=7b\ncase $S in 7b|8b) L=32;; 70*) L=80 ;; *) exit 1 ;; esac\nrun $L") == "<run> <32>");
  CHECK(words("for S in 512; do run $S; done") == "<run> <512>");
  CHECK(words("for S in 1 2; do run $S; done") == "<run> ?");
  CHECK(words("for ((i=0;i<3;i++)); do A=1; done; run $A") == "<run> ?");
}

TEST_CASE("shell: nothing is run, and what would have been printed is unknown") {
  CHECK(words("A=$(rm -rf /)\nrun $A `reboot` $(echo 1) ok") == "<run> ? ? ? <ok>");
  const auto commands = shell_commands("A=$(rm -rf /)\nrun $A $NOWHERE", "a.sh");
  REQUIRE(commands.size() == 1);
  CHECK(commands[0].line == 2);
  CHECK_THAT(commands[0].words[1].unknown, Contains("$(rm -rf /) on line 1 is not run"));
  CHECK_THAT(commands[0].words[2].unknown, Contains("NOWHERE is not set on line 2"));
  CHECK(words("A=(\"--a $NOWHERE/x\" \"--b 1\")\nrun ${A[@]}") == "<run> <--a> ? <--b> <1>");
  CHECK(words("rm -rf / > out 2>&1 < in &") == "<rm> <-rf> </>");
  CHECK(words("cat <<EOF > x\nrun --num-layers 3\nEOF\nrun a") == "<cat> | <run> <a>");
}

TEST_CASE("shell: words within words are read, and not run either") {
  CHECK(words("CMD=\"run --a 1\"\neval $CMD\n$CMD") == "<run> <--a> <1> | <run> <--a> <1>");
  CHECK(words("A=5\nsrun -l bash -c \"run --a $A\"") == "<run> <--a> <5>");
  CHECK(words("if true; then { run a; (run b); }; fi") == "<run> <a> | <run> <b>");
  CHECK(words("cd x && run a || exit 1") == "<cd> <x> | <run> <a> | <exit> <1>");
}

TEST_CASE("shell: what bash would not parse is refused by line") {
  CHECK_THAT(refusal("run a\nrun 'b"), Contains("a.sh:2") && Contains("without an end"));
  CHECK_THAT(refusal("if true; then\nrun"), Contains("a.sh:2") && Contains("\"fi\""));
  CHECK_THAT(refusal("A=(1 2"), Contains("the array A has no end"));
  CHECK_THAT(refusal("fi"), Contains("a.sh:1"));
  CHECK_THAT(refusal("run )"), Contains("a.sh:1"));
}

TEST_CASE("shell: hostile scripts end") {
  std::string deep, nested, growing = "A=aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 5000; ++i) deep += "(";
  for (int i = 0; i < 5000; ++i) nested += "${A:-";
  for (int i = 0; i < 40; ++i) growing += "A=$A$A\n";
  CHECK_THAT(refusal(deep), Contains("within each other"));
  CHECK(!refusal("run " + nested).empty());
  CHECK_THAT(refusal(growing + "run $A"), Contains("grow beyond"));
  CHECK_THAT(refusal("f() { f; }\nf"), Contains("within each other"));
  CHECK_THAT(refusal("A='eval $A'\neval $A"), Contains("within each other"));
  std::string arrays;
  for (int i = 0; i < 5000; ++i) arrays += "A=(";
  CHECK(!refusal(arrays).empty());
}
