// What readers refuse so that no file of anybody's ends the program: nesting, size, keys, U+0000; and texts made fit for a
// terminal.
#include <filesystem>
#include <fstream>

#include "engine/base/controls.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using Catch::Contains;

namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "nothing was thrown";
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("nesting of more than a hundred levels is refused, however deep, by both readers") {
  CHECK(parse_json(nested(100), "f").is_array());
  for (const std::size_t depth : {101, 1000, 100000})
    CHECK_THAT(refusal([&] { parse_json(nested(depth), "f"); }), Contains("[f: $] nested more than 100 deep"));
  CHECK_THAT(refusal([&] { parse_json(R"({"a": {"b": )" + nested(200) + "}}", "f"); }),
             Contains("[f: $.a] nested more than 100 deep"));
  const test::TemporaryFolder folder;
  const auto read = [&](std::size_t depth) {
    const std::string path = folder / "results.json";
    std::ofstream(path) << R"({"schema": "mbench.results/1", "spec": )" << nested(depth) << R"(, "points": []})";
    return read_result_file(path);
  };
  CHECK(read(90).spec.is_array());
  for (const std::size_t depth : {120, 1200, 90000})
    CHECK_THAT(refusal([&] { read(depth); }), Contains("nested more than 100 deep"));
}

TEST_CASE("a file beyond the limit, and an object of too many keys, are refused at once") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "large.json";
  std::ofstream(path) << "[";
  std::filesystem::resize_file(path, kMostFileBytes + 1);  // takes no room on the disk
  CHECK_THAT(refusal([&] { read_text_file(path); }), Contains("more than 512.00 MiB, need a smaller file"));
  std::string keys = "{";
  for (std::size_t i = 0; i <= kMostKeys; ++i) keys += fmt::format("{}\"k{}\": 0", i ? "," : "", i);
  CHECK_THAT(refusal([&] { parse_json(keys + "}", "f"); }), Contains("[f: $] an object of more than 10000 keys"));
}

TEST_CASE("a U+0000 in a text is refused with its path, in whole") {
  CHECK_THAT(refusal([] { parse_json(R"({"a": {"b\u0000c": 1}})", "f"); }),
             Contains("[f: $.a] a text with a U+0000, got \"b\\u0000c\", need one without"));
  CHECK_THAT(refusal([] { parse_json(R"({"a": "x\u0000"})", "f"); }), Contains("need one without"));
  const test::TemporaryFolder folder;
  const std::string path = folder / "results.json";
  std::ofstream(path) << R"({"schema": "mbench.results/1", "spec": {"name": "x\u0000"}, "points": []})";
  CHECK_THAT(refusal([&] { read_result_file(path); }), Contains("a text with a U+0000"));
}

TEST_CASE("a text for a terminal has no control characters, and an end") {
  CHECK(printable("plain \xC3\xA9\n\tend") == "plain \xC3\xA9\n\tend");
  CHECK(printable(std::string_view("a\0b\x1b[2J\r\x7f", 9)) == "a\\x00b\\x1b[2J\\x0d\\x7f");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\x9b31m");
  const std::string cut = printable(std::string(1 << 20, 'x') + "end", 100);
  CHECK(cut.size() < 150);
  CHECK_THAT(cut, Contains("xxx ... 1048479 bytes ... xxx") && Catch::EndsWith("end"));
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xC3\xA9";
  CHECK_THAT(printable(accents, 51), !Contains("\xA9 ...") || Contains("\xC3\xA9 ..."));
}

TEST_CASE(
    "control characters of 7 and of 8 bits are found wherever they stand, and no byte of another character is one") {
  for (const std::string_view control :
       {std::string_view("\0", 1), std::string_view("\x1b"), std::string_view("\t"), std::string_view("\n"),
        std::string_view("\x7f"), std::string_view("\xC2\x80"), std::string_view("\xC2\x9F"), std::string_view("\x9b"),
        std::string_view("\x80")}) {
    INFO(static_cast<int>(static_cast<unsigned char>(control.back())));
    CHECK(control_length(control, 0) == control.size());
    CHECK(without_controls("a" + std::string(control) + "\xC3\xA9") == "a \xC3\xA9");
    CHECK(without_controls("\xE2\x82\xAC" + std::string(control) + "b") == "\xE2\x82\xAC b");
  }
  // U+00C0, U+2018, U+1F600 and U+009F's neighbour U+00A0 have bytes of 0x80 to 0x9F.
  const std::string plain = "\xC3\x80 \xE2\x80\x98 \xF0\x9F\x98\x80 \xC2\xA0";
  CHECK(without_controls(plain) == plain);
  CHECK(printable(plain) == plain);
  CHECK(printable("\x9b"
                  "31m\xC2\x9B") == "\\x9b31m\\x9b");
  // JSON escapes them, and reads the same.
  const nlohmann::ordered_json json = {{"a\xC2\x9B", "x\x1b\x7f\xC2\x85\xC3\xA9"}};
  const std::string text = dump_json(json);
  CHECK_THAT(text, Contains("a\\u009b") && Contains("x\\u001b\\u007f\\u0085\xC3\xA9"));
  CHECK(nlohmann::ordered_json::parse(text) == json);
}

TEST_CASE("a word too long to be a misspelling is not measured against every choice") {
  const std::string reported = nearest_choice(std::string(50 << 20, 'x'), {"one", "two"});
  CHECK(reported == "need one of one, two");
}
