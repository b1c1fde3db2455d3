#pragma once
#include "kv/k.h"
