#include "backend/cpu/c.h"
