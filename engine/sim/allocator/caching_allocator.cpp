#include "engine/sim/allocator/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/text.h"

namespace mbench::sim {
namespace {

constexpr std::size_t kMib = std::size_t{1} << 20;
constexpr std::size_t kMinBlock = 512;
constexpr std::size_t kSmall = kMib;  // the largest request of the small pool
constexpr std::size_t kSmallSegment = 2 * kMib;
constexpr std::size_t kMinLargeSegment = 10 * kMib;  // the least request that has a segment of its own
constexpr std::size_t kRoundLarge = 2 * kMib;
// Addresses of an expandable segment: more than a device has memory.
constexpr std::size_t kAddresses = std::size_t{1} << 44;

std::size_t up_to(std::size_t multiple, std::size_t bytes) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The next of `divisions` equal parts between the power of two below and the one above.
std::size_t next_division(std::size_t size, std::size_t divisions) {
  if (divisions <= 1 || std::has_single_bit(size)) return size;
  const std::size_t floor = std::bit_floor(size), part = floor / divisions;
  return part == 0 ? floor * 2 : up_to(part, size);
}

}  // namespace

CachingAllocator::CachingAllocator(const CachingSettings& settings, std::size_t limit)
    : settings_(settings), limit_(limit) {}

std::size_t CachingAllocator::rounded(std::size_t bytes) const {
  if (bytes < kMinBlock) return kMinBlock;
  const auto power = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  const auto& all = settings_.roundup_power2_divisions;
  const std::size_t divisions = all[std::min(power > 20 ? power - 20 : 0, all.size() - 1)];
  if (divisions > 1 && bytes > kMinBlock * divisions) return next_division(bytes, divisions);
  return up_to(kMinBlock, bytes);
}

std::size_t CachingAllocator::segment_size(std::size_t size) const {
  if (size <= kSmall) return kSmallSegment;
  return size < kMinLargeSegment ? settings_.large_segment : up_to(kRoundLarge, size);
}

bool CachingAllocator::splits(const Block& block, std::size_t size) const {
  const std::size_t left = block.size - size;
  if (block.small || settings_.expandable_segments) return left >= kMinBlock;
  return size < settings_.max_split && left > kSmall;
}

std::size_t CachingAllocator::take(std::size_t bytes, Category category, std::string_view what, For whom) {
  const std::size_t size = rounded(bytes);
  const Pool from{size <= kSmall, whom.graph, whom.stream};
  std::uint32_t at = find(from, size);
  if (at == kNone) at = add_segment(from, size);
  if (at == kNone && release_oversized(from, size)) at = add_segment(from, size);
  if (at == kNone) {
    release_all();
    ++retries_;
    at = add_segment(from, size);
    if (at == kNone) fail_full(size, category, what);
  }
  if (splits(blocks_[at], size)) put(cut(at, size));
  Block& block = blocks_[at];
  block.state = State::used;
  allocated_ += block.size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  use_.total += bytes;
  use_.by_category[static_cast<std::size_t>(category)] += bytes;
  if (use_.total > peak_.total) peak_ = use_;
  return at;
}

void CachingAllocator::count_freed(std::size_t block, std::size_t bytes, Category category) {
  use_.total -= bytes;
  use_.by_category[static_cast<std::size_t>(category)] -= bytes;
  allocated_ -= blocks_[block].size;
}

void CachingAllocator::give(std::size_t block, std::size_t bytes, Category category) {
  count_freed(block, bytes, category);
  blocks_[block].state = State::free;
  merge(static_cast<std::uint32_t>(block));
}

void CachingAllocator::give_recorded(std::size_t block, std::size_t bytes, Category category) {
  count_freed(block, bytes, category);
  put_recorded();
  free_.recorded.push_back({blocks_[block].size, blocks_[block].address, static_cast<std::uint32_t>(block)});
}

void CachingAllocator::put_recorded() {
  for (const FreeBlock& recorded : std::exchange(free_.recorded, {})) {
    blocks_[recorded.block].state = State::free;
    merge(recorded.block);
  }
}

// The smallest free block that holds it, out of its pool; of equal ones the lowest.
std::uint32_t CachingAllocator::find(Pool from, std::size_t size) {
  auto& all = pool(from);
  auto best = std::lower_bound(all.begin(), all.end(), FreeBlock{size, 0, kNone});
  if (best == all.end()) return kNone;
  if (settings_.expandable_segments) {
    // A block that could grow is as large as it could become: another is taken before it, though it is larger today.
    const auto could_be = [&](const FreeBlock& free) {
      const std::uint32_t after = blocks_[free.block].after;
      return free.size + (after != kNone && blocks_[after].state == State::unmapped ? blocks_[after].size : 0);
    };
    for (auto next = best + 1; next != all.end() && could_be(*next) < could_be(*best); ++next) best = next;
  }
  if (size < settings_.max_split && best->size >= settings_.max_split) return kNone;
  if (size >= settings_.max_split && best->size >= size + settings_.max_non_split_rounding) return kNone;
  const std::uint32_t at = best->block;
  all.erase(best);
  return at;
}

std::uint32_t CachingAllocator::add_segment(Pool of, std::size_t size) {
  if (settings_.expandable_segments) return grow(of, size);
  const std::size_t bytes = segment_size(size);
  if (limit_ != 0 && reserved_ + bytes > limit_) return kNone;
  const std::uint32_t at =
      new_block({.address = next_address_, .size = bytes, .small = of.small, .graph = of.graph, .stream = of.stream});
  next_address_ += bytes;
  add_reserved(bytes);
  ++calls_.requested;
  return at;
}

// Maps memory behind the lowest place that has room for it. kNone where the device has none left.
std::uint32_t CachingAllocator::grow(Pool of, std::size_t size) {
  std::uint32_t& first = growing_[of.index()];
  if (first == kNone) {
    first = new_block({.address = next_address_,
                       .size = kAddresses,
                       .state = State::unmapped,
                       .small = of.small,
                       .graph = of.graph,
                       .stream = of.stream});
    next_address_ += kAddresses;
  }
  std::uint32_t at = with_room_behind(of, size);
  check(at != kNone, "sim.allocator", "{} of an expandable segment, need fewer bytes", format_bytes(size));
  if (blocks_[at].state == State::unmapped) {
    if (!map(at, size)) return kNone;
  } else {
    remove(at);
  }
  while (blocks_[at].size < size) {
    const std::uint32_t next = blocks_[at].after;
    if (blocks_[next].state == State::unmapped) {
      if (!map(next, size - blocks_[at].size)) {
        put(at);
        return kNone;
      }
    } else {
      remove(next);
    }
    absorb(at, next);
  }
  return at;
}

// The free or unmapped block from which on so much is not in use, with something to map in it.
std::uint32_t CachingAllocator::with_room_behind(Pool of, std::size_t size) const {
  for (std::uint32_t i = growing_[of.index()]; i != kNone; i = blocks_[i].after) {
    if (blocks_[i].state != State::unmapped) continue;
    const std::uint32_t before = blocks_[i].before;
    const std::uint32_t start = before != kNone && blocks_[before].state == State::free ? before : i;
    std::size_t room = 0;
    for (std::uint32_t j = start; j != kNone && blocks_[j].state != State::used && room < size; j = blocks_[j].after)
      room += blocks_[j].size;
    if (room >= size) return start;
  }
  return kNone;
}

// Gives an unmapped block memory, in whole pages from its begin; what is left of it stays unmapped behind.
bool CachingAllocator::map(std::uint32_t at, std::size_t size) {
  const std::size_t page = blocks_[at].small ? kSmallSegment : settings_.large_segment;
  const std::size_t bytes = std::min(up_to(page, size), blocks_[at].size);
  if (limit_ != 0 && reserved_ + bytes > limit_) return false;
  if (bytes < blocks_[at].size) cut(at, bytes);  // which is unmapped, as this one was
  blocks_[at].state = State::free;
  add_reserved(bytes);
  calls_.requested += (bytes + page - 1) / page;
  return true;
}

// With max_split_size: the smallest free segment of those that are never split that is large enough, else several from the largest down.
bool CachingAllocator::release_oversized(Pool of, std::size_t size) {
  if (settings_.max_split == CachingSettings::kUnlimited || settings_.expandable_segments) return false;
  const std::size_t need = std::max(size, settings_.max_split);
  auto& all = pool(of);
  const auto enough = std::lower_bound(all.begin(), all.end(), FreeBlock{need, 0, kNone});
  if (enough != all.end()) {
    release(enough->block);
    return true;
  }
  std::size_t freed = 0;
  while (freed < need && !all.empty() && all.back().size >= settings_.max_split) {
    freed += all.back().size;
    release(all.back().block);
  }
  return freed >= need;
}

// Every segment without a used block, of all streams; of expandable segments every page without one. Not those of graphs.
void CachingAllocator::release_all() {
  put_recorded();
  for (std::size_t i = 0; i < 2 * kMemoryStreams; ++i) {
    const auto all = free_.pools[i];
    for (const FreeBlock& free : all) {
      const Block& block = blocks_[free.block];
      if (settings_.expandable_segments)
        unmap(free.block);
      else if (block.before == kNone && block.after == kNone)
        release(free.block);
    }
  }
}

void CachingAllocator::release(std::uint32_t at) {
  remove(at);
  reserved_ -= blocks_[at].size;
  free_.reserved = reserved_;
  unused_.push_back(at);
  ++calls_.returned;
}

void CachingAllocator::unmap(std::uint32_t at) {
  const std::size_t page = blocks_[at].small ? kSmallSegment : settings_.large_segment;
  const std::size_t end = blocks_[at].address + blocks_[at].size;
  const std::size_t first = up_to(page, blocks_[at].address), last = end / page * page;
  if (first >= last) return;
  remove(at);
  if (last < end) put(cut(at, last - blocks_[at].address));
  if (first > blocks_[at].address) {
    const std::uint32_t rest = cut(at, first - blocks_[at].address);
    put(at);
    at = rest;
  }
  reserved_ -= last - first;
  free_.reserved = reserved_;
  calls_.returned += (last - first) / page;
  Block& block = blocks_[at];
  block.state = State::unmapped;
  if (block.after != kNone && blocks_[block.after].state == State::unmapped) absorb(at, block.after);
  if (const std::uint32_t before = blocks_[at].before; before != kNone && blocks_[before].state == State::unmapped)
    absorb(before, at);
}

void CachingAllocator::fail_full(std::size_t size, Category category, std::string_view what) const {
  const std::size_t cached = reserved_ - allocated_;
  std::string full = fmt::format(
      "out of memory at {} ({}), need {}, got {} allocated by PyTorch and {} reserved but unallocated of the limit of "
      "{}",
      what, name_of(category), format_bytes(size), format_bytes(allocated_), format_bytes(cached),
      format_bytes(limit_));
  if (cached >= size && !settings_.expandable_segments)
    full +=
        "; with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in env segments grow, and less is left unallocated";
  throw OutOfMemory(ErrorKind::out_of_memory, "memory", full);
}

std::vector<CachingAllocator::Segment> CachingAllocator::segments() const {
  std::vector<bool> is_unused(blocks_.size());
  for (const std::uint32_t at : unused_) is_unused[at] = true;
  std::vector<Segment> all;
  for (std::uint32_t first = 0; first < blocks_.size(); ++first) {
    if (is_unused[first] || blocks_[first].before != kNone) continue;
    bool joins = false;
    for (std::uint32_t at = first; at != kNone; at = blocks_[at].after) {
      const Block& b = blocks_[at];
      const bool mapped = b.state != State::unmapped;
      if (mapped && !joins) all.push_back({b.address, 0, b.small, b.graph, b.stream, {}});
      joins = mapped;
      if (!mapped) continue;
      all.back().size += b.size;
      const auto is_it = [&](const FreeBlock& recorded) { return recorded.block == at; };
      const bool used = b.state == State::used && std::ranges::none_of(free_.recorded, is_it);
      all.back().parts.push_back({b.address, b.size, used, at});
    }
  }
  std::sort(all.begin(), all.end(), [](const Segment& a, const Segment& b) { return a.address < b.address; });
  return all;
}

std::uint32_t CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<std::uint32_t>(blocks_.size() - 1);
  }
  const std::uint32_t at = unused_.back();
  unused_.pop_back();
  blocks_[at] = block;
  return at;
}

