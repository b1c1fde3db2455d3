#include "serve/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace bora::serve {

bool Keys::sha256(std::string_view text, Hash* out) {
  unsigned int size = 0;
  return EVP_Digest(text.data(), text.size(), out->data(), &size, EVP_sha256(), nullptr) == 1 && size == out->size();
}

Status Keys::add(std::string_view key, bool admin, std::vector<Entry>* entries) {
  if (key.size() < 8 || key.size() > 512) return invalid_argument("a key must have 8 to 512 characters");
  for (const char c : key) {
    if (c <= ' ' || c > '~') return invalid_argument("a key may hold printable ASCII characters only, and no blanks");
  }
  Entry entry{{}, admin};
  if (!sha256(key, &entry.hash)) return internal_error("SHA-256 is not available");
  entries->push_back(entry);
  return {};
}

Result<std::unique_ptr<Keys>> Keys::create(KeySources sources, FileSystem* files) {
  std::unique_ptr<Keys> keys(new Keys());
  keys->files_ = files;
  for (const std::string& key : sources.api_keys) BORA_TRY_CONTEXT(add(key, false, &keys->given_), "--api-key");
  for (const std::string& key : sources.admin_keys) BORA_TRY_CONTEXT(add(key, true, &keys->given_), "--admin-key");
  keys->api_file_ = sources.api_key_file;
  keys->admin_file_ = sources.admin_key_file;
  BORA_TRY(keys->reload());
  return keys;
}

Status Keys::reload() {
  auto entries = std::make_shared<std::vector<Entry>>(given_);
  for (const bool admin : {false, true}) {
    const std::string& path = admin ? admin_file_ : api_file_;
    if (path.empty()) continue;
    BORA_ASSIGN(const std::string text, files_->read(path, 1 << 20));
    const size_t before = entries->size();
    size_t at = 0, number = 0;
    while (at < text.size()) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line = std::string_view(text).substr(at, end - at);
      at = end + 1;
      ++number;
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
      if (line.empty() || line[0] == '#') continue;
      BORA_TRY_CONTEXT(add(line, admin, entries.get()), path + ":" + std::to_string(number));
    }
    if (entries->size() == before) return invalid_argument(path + ": holds no key; write one a line");
  }
  std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
  return {};
}

std::optional<Keys::Match> Keys::find(std::string_view key) const {
  Hash hash;
  if (!sha256(key, &hash)) return std::nullopt;
  std::shared_ptr<const std::vector<Entry>> entries;
  {
    std::lock_guard lock(mutex_);
    entries = entries_;
  }
  // Every entry is compared, whatever was found.
  const Entry* found = nullptr;
  for (const Entry& entry : *entries) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0 && (found == nullptr || entry.admin))
      found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  constexpr char kDigits[] = "0123456789abcdef";
  Match match;
  for (size_t i = 0; i < 4; ++i) {
    match.id.push_back(kDigits[hash[i] >> 4]);
    match.id.push_back(kDigits[hash[i] & 15]);
  }
  match.admin = found->admin;
  return match;
}

bool Keys::any_api() const {
  std::lock_guard lock(mutex_);
  return !entries_->empty();
}

bool Keys::any_admin() const {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : *entries_) {
    if (entry.admin) return true;
  }
  return false;
}

}  // namespace bora::serve
