/* What the tests of vmap share: a context, random tensors, slices, comparison. */
#ifndef WEFT_TESTS_BATCH_TESTING_H
#define WEFT_TESTS_BATCH_TESTING_H

#include <check.h>

#include "ir/emit.h"
#include "weft/ops.h"
#include "weft/transform.h"

extern weft_context *test_context;

void expect(weft_status status, const char *what);
double uniform(double low, double high);
/* Floats in [low, high), integers in [0, 3), bools, keys: any bits. */
weft_tensor *random_tensor(weft_dtype dtype, int rank, const int64_t *shape, double low, double high);
/* Element i of a batch. */
weft_tensor *element_of(weft_tensor *batch, int64_t i);
/* Element i of a batch against what one element gives: equal bits, or near where the order of sums may differ. */
void compare_element(weft_tensor *batch, int64_t i, weft_tensor *one, const char *what);
/* a and b have one shape and are near. */
void compare(weft_tensor *a, weft_tensor *b, double tolerance, const char *what);
void release_all(int count, weft_tensor **tensors);
/* Runs a graph with the interpreter, and compiled; compares the two; gives the interpreter's. */
void run_both_ways(weft_graph *graph, int input_count, weft_tensor *const *inputs, int output_count,
                   weft_tensor **outputs, const char *what);

TCase *case_ops(void);
TCase *case_functions(void);

#endif
