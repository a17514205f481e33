#include "tests/fuzz/fuzz.h"

RK_FUZZ(known_hosts)
