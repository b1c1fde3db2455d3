#pragma once
#include <cstdlib>
inline const char* root() { return std::getenv("BORA_FIXTURES"); }
