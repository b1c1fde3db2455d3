#pragma once
#include "serve/s.h"
