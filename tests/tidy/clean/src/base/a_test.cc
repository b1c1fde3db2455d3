#include "base/a.h"
#include "base/places_for_test.h"
// A test may name a family: llama.
