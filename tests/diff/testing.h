/* What the tests of derivatives share. */
#ifndef WEFT_TESTS_DIFF_TESTING_H
#define WEFT_TESTS_DIFF_TESTING_H

#include <check.h>

#include "weft/ops.h"
#include "weft/transform.h"

double uniform(double low, double high);
void expect(weft_status status, const char *name);
double *elements(weft_tensor *t); /* f64 */
double dot(weft_tensor *a, weft_tensor *b);
weft_tensor *random_tensor(weft_context *context, int rank, const int64_t *shape, double low, double high); /* f64 */
/* Compiles the graph for this CPU and compares with what the interpreter gave: relative to 1 + its size. */
void compare_compiled(weft_graph *g, int input_count, weft_tensor *const *inputs, int output_count,
                      weft_tensor *const *expected, double tolerance, const char *name);

TCase *case_transforms(void);
TCase *case_remat(void);
TCase *case_size(void);
TCase *case_ops(void);
TCase *case_memory(void);

#endif
