#include "machine/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "machine/block.h"

namespace emulator {

unsigned char* dynamic_shared = nullptr;

namespace {

constexpr unsigned char kPoison = 0xFF;  // a NaN in every type
constexpr unsigned char kCanary = 0xA5;
constexpr std::size_t kAlignment = 1024;

// Shared memory, between pages that nobody may touch. What a kernel has of its own lies apart.
struct SharedMemory {
  std::size_t dynamic_bytes = 0;
  alignas(kAlignment) unsigned char own[kMostUnaskedSharedBytes];
  std::size_t own_bytes = 0;
  std::unordered_map<const void*, unsigned char*> objects;
};

SharedMemory memory;
std::vector<Region> regions;
std::size_t last_region = 0;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

unsigned char* end_of_dynamic() {
  static auto* const end = [] {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = rounded_up(kMostSharedBytes + kAlignment, page);
    void* mapped = mmap(nullptr, usable + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error("no memory for shared memory");
    unsigned char* begin = static_cast<unsigned char*>(mapped) + page;
    mprotect(begin, usable, PROT_READ | PROT_WRITE);
    return begin + usable;
  }();
  return end;
}

void check(const void* pointer, std::size_t bytes, std::size_t alignment, bool write) {
  const auto* begin = static_cast<const unsigned char*>(pointer);
  const char* word = write ? "write" : "read";
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
    fail("a %s of %zu bytes that is not aligned to %zu, %s", word, bytes, alignment, place_of(pointer).c_str());
  }
  const auto holds = [&](const Region& region) {
    return begin >= region.begin && begin + bytes <= region.end && (!write || region.writable);
  };
  if (last_region < regions.size() && holds(regions[last_region])) return;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (!holds(regions[i])) continue;
    last_region = i;
    return;
  }
  fail("a %s of %zu bytes outside of what may be %s, %s", word, bytes, write ? "written" : "read",
       place_of(pointer).c_str());
}

}  // namespace

void clear_regions() { regions.clear(); }
void add_region(const Region& region) { regions.push_back(region); }

std::string place_of(const void* pointer) {
  const auto address = reinterpret_cast<intptr_t>(pointer);
  std::string nearest = "nowhere near a tensor";
  intptr_t least = intptr_t{1} << 30;
  const auto consider = [&](intptr_t distance, const std::string& where) {
    if (distance >= least) return;
    least = distance;
    nearest = std::to_string(distance) + " bytes " + where;
  };
  for (const Region& region : regions) {
    const auto begin = reinterpret_cast<intptr_t>(region.begin);
    const auto end = reinterpret_cast<intptr_t>(region.end);
    if (address >= begin && address < end) return std::to_string(address - begin) + " bytes into " + region.name;
    consider(std::llabs(begin - address), "before " + region.name);
    consider(std::llabs(address - end), "past the end of " + region.name);
  }
  return nearest;
}

void check_read(const void* pointer, std::size_t bytes, std::size_t alignment) {
  check(pointer, bytes, alignment, false);
}
void check_write(const void* pointer, std::size_t bytes, std::size_t alignment) {
  check(pointer, bytes, alignment, true);
}

void begin_shared(int64_t dynamic_bytes) {
  memory.dynamic_bytes = static_cast<std::size_t>(dynamic_bytes);
  dynamic_shared = end_of_dynamic() - rounded_up(memory.dynamic_bytes, kAlignment);
  memory.own_bytes = 0;
  memory.objects.clear();
}

void poison_shared() {
  std::memset(dynamic_shared, kPoison, memory.dynamic_bytes);
  std::memset(dynamic_shared + memory.dynamic_bytes, kCanary,
              static_cast<std::size_t>(end_of_dynamic() - dynamic_shared) - memory.dynamic_bytes);
  std::memset(memory.own, kPoison, memory.own_bytes);
}

void check_shared() {
  for (const unsigned char* at = dynamic_shared + memory.dynamic_bytes; at < end_of_dynamic(); ++at) {
    if (*at != kCanary) {
      fail("shared memory is written %td bytes past its end", at - dynamic_shared - memory.dynamic_bytes);
    }
  }
}

unsigned char* static_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  const auto found = memory.objects.find(key);
  if (found != memory.objects.end()) return found->second;
  const std::size_t begin = rounded_up(memory.own_bytes, alignment);
  if (begin + bytes > sizeof(memory.own)) fail("a kernel has %zu bytes of shared memory of its own", begin + bytes);
  unsigned char* object = memory.own + begin;
  memory.own_bytes = begin + bytes;
  std::memset(object, kPoison, bytes);
  memory.objects.emplace(key, object);
  return object;
}

uint32_t shared_address(const void* pointer) {
  const auto* at = static_cast<const unsigned char*>(pointer);
  if (at < dynamic_shared || at > dynamic_shared + memory.dynamic_bytes) fail("an address outside of shared memory");
  return static_cast<uint32_t>(at - dynamic_shared);
}

unsigned char* shared(uint32_t address, int bytes, int alignment, const char* operation) {
  if (address % static_cast<uint32_t>(alignment) != 0) {
    fail("%s at %u of shared memory, which is not aligned to %d", operation, address, alignment);
  }
  if (std::size_t{address} + static_cast<std::size_t>(bytes) > memory.dynamic_bytes) {
    fail("%s at %u of shared memory, which has %zu bytes", operation, address, memory.dynamic_bytes);
  }
  return dynamic_shared + address;
}

}  // namespace emulator
