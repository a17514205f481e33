#include "tests/fuzz/fuzz.h"

RK_FUZZ(profile)
