#include "engine/sim/allocator/caching_settings.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

#include "engine/base/error.h"

namespace mbench::sim {
namespace {

// A reader of the list: words, and the marks between them.
class Reader {
 public:
  Reader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  bool ended() const { return at_ == text_.size(); }
  bool next_is(char mark) const { return !ended() && text_[at_] == mark; }
  void expect(char mark) {
    if (!next_is(mark)) refuse(mark == ':' ? "a ':' and a value" : std::string("a '") + mark + "'");
    ++at_;
  }
  bool skip(char mark) {
    if (!next_is(mark)) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    const std::size_t end = std::min(text_.find_first_of(":,[]", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) refuse("a word");
    at_ = end;
    return word;
  }
  std::size_t number(std::size_t least, std::size_t most) {
    const std::size_t begin = at_;
    const std::string_view text = word();
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
      at_ = begin;
      refuse(fmt::format("a whole number between {} and {}", least, most));
    }
    return value;
  }
  bool boolean() {
    const std::size_t begin = at_;
    const std::string_view text = word();
    if (text != "True" && text != "False") at_ = begin, refuse("True or False");
    return text == "True";
  }
  // The value of a key that has no meaning here: a word, or a list in brackets.
  void skip_value() {
    if (!skip('[')) {
      word();
      return;
    }
    at_ = text_.find(']', at_);
    if (at_ == std::string_view::npos) at_ = text_.size();
    expect(']');
  }
  [[noreturn]] void refuse(const std::string& need) const {
    fail(ErrorKind::bad_input, where_, "got {} at byte {}, need {}",
         ended() ? "its end" : "'" + std::string(text_.substr(at_)) + "'", at_ + 1, need);
  }
  [[noreturn]] void refuse_key(std::string_view key) const {
    fail(ErrorKind::bad_input, where_,
         "unknown key, got {}, need one of PyTorch's: backend, expandable_segments, max_split_size_mb, "
         "max_non_split_rounding_mb, "
         "large_segment_size_mb, roundup_power2_divisions",
         key);
  }

 private:
  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

constexpr std::size_t kMaxMib = std::size_t{1} << 30;

// Either one number for every power of two, or [MIB:NUMBER,...,>:NUMBER]: the first also holds for those below, ">" for those above.
void read_divisions(Reader& reader, CachingSettings& settings) {
  auto& divisions = settings.roundup_power2_divisions;
  const auto read = [&] {
    const std::size_t n = reader.number(0, 1024);
    if (n > 0 && !std::has_single_bit(n)) reader.refuse("a power of two");
    return n;
  };
  if (!reader.skip('[')) {
    divisions.fill(read());
    return;
  }
  std::size_t last = 0;
  bool first = true;
  do {
    if (reader.skip('>')) {
      reader.expect(':');
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(first ? 0 : last + 1), divisions.end(), read());
      break;
    }
    const std::size_t mib = reader.number(1, kMaxMib);
    last = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(mib)) - 1, divisions.size() - 1);
    reader.expect(':');
    const std::size_t n = read();
    if (first) std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(last), n);
    divisions[last] = n;
    first = false;
  } while (reader.skip(','));
  reader.expect(']');
}

// Keys of host memory, of locks and of captured graphs, and one that acts after set_per_process_memory_fraction() alone, which no framework
// here calls.
constexpr std::string_view kWithoutMeaning[] = {
    "release_lock_on_cudamalloc",     "release_lock_on_hipmalloc",         "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",   "pinned_num_register_threads",       "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse", "garbage_collection_threshold"};

void read_key(std::string_view key, Reader& reader, CachingSettings& settings, const std::string& where) {
  const auto mib = [&](std::size_t least) { return reader.number(least, kMaxMib) << 20; };
  if (key == "expandable_segments") {
    settings.expandable_segments = reader.boolean();
  } else if (key == "max_split_size_mb") {
    settings.max_split = mib(21);
  } else if (key == "max_non_split_rounding_mb") {
    settings.max_non_split_rounding = mib(21);
  } else if (key == "large_segment_size_mb") {
    settings.large_segment = mib(20);
    if (settings.large_segment % (std::size_t{2} << 20) != 0) reader.refuse("a multiple of 2 before it");
  } else if (key == "roundup_power2_divisions") {
    read_divisions(reader, settings);
  } else if (key == "backend") {
    const std::string_view backend = reader.word();
    if (backend != "native")
      fail(ErrorKind::unsupported, where, "backend:{} is not simulated, need backend:native, or leave the key out",
           backend);
  } else if (std::find(std::begin(kWithoutMeaning), std::end(kWithoutMeaning), key) != std::end(kWithoutMeaning)) {
    reader.skip_value();
  } else {
    reader.refuse_key(key);
  }
}

}  // namespace

CachingSettings changed_by(CachingSettings settings, const std::string& list, const std::string& where) {
  std::string text = list;
  std::erase_if(text, [](char c) { return c == ' '; });
  Reader reader(text, where);
  while (!reader.ended()) {
    const std::string_view key = reader.word();
    reader.expect(':');
    read_key(key, reader, settings, where);
    if (!reader.ended()) reader.expect(',');
  }
  return settings;
}

CachingSettings changed_by(CachingSettings settings, const std::map<std::string, std::string>& env) {
  // The first is the newest name, and the one that counts where several are set.
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
    if (const auto found = env.find(name); found != env.end())
      return changed_by(settings, found->second, fmt::format("env.{}", name));
  return settings;
}

}  // namespace mbench::sim
