/* What the tests of the HIP driver share: a small model, and the library that stands in for AMD's runtime. */
#ifndef WEFT_TESTS_HIP_TESTING_H
#define WEFT_TESTS_HIP_TESTING_H

#include <check.h>

#include "base/context.h"
#include "runtime/driver.h"
#include "tests/hip/library/fake.h"
#include "tests/support/status.h"

extern fake_hip_fail_function hip_fail;
extern fake_hip_live_function hip_live;
extern fake_hip_calls_function hip_calls;
extern fake_hip_reset_function hip_reset;
extern fake_hip_matrix_function hip_matrix;

/* Loads the library as the processor `arch`, once a process. */
void hip_use(const char *arch);
/* The file of an artifact for `arch`: y = softmax(x w) over rows, x f32[B, 24], w f32[24, 40]; made at the first call.
 */
const char *hip_model(const char *arch);
/* Opens the device, loads the artifact, calls it `calls` times with changing inputs and compares with plain loops. */
weft_status hip_scenario(const char *arch, int calls) WEFT_MUST_USE;

Suite *suite_conformance(void);
Suite *suite_failures(void);
Suite *suite_products(void);
Suite *suite_rtc(void);
Suite *suite_gradients(void);

#endif
