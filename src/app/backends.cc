#include "app/backends.h"

#include "backend/cpu/cpu.h"
#include "backend/null/null.h"

namespace bora::app {
namespace {

const device::Backend* const kBackends[] = {&cpu::kBackend, &null::kBackend};

}  // namespace

std::span<const device::Backend* const> backends() { return kBackends; }

Result<std::unique_ptr<device::Device>> open_device(const std::string& name, const device::DeviceOptions& options) {
  std::string known, why;
  for (const device::Backend* b : kBackends) {
    known += (known.empty() ? "" : ", ") + std::string(b->name);
    if (name == "auto" ? !b->computes : name != b->name) continue;
    std::string missing;
    BORA_ASSIGN(std::vector<std::unique_ptr<device::Device>> devices, b->open(options, &missing));
    if (!devices.empty()) return std::move(devices[0]);
    why += (why.empty() ? "" : "; ") + std::string(b->name) + ": " + missing;
  }
  if (why.empty()) return invalid_argument("no device '" + name + "'; known: auto, " + known);
  return failed_precondition("no device is usable: " + why);
}

}  // namespace bora::app
