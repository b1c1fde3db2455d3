#include "backend/null/t.h"
