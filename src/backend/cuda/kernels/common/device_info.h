// What launchers need to know of a device. Read once and passed along; nothing here is cached in globals.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace bora::cuda {

struct DeviceInfo {
  int32_t ordinal = 0;
  int32_t major = 0, minor = 0;  // compute capability
  int32_t sms = 0;               // multiprocessors
  int64_t l2_bytes = 0;
  int64_t shared_bytes_block = 0;  // the opt-in limit of one block
  int64_t memory_bytes = 0;

  int32_t clusters[4] = {};  // clusters of 1, 2, 4, 8 blocks that run at once, one block a multiprocessor

  bool portable() const { return major >= 8; }
  bool sm90() const { return major == 9 && minor == 0; }
};

// kUnavailable when there is no driver or no such device; the message names the runtime's error.
Result<DeviceInfo> query_device(int32_t ordinal);

}  // namespace bora::cuda
