/* What the op families of the interpreter share: result tensors, attributes as numbers, blocks of elements as double or
   int64, and one strided copy that all data movement is made of.
   Invariant: tensors inside the interpreter are packed row-major host tensors, so tensor->strides are usable as they
   are. Read next: interpret.c (running), elementwise.c (the simplest family). */
#ifndef WEFT_IR_INTERP_INTERP_H
#define WEFT_IR_INTERP_INTERP_H

#include "base/tensor.h"
#include "ir/interpret.h"

enum { WEFT_INTERP_BLOCK = 512 }; /* elements converted at a time */

/* The node's result i as a tensor of zeros, its shape under the current symbol values. */
weft_status weft_interp_result(const weft_interpreter *interpreter, const weft_node *node, int i,
                               weft_tensor **out_tensor) WEFT_MUST_USE;
weft_status weft_interp_tensor(const weft_interpreter *interpreter, const weft_type *type,
                               weft_tensor **out_tensor) WEFT_MUST_USE;
/* One extent under the current symbol values. Unbound symbols are an error. */
weft_status weft_interp_extent(const weft_interpreter *interpreter, weft_dim dim, int64_t *out_value) WEFT_MUST_USE;
/* The first unbound symbol of an expression; -1 when all are bound. */
int weft_interp_unbound(const weft_interpreter *interpreter, weft_dim dim);
/* Binds symbols from the inputs' shapes and checks dtypes, extents, bounds. bind.c */
weft_status weft_interp_bind(weft_interpreter *interpreter, int input_count, weft_tensor *const *inputs) WEFT_MUST_USE;
/* Every guard whose symbols are bound holds. */
weft_status weft_interp_check_guards(const weft_interpreter *interpreter) WEFT_MUST_USE;
/* A derived op through its decomposition. derived.c */
weft_status weft_interp_derived(const weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) WEFT_MUST_USE;
/* A DIMS attribute as numbers; out has room for attribute->count. */
weft_status weft_interp_extents(const weft_interpreter *interpreter, const weft_node *node, weft_attribute_name name,
                                int64_t *out_values) WEFT_MUST_USE;
/* Scratch of the context's allocator: count * item_bytes. */
weft_status weft_interp_scratch(const weft_interpreter *interpreter, int64_t count, size_t item_bytes,
                                void **out_memory) WEFT_MUST_USE;
void weft_interp_scratch_free(const weft_interpreter *interpreter, int64_t count, size_t item_bytes, void *memory);

typedef struct weft_complex {
    double re, im;
} weft_complex;

/* Elements [start, start + count). Integers sign- or zero-extended (u64: its bits); stores keep the low bits. Storing
   doubles rounds once; for integers it truncates and clamps. */
void weft_interp_load_f64(weft_dtype dtype, const void *data, int64_t start, int64_t count, double *out);
void weft_interp_store_f64(weft_dtype dtype, void *data, int64_t start, int64_t count, const double *values);
void weft_interp_load_i64(weft_dtype dtype, const void *data, int64_t start, int64_t count, int64_t *out);
void weft_interp_store_i64(weft_dtype dtype, void *data, int64_t start, int64_t count, const int64_t *values);
weft_complex weft_interp_load_complex(weft_dtype dtype, const void *data, int64_t index);
void weft_interp_store_complex(weft_dtype dtype, void *data, int64_t index, weft_complex value);
/* An integer element as i64; u64 beyond INT64_MAX saturates (indices). */
int64_t weft_interp_index(const weft_tensor *tensor, int64_t index);

/* Rounded to the dtype as a store would: low bits of integers. */
int64_t weft_interp_wrap(weft_dtype dtype, int64_t value);
bool weft_interp_less_i64(weft_dtype dtype, int64_t a, int64_t b); /* u64 compares unsigned */

/* The weft kind an op computes in. */
typedef enum weft_interp_domain { WEFT_DOMAIN_FLOAT, WEFT_DOMAIN_INTEGER, WEFT_DOMAIN_COMPLEX } weft_interp_domain;
weft_interp_domain weft_interp_domain_of(weft_dtype dtype); /* bool is INTEGER */

/* A view on packed data: element (i0, i1, ...) is at offset + sum i * stride. Strides may be negative or 0. */
typedef struct weft_view {
    int64_t offset;
    int64_t strides[WEFT_MAX_RANK];
} weft_view;
/* dst[...] = src[...] for all indices below shape. */
void weft_interp_copy(weft_dtype dtype, int rank, const int64_t *shape, const void *src, const weft_view *from,
                      void *dst, const weft_view *to);
weft_view weft_interp_view(const weft_tensor *tensor);
/* Steps index through shape in row-major order, last axis first; false after the last. rank 0: one step. */
bool weft_interp_next(int rank, const int64_t *shape, int64_t *index);
int64_t weft_interp_count(int rank, const int64_t *shape);

/* Reductions: kinds and identities. */
typedef enum weft_reduction {
    WEFT_REDUCTION_SUM,
    WEFT_REDUCTION_PRODUCT,
    WEFT_REDUCTION_MAX,
    WEFT_REDUCTION_MIN,
    WEFT_REDUCTION_AND,
    WEFT_REDUCTION_OR,
    WEFT_REDUCTION_SET /* scatter only: the newer value */
} weft_reduction;
weft_reduction weft_interp_reduction(const weft_node *node);
double weft_interp_identity_f64(weft_reduction kind, weft_dtype dtype);
int64_t weft_interp_identity_i64(weft_reduction kind, weft_dtype dtype);
/* In ROUNDED mode sums and products of dtypes accumulated in f32 round to f32 after each step. */
bool weft_interp_rounds(const weft_interpreter *interpreter, weft_dtype dtype);
double weft_interp_combine_f64(weft_reduction kind, bool round, double a, double b);
int64_t weft_interp_combine_i64(weft_reduction kind, weft_dtype dtype, int64_t a, int64_t b);
weft_complex weft_interp_combine_complex(weft_reduction kind, weft_complex a, weft_complex b);
double weft_interp_maximum(double a, double b); /* NaN if either is; -0 < +0 */
double weft_interp_minimum(double a, double b);

/* C[m][n] = sum over k in order of A[m][k] * B[k][n]; C is overwritten. dot.c */
void weft_interp_matmul_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);
void weft_interp_matmul_f32(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                            double *c); /* f32 sums */
void weft_interp_matmul_i64(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b, int64_t *c);
/* Product results: sums in `accumulate`, then the result's dtype. */
weft_dtype weft_interp_accumulate(const weft_node *node);
/* Sums are in the domain; the result takes them through the accumulator's dtype when that wraps. */
void weft_interp_store_sums(const weft_node *node, weft_interp_domain domain, const void *sums, weft_tensor *y);

#endif
