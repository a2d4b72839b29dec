/* What the tests of optimizers and losses share: the data of tests/golden and comparing with it. */
#ifndef WEFT_TESTS_OPTIM_TESTING_H
#define WEFT_TESTS_OPTIM_TESTING_H

#include <check.h>
#include <stdio.h>

#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/safetensors.h"

enum { STEPS = 20 };

void require(weft_status status);
/* Opens tests/golden/data/NAME. */
weft_safetensors *golden_open(weft_context *context, const char *name);
/* A tensor of the file as f64 or f32; the caller releases it. */
weft_tensor *golden_tensor(weft_context *context, weft_safetensors *file, const char *name, weft_dtype dtype);
/* Row `row` of a tensor's first axis, a copy. */
weft_tensor *tensor_row(weft_context *context, const weft_tensor *tensor, int64_t row);
double element(const weft_tensor *tensor, int64_t index);
/* |a - b| / |b| over all elements. */
double distance(const weft_tensor *a, const weft_tensor *b);

Suite *optim_suite(void);
Suite *schedule_suite(void);
Suite *loss_suite(void);

#endif
