#include "base/a.h"

int b() { return a(); }
