/* Helpers of the interpreter tests: constants from literals, one op on them, the expected elements. */
#ifndef TESTS_INTERP_INTERP_H
#define TESTS_INTERP_INTERP_H

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "ir/build.h"
#include "ir/interpret.h"

Suite *elementwise_suite(void);
Suite *movement_suite(void);
Suite *reduce_suite(void);
Suite *products_suite(void);
Suite *control_suite(void);
Suite *dtypes_suite(void);

/* A fresh graph and its context; set up and torn down around every test. */
extern weft_context *test_context;
extern weft_graph *test_graph;
void graph_setup(void);
void graph_teardown(void);
void ok(weft_status status);
void expect_code(weft_status status, weft_code code);

#define DIMS(...)                                                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define SCALAR 0, NULL
#define LIST(...)                                                                                                      \
    (double[]) { __VA_ARGS__ }

weft_tensor *tensor_of(weft_dtype dtype, int rank, const int64_t *shape, const double *values);
weft_value *constant_of(weft_dtype dtype, int rank, const int64_t *shape, const double *values);
weft_value *integers_of(weft_dtype dtype, int rank, const int64_t *shape, const int64_t *values);

/* One op on values; attributes as in build.h. */
#define ATTRIBUTES(...)                                                                                                \
    (int)(sizeof((weft_attribute[]){__VA_ARGS__}) / sizeof(weft_attribute)), (weft_attribute[]) { __VA_ARGS__ }
#define NO_ATTRIBUTES 0, NULL
weft_value *apply1(weft_op op, weft_value *x, int attribute_count, const weft_attribute *attributes);
weft_value *apply2(weft_op op, weft_value *x, weft_value *y, int attribute_count, const weft_attribute *attributes);
#define INTS(name, ...)                                                                                                \
    weft_attr_ints(WEFT_ATTR_##name, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                        \
                   (int64_t[]){__VA_ARGS__})
#define EXTENTS(name, ...)                                                                                             \
    weft_attr_dims(WEFT_ATTR_##name, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                        \
                   (int64_t[]){__VA_ARGS__})

/* Interprets the graph with these values as outputs. */
void evaluate(int count, weft_value *const *values, weft_tensor **results);
weft_tensor *evaluate_one(weft_value *value);
/* Evaluates value and compares: shape exactly, elements within tolerance (relative above 1, absolute below); NaN equals
   NaN, zeros must agree in sign. */
void expect(weft_value *value, int rank, const int64_t *shape, const double *elements, double tolerance);
void expect_integers(weft_value *value, int rank, const int64_t *shape, const int64_t *elements);
void check_tensor(const weft_tensor *tensor, int rank, const int64_t *shape, const double *elements, double tolerance);

#endif
