/* The suites of this program. */
#ifndef TESTS_API_API_H
#define TESTS_API_API_H

#include <check.h>

Suite *descriptors_suite(void);

#endif
