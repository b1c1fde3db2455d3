// API keys: who may call. Keys are kept as SHA-256 and compared in constant time; the keys themselves are forgotten.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/files.h"
#include "base/status.h"

namespace bora::serve {

struct KeySources {
  std::vector<std::string> api_keys, admin_keys;  // as text
  std::string api_key_file, admin_key_file;       // a key a line; empty lines and lines with '#' first are skipped
};

// Any thread.
class Keys {
 public:
  // Errors name the file. `files` outlives this.
  static Result<std::unique_ptr<Keys>> create(KeySources sources, FileSystem* files);
  // Reads the files again; on an error the keys stay as they were.
  Status reload();

  struct Match {
    std::string id;  // the first bytes of the hash, for logs and salts; tells nothing of the key
    bool admin = false;
  };
  std::optional<Match> find(std::string_view key) const;
  bool any_api() const;  // an admin key counts: it may call everything
  bool any_admin() const;

 private:
  using Hash = std::array<unsigned char, 32>;
  struct Entry {
    Hash hash;
    bool admin;
  };
  Keys() = default;
  static bool sha256(std::string_view text, Hash* out);
  static Status add(std::string_view key, bool admin, std::vector<Entry>* entries);

  FileSystem* files_ = nullptr;
  std::vector<Entry> given_;
  std::string api_file_, admin_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<Entry>> entries_;  // guarded by mutex_
};

}  // namespace bora::serve
