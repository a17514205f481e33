#include "tests/fuzz/fuzz.h"

RK_FUZZ_COLLECTOR("ib-driver")
