/* What the files of tests/vulkan share. */
#ifndef WEFT_TESTS_VULKAN_TESTING_H
#define WEFT_TESTS_VULKAN_TESTING_H

#include <stddef.h>

#include "compile/unit.h"

/* Every module of the unit's image through spirv-val; also that cooperative matrices are in one of them. Returns false
   where no validator is found that knows them; fails the test where a module is not valid. */
bool modules_check(const weft_unit *unit);

#endif
