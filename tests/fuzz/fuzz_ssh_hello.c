#include "tests/fuzz/fuzz.h"

RK_FUZZ(ssh_hello)
