#include "base/os/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace bora {
namespace {

Code code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case EEXIST:
      return Code::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kResourceExhausted;
    case EISDIR:
    case EINVAL:
      return Code::kInvalidArgument;
    default:
      return Code::kUnavailable;
  }
}

Status system_error(const std::string& path, const char* what, int error) {
  char buffer[128];
  const char* text = strerror_r(error, buffer, sizeof buffer);
  return {code_of(error), path + ": " + what + ": " + text};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Opens for reading without ever waiting (a pipe without a writer would), and looks at what was opened, not at the
// name again.
Result<Descriptor> open_regular(const std::string& path, uint64_t* size) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok()) return system_error(path, "cannot open", errno);
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return system_error(path, "cannot look at it", errno);
  if (S_ISDIR(st.st_mode)) return invalid_argument(path + ": is a directory, a file is needed");
  if (!S_ISREG(st.st_mode)) return invalid_argument(path + ": is no ordinary file");
  *size = static_cast<uint64_t>(st.st_size);
  return fd;
}

class OsMapping : public MappedFile {
 public:
  OsMapping(void* data, size_t size) : data_(data), size_(size) {}
  ~OsMapping() override {
    if (size_ > 0) ::munmap(data_, size_);
  }
  std::span<const std::byte> bytes() const override { return {static_cast<const std::byte*>(data_), size_}; }
  void will_need(uint64_t offset, uint64_t size) const override { advise(offset, size, MADV_WILLNEED); }
  void dont_need(uint64_t offset, uint64_t size) const override { advise(offset, size, MADV_DONTNEED); }

 private:
  void advise(uint64_t offset, uint64_t size, int advice) const {
    if (offset >= size_ || size == 0) return;
    const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t end = std::min<uint64_t>(size_, offset + std::min<uint64_t>(size, size_ - offset));
    // DONTNEED shrinks to whole pages inside the range: its neighbours may still be wanted.
    const uint64_t from = advice == MADV_DONTNEED ? (offset + page - 1) / page * page : offset / page * page;
    const uint64_t to = advice == MADV_DONTNEED && end != size_ ? end / page * page : end;
    if (from < to) (void)::madvise(static_cast<char*>(data_) + from, to - from, advice);
  }

  void* data_;
  size_t size_;
};

class OsFileSystem : public FileSystem {
 public:
  Result<FileInfo> info(const std::string& path) override {
    struct stat st;
    if (::stat(path.c_str(), &st) != 0) return system_error(path, "cannot look at it", errno);
    FileInfo out;
    out.size = static_cast<uint64_t>(st.st_size);
    out.is_directory = S_ISDIR(st.st_mode);
    out.modified_ns = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
    return out;
  }

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    uint64_t size = 0;
    BORA_ASSIGN(const Descriptor fd, open_regular(path, &size));
    if (size == 0) return std::unique_ptr<MappedFile>(std::make_unique<OsMapping>(nullptr, 0));
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return system_error(path, "cannot map", errno);
    return std::unique_ptr<MappedFile>(std::make_unique<OsMapping>(data, size));
  }

  Result<std::string> read(const std::string& path, uint64_t max_bytes) override {
    uint64_t size = 0;
    BORA_ASSIGN(const Descriptor fd, open_regular(path, &size));
    if (size > max_bytes) {
      return resource_exhausted(path + ": has " + std::to_string(size) + " bytes, at most " +
                                std::to_string(max_bytes) + " are read");
    }
    std::string out;
    char buffer[65536];
    while (true) {
      const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(path, "cannot read", errno);
      if (n == 0) return out;
      out.append(buffer, static_cast<size_t>(n));
      if (out.size() > max_bytes)
        return resource_exhausted(path + ": grew beyond " + std::to_string(max_bytes) + " bytes");
    }
  }

  Status write_atomic(const std::string& path, std::string_view bytes) override {
    // Threads of one process may write the same path: the counter keeps their neighbours apart.
    const std::string neighbour = path + ".new." + std::to_string(::getpid()) + "." +
                                  std::to_string(writes_.fetch_add(1, std::memory_order_relaxed));
    {
      Descriptor fd(::open(neighbour.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (!fd.ok()) return system_error(neighbour, "cannot create", errno);
      Status written = write_all(neighbour, fd.get(), bytes);
      if (written.ok() && ::fsync(fd.get()) != 0) written = system_error(neighbour, "cannot sync", errno);
      if (!written.ok()) {
        ::unlink(neighbour.c_str());
        return written;
      }
    }
    if (::rename(neighbour.c_str(), path.c_str()) != 0) {
      const int error = errno;
      ::unlink(neighbour.c_str());
      return system_error(path, "cannot replace", error);
    }
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) return system_error(path, "cannot list", errno);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::atomic<uint64_t> writes_{0};

  static Status write_all(const std::string& path, int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(path, "cannot write", errno);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<FileSystem> make_os_file_system() { return std::make_unique<OsFileSystem>(); }

void FaultyFileSystem::fail_nth(int n, Code code) {
  fail_at_ = n > 0 ? calls_ + n : 0;
  code_ = code;
}

Status FaultyFileSystem::step(const std::string& path) {
  ++calls_;
  return calls_ == fail_at_ ? Status(code_, path + ": failed on purpose") : Status();
}

Result<FileInfo> FaultyFileSystem::info(const std::string& path) {
  BORA_TRY(step(path));
  return inner_->info(path);
}

Result<std::unique_ptr<MappedFile>> FaultyFileSystem::map(const std::string& path) {
  BORA_TRY(step(path));
  return inner_->map(path);
}

Result<std::string> FaultyFileSystem::read(const std::string& path, uint64_t max_bytes) {
  BORA_TRY(step(path));
  return inner_->read(path, max_bytes);
}

Status FaultyFileSystem::write_atomic(const std::string& path, std::string_view bytes) {
  BORA_TRY(step(path));
  return inner_->write_atomic(path, bytes);
}

Result<std::vector<std::string>> FaultyFileSystem::list(const std::string& path) {
  BORA_TRY(step(path));
  return inner_->list(path);
}

}  // namespace bora
