#include <cstdlib>
const char* p = std::getenv("X");
