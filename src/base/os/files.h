// Files behind one seam: the program reads and writes through a FileSystem that is handed in, so that tests can fail
// any call on purpose and count what was opened.
//
// Paths are UTF-8. Errors carry the path and what the system said. All members may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace bora {

// A whole file as memory. Read-only. The bytes are valid while this lives; a file truncated by somebody else
// meanwhile may raise SIGBUS, as with any mapping.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  // Advice only: pages of [offset, offset + size) will be read soon, or are not needed any more.
  virtual void will_need(uint64_t offset, uint64_t size) const = 0;
  virtual void dont_need(uint64_t offset, uint64_t size) const = 0;
};

struct FileInfo {
  uint64_t size = 0;
  bool is_directory = false;
  int64_t modified_ns = 0;  // since the epoch
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<FileInfo> info(const std::string& path) = 0;
  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  // Error kResourceExhausted when the file is larger than `max_bytes`.
  virtual Result<std::string> read(const std::string& path, uint64_t max_bytes) = 0;
  // Writes to a neighbour, syncs it, renames: readers see the old file or the whole new one.
  virtual Status write_atomic(const std::string& path, std::string_view bytes) = 0;
  // Names (not paths) in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

// The real one. Reads ordinary files only: a pipe or a device is an error, never a wait.
std::unique_ptr<FileSystem> make_os_file_system();

// Wraps another and fails the n-th call from now (n = 1: the next) with `code`; later calls pass. n = 0 never fails.
class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem* inner) : inner_(inner) {}  // `inner` outlives this
  void fail_nth(int n, Code code);
  int calls() const { return calls_; }

  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override;
  Result<std::string> read(const std::string& path, uint64_t max_bytes) override;
  Status write_atomic(const std::string& path, std::string_view bytes) override;
  Result<std::vector<std::string>> list(const std::string& path) override;

 private:
  Status step(const std::string& path);
  FileSystem* inner_;
  int calls_ = 0;
  int fail_at_ = 0;
  Code code_ = Code::kUnavailable;
};

}  // namespace bora