// Ends the block after `size` bytes. The rest, in the state that it had.
std::uint32_t CachingAllocator::cut(std::uint32_t at, std::size_t size) {
  Block rest = blocks_[at];
  rest.address += size;
  rest.size -= size;
  rest.before = at;
  const std::uint32_t behind = new_block(rest);
  if (rest.after != kNone) blocks_[rest.after].before = behind;
  blocks_[at].size = size;
  blocks_[at].after = behind;
  return behind;
}

// A block that has become free joins its free neighbours, and goes to its pool.
void CachingAllocator::merge(std::uint32_t at) {
  if (const std::uint32_t after = blocks_[at].after; after != kNone && blocks_[after].state == State::free) {
    remove(after);
    absorb(at, after);
  }
  if (const std::uint32_t before = blocks_[at].before; before != kNone && blocks_[before].state == State::free) {
    remove(before);
    absorb(before, at);
    at = before;
  }
  put(at);
}

void CachingAllocator::absorb(std::uint32_t at, std::uint32_t next) {
  blocks_[at].size += blocks_[next].size;
  blocks_[at].after = blocks_[next].after;
  if (blocks_[at].after != kNone) blocks_[blocks_[at].after].before = at;
  unused_.push_back(next);
}

void CachingAllocator::put(std::uint32_t at) {
  auto& all = pool(pool_of(blocks_[at]));
  const FreeBlock free{blocks_[at].size, blocks_[at].address, at};
  all.insert(std::lower_bound(all.begin(), all.end(), free), free);
}

void CachingAllocator::remove(std::uint32_t at) {
  auto& all = pool(pool_of(blocks_[at]));
  const auto found = std::lower_bound(all.begin(), all.end(), FreeBlock{blocks_[at].size, blocks_[at].address, at});
  check(found != all.end() && found->block == at, "sim.allocator", "block {} of its pool, got none", at);
  all.erase(found);
}

void CachingAllocator::add_reserved(std::size_t bytes) {
  reserved_ += bytes;
  free_.reserved = reserved_;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

}  // namespace mbench::sim
