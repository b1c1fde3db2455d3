// The smallest backend: it computes nothing. Its tokens are a function of the position, so that everything around a
// model can be run and measured without one's arithmetic.
#pragma once

#include "device/device.h"

namespace bora::null {

extern const device::Backend kBackend;

}  // namespace bora::null
