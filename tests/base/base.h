/* What the base tests share: suites and an allocator that fails at the n-th request. */
#ifndef TESTS_BASE_BASE_H
#define TESTS_BASE_BASE_H

#include <check.h>
#include <stdlib.h>

#include "weft/allocator.h"

Suite *status_suite(void);
Suite *memory_suite(void);
Suite *floats_suite(void);
Suite *formats_suite(void);
Suite *system_suite(void);
Suite *exchange_suite(void);
Suite *process_suite(void);
Suite *env_suite(void);

/* Counts live bytes, so that leaks and wrong sizes at release show, and fails request number fail_at (0 = never). */
typedef struct counting_allocator {
    size_t live_bytes, requests, fail_at;
} counting_allocator;
weft_allocator counting_allocator_get(counting_allocator *self);

/* Expects a status with this code and releases it. */
void expect_code(weft_status status, weft_code code);
#define ck_ok(expr) expect_code((expr), WEFT_OK)

#endif
