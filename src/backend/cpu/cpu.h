// The CPU backend's record.
#pragma once

#include "device/device.h"

namespace bora::cpu {

extern const device::Backend kBackend;

}  // namespace bora::cpu
