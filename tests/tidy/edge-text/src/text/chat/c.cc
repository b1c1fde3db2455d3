#include "text/template/t.h"
