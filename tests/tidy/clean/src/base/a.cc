#include "base/a.h"

int a() { return 1; }
