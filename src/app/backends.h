// The list of backends: the one place that knows them all.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace bora::app {

std::span<const device::Backend* const> backends();
// The first device of a backend of that name ("auto": of the first backend that has one).
Result<std::unique_ptr<device::Device>> open_device(const std::string& name, const device::DeviceOptions& options);

}  // namespace bora::app
