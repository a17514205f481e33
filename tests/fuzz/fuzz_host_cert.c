#include "tests/fuzz/fuzz.h"

RK_FUZZ(host_cert)
