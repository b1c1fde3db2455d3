// The wire format of protocol buffers: just enough to walk over fields. Never reads beyond the message.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace bora::text {

struct ProtoField {
  uint32_t number = 0;
  uint32_t wire = 0;       // 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  uint64_t value = 0;      // of wire 0, 1, 5
  std::string_view bytes;  // of wire 2
  float as_float() const {
    auto low = static_cast<uint32_t>(value);
    float f;
    std::memcpy(&f, &low, 4);
    return f;
  }
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : in_(message) {}
  // The next field; false at the end or when the message is broken (then !ok()).
  bool next(ProtoField* f) {
    if (in_.empty() || !ok_) return false;
    uint64_t key = varint();
    f->number = static_cast<uint32_t>(key >> 3);
    f->wire = static_cast<uint32_t>(key & 7);
    if (f->wire == 0) {
      f->value = varint();
    } else if (f->wire == 1) {
      f->value = fixed(8);
    } else if (f->wire == 5) {
      f->value = fixed(4);
    } else if (f->wire == 2) {
      uint64_t n = varint();
      ok_ = ok_ && n <= in_.size();
      if (!ok_) return false;
      f->bytes = in_.substr(0, n);
      in_.remove_prefix(n);
    } else {
      ok_ = false;
    }
    ok_ = ok_ && f->number > 0;
    return ok_;
  }
  bool ok() const { return ok_; }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (in_.empty()) break;
      auto b = static_cast<uint8_t>(in_[0]);
      in_.remove_prefix(1);
      value |= static_cast<uint64_t>(b & 0x7F) << shift;
      if (b < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  uint64_t fixed(size_t n) {
    uint64_t value = 0;
    if (in_.size() < n) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, in_.data(), n);
    in_.remove_prefix(n);
    return value;
  }
  std::string_view in_;
  bool ok_ = true;
};

}  // namespace bora::text
