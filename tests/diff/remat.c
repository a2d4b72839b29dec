/* Rematerialisation: equal bits, fewer planned bytes. */
#include "tests/diff/testing.h"

TCase *case_remat(void) { return tcase_create("remat"); }
