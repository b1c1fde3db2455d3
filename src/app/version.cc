#include "app/version.h"

#include "generated/build_stamp.h"

namespace bora::app {

std::string_view version() { return BORA_VERSION; }
std::string_view commit() { return BORA_COMMIT; }

}  // namespace bora::app
