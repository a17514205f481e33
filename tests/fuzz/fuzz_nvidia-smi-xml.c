#include "tests/fuzz/fuzz.h"

RK_FUZZ_COLLECTOR("nvidia-smi-xml")
