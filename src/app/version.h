// What was built: the version and the commit, for those who show it.
#pragma once

#include <string_view>

namespace bora::app {

std::string_view version();
std::string_view commit();

}  // namespace bora::app
