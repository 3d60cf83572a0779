#include "explain/trace_events.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench::explain {
namespace {

// nlohmann's events of a text: an object within the array of events is one of the trace, its "args" an object within that.
class Reader {
 public:
  explicit Reader(const std::function<void(const TraceEvent&)>& found, const std::string& file)
      : found_(found), file_(file) {}

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t value) {
    return number(static_cast<double>(value), [&] { return std::to_string(value); });
  }
  bool number_unsigned(std::uint64_t value) {
    return number(static_cast<double>(value), [&] { return std::to_string(value); });
  }
  bool number_float(double value, const std::string& text) {
    return number(value, [&] { return text; });
  }
  bool string(std::string& value) {
    if (std::string* member = text_member()) *member = value.substr(0, kMostText);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool start_object(std::size_t) { return open(true); }
  bool end_object() {
    if (in_events() && depth() == events_ + 1 && objects_.back()) found_(event_);
    return close();
  }
  bool start_array(std::size_t) {
    const bool begins = events_ == 0 && ((depth() == 0) || (depth() == 1 && key_ == "traceEvents"));
    open(false);
    if (begins) events_ = depth();
    return true;
  }
  bool end_array() {
    if (depth() == events_) events_ = 0;
    return close();
  }
  bool key(std::string& name) {
    key_ = name.substr(0, kMostText);
    if (in_events() && depth() == events_ + 1) member_ = key_;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& e) {
    fail(ErrorKind::bad_input, file_, "not JSON at byte {}: {}, need a trace in the Chrome format", at, e.what());
  }

 private:
  static constexpr std::size_t kMostText = 4096;

  std::size_t depth() const { return objects_.size(); }
  bool in_events() const { return events_ > 0; }
  bool open(bool object) {
    if (depth() >= kMostDepth)
      fail(ErrorKind::bad_input, file_, "more than {} arrays and objects inside each other", kMostDepth);
    if (in_events() && depth() == events_) event_ = TraceEvent();
    objects_.push_back(object);
    return true;
  }
  bool close() {
    objects_.pop_back();
    return true;
  }
  bool of_event() const { return in_events() && depth() == events_ + 1; }
  bool of_args() const { return in_events() && depth() == events_ + 2 && member_ == "args"; }

  std::string* text_member() {
    if (of_event())
      return key_ == "cat"    ? &event_.category
             : key_ == "name" ? &event_.name
             : key_ == "ph"   ? &event_.phase
             : key_ == "pid"  ? &event_.process
             : key_ == "tid"  ? &event_.thread
                              : nullptr;
    if (of_args())
      return key_ == "Process Group Description" ? &event_.group
             : key_ == "Collective name"         ? &event_.collective
                                                 : nullptr;
    return nullptr;
  }
  template <class Text>
  bool number(double value, const Text& text) {
    if (of_event() && key_ == "ts")
      event_.begin_us = value;
    else if (of_event() && key_ == "dur")
      event_.duration_us = value;
    else if (std::string* member = of_event() ? text_member() : nullptr)
      *member = text();
    return true;
  }

  const std::function<void(const TraceEvent&)>& found_;
  const std::string& file_;
  std::vector<bool> objects_;  // of what is open, whether each is an object
  std::size_t events_ = 0;     // the depth within the array of events; 0: outside
  std::string key_, member_;
  TraceEvent event_;
};

}  // namespace

void each_event(std::istream& in, const std::string& file, const std::function<void(const TraceEvent&)>& found) {
  constexpr int kGzip = 0x1f;  // the first byte of such a file
  if (in.peek() == kGzip)
    fail(ErrorKind::bad_input, file,
         "is compressed by gzip, need the JSON in it: zcat {} | mbench explain ... --trace -", file);
  Reader reader(found, file);
  nlohmann::json::sax_parse(in, &reader);
}

}  // namespace mbench::explain
