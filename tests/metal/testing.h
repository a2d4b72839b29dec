/* What the files of tests/metal share. */
#ifndef WEFT_TESTS_METAL_TESTING_H
#define WEFT_TESTS_METAL_TESTING_H

#include <check.h>

#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/ops.h"

TCase *case_artifact(void);
TCase *case_products(void);

#endif
