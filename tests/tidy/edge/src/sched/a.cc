#include "sched/a.h"
