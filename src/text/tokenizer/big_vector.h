// BigVector: a std::vector whose large blocks come from the system and go back to it when freed, so that loading leaves
// no holes in the heap. HugeVector: the same on huge pages, for tables that are hit at random and filled all over.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <vector>

namespace bora::text {

template <typename T, bool kHuge>
struct BigAllocator {
  using value_type = T;
  static constexpr size_t kLarge = size_t{1} << 20;
  static constexpr size_t kHugePage = size_t{2} << 20;

  template <typename U>
  struct rebind {
    using other = BigAllocator<U, kHuge>;
  };

  BigAllocator() = default;
  template <typename U>
  BigAllocator(const BigAllocator<U, kHuge>&) {}

  T* allocate(size_t n) {
    if (n > (size_t{1} << 40) / sizeof(T)) throw std::bad_alloc();
    size_t bytes = n * sizeof(T);
    if (bytes < kLarge) return static_cast<T*>(::operator new(bytes));
    bytes = mapped(bytes);
    void* block = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
    char* from = static_cast<char*>(block);
    char* aligned = from + (kHugePage - reinterpret_cast<uintptr_t>(from) % kHugePage) % kHugePage;
    if (aligned > from) ::munmap(from, static_cast<size_t>(aligned - from));
    ::munmap(aligned + bytes, kHugePage - static_cast<size_t>(aligned - from));
    if (kHuge) (void)::madvise(aligned, bytes, MADV_HUGEPAGE);
    return reinterpret_cast<T*>(aligned);
  }
  void deallocate(T* block, size_t n) {
    size_t bytes = n * sizeof(T);
    if (bytes < kLarge) {
      ::operator delete(block);
    } else {
      ::munmap(block, mapped(bytes));
    }
  }
  bool operator==(const BigAllocator&) const { return true; }

 private:
  static size_t mapped(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
};

template <typename T>
using BigVector = std::vector<T, BigAllocator<T, false>>;
template <typename T>
using HugeVector = std::vector<T, BigAllocator<T, true>>;

}  // namespace bora::text
