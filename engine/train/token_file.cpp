#include "engine/train/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/error.h"

namespace mbench::train {
namespace {

// llm.c's header: 256 little-endian int32 - magic, version, tokens, zeros.
constexpr std::size_t kHeaderBytes = 1024;
struct HeaderKind {
  std::uint32_t magic, version;
  TokenFormat format;
};
constexpr HeaderKind kHeaders[] = {{20240520u, 1, TokenFormat::u16}, {20240801u, 7, TokenFormat::u32}};

std::uint32_t word32(const unsigned char* p) {
  return std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

std::size_t bytes_per_token(TokenFormat format) {
  switch (format) {
    case TokenFormat::bytes:
      return 1;
    case TokenFormat::u16:
      return 2;
    case TokenFormat::u32:
      return 4;
  }
  return 1;
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  if (path.empty()) fail(ErrorKind::bad_input, "data", "no file named, got \"\", need text:FILE or tokens:FILE");
  // Asked before opening: opening a pipe would wait for its writer.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    fail(ErrorKind::bad_input, path, "cannot read the data file, got \"{}\", need a readable file",
         std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    fail(ErrorKind::bad_input, path, "cannot read the data file, got {}, need a regular file",
         S_ISDIR(info.st_mode) ? "a directory" : "a pipe or device");
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (descriptor.fd < 0 || ::fstat(descriptor.fd, &info) != 0)
    fail(ErrorKind::bad_input, path, "cannot read the data file, got \"{}\", need a readable file",
         std::strerror(errno));
  if (info.st_size == 0)
    fail(ErrorKind::bad_input, path, "the data file is empty, got 0 bytes, need at least one sample");
  size_ = static_cast<std::size_t>(info.st_size);
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor.fd, 0);
  if (mapped == MAP_FAILED)
    fail(ErrorKind::bad_input, path, "cannot map the data file, got \"{}\", need a file that can be mapped",
         std::strerror(errno));
  data_ = static_cast<const unsigned char*>(mapped);
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<unsigned char*>(data_), size_);
}

TokenFile TokenFile::open_text(const std::string& path) {
  TokenFile file(path);
  file.first_ = file.file_->data();
  file.size_ = static_cast<std::int64_t>(file.file_->size());
  return file;
}

TokenFile TokenFile::open_tokens(const std::string& path) {
  TokenFile file(path);
  const unsigned char* const data = file.file_->data();
  const std::size_t bytes = file.file_->size();
  for (const HeaderKind& kind : kHeaders) {
    if (bytes < 4 || word32(data) != kind.magic) continue;
    if (bytes < kHeaderBytes)
      fail(ErrorKind::bad_input, path, "cut short inside its header, got {} bytes, need {} and the tokens", bytes,
           kHeaderBytes);
    const std::uint32_t version = word32(data + 4);
    if (version != kind.version)
      fail(ErrorKind::bad_input, path, "version of a token file with magic {}, got {}, need {}", kind.magic, version,
           kind.version);
    const std::size_t promised = word32(data + 8), width = bytes_per_token(kind.format);
    const std::size_t need = kHeaderBytes + promised * width;
    if (bytes != need)
      fail(ErrorKind::bad_input, path, "{}, got {} bytes, need {} for the {} tokens of its header",
           bytes < need ? "cut short" : "more bytes than its header says", bytes, need, promised);
    if (promised == 0) fail(ErrorKind::bad_input, path, "the data file is empty, got 0 tokens, need one sample");
    file.first_ = data + kHeaderBytes;
    file.format_ = kind.format;
    file.has_header_ = true;
    file.size_ = static_cast<std::int64_t>(promised);
    return file;
  }
  file.first_ = data;
  file.format_ = path.ends_with(".u32") || path.ends_with(".uint32") ? TokenFormat::u32 : TokenFormat::u16;
  const std::size_t width = bytes_per_token(file.format_);
  if (bytes % width != 0)
    fail(ErrorKind::bad_input, path, "odd size, got {} bytes, need a multiple of {} for raw uint{} tokens", bytes,
         width, 8 * width);
  file.size_ = static_cast<std::int64_t>(bytes / width);
  return file;
}

std::int64_t TokenFile::operator[](std::int64_t i) const {
  switch (format_) {
    case TokenFormat::bytes:
      return first_[i];
    case TokenFormat::u16:
      return first_[2 * i] | first_[2 * i + 1] << 8;
    case TokenFormat::u32:
      return word32(first_ + 4 * i);
  }
  return -1;
}

}  // namespace mbench::train
