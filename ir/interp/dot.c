/* dot_general: operands are permuted to A[batch][m][k] and B[batch][k][n] as double (or int64, or complex), multiplied
   by the kernels below, and rounded once. The sum over k runs in order for every element. The f64 kernel computes tiles
   of 4 x 4 elements: the order of each sum is untouched, only independent sums interleave. */
#include <string.h>

#include "ir/interp/interp.h"

typedef double weft_f64x2 __attribute__((vector_size(16)));

enum { TILE = 4 };

static weft_f64x2 load2(const double *p) {
    weft_f64x2 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A full tile at c; b points at column j of row 0. */
static void tile_f64(int64_t n, int64_t k, const double *a, const double *b, double *c) {
    weft_f64x2 sum[TILE][2] = {{{0}}};
    for (int64_t p = 0; p < k; p++) {
        weft_f64x2 b0 = load2(b + p * n), b1 = load2(b + p * n + 2);
        for (int i = 0; i < TILE; i++) {
            double scalar = a[i * k + p];
            weft_f64x2 both = {scalar, scalar};
            sum[i][0] += both * b0;
            sum[i][1] += both * b1;
        }
    }
    for (int i = 0; i < TILE; i++) memcpy(c + i * n, sum[i], sizeof sum[i]);
}

void weft_interp_matmul_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    for (int64_t i = 0; i < m; i += TILE) {
        for (int64_t j = 0; j < n; j += TILE) {
            if (i + TILE <= m && j + TILE <= n) {
                tile_f64(n, k, a + i * k, b + j, c + i * n + j);
                continue;
            }
            for (int64_t r = i; r < m && r < i + TILE; r++) {
                for (int64_t s = j; s < n && s < j + TILE; s++) {
                    double sum = 0;
                    for (int64_t p = 0; p < k; p++) sum += a[r * k + p] * b[p * n + s];
                    c[r * n + s] = sum;
                }
            }
        }
    }
}

/* Products and sums round to f32: what a chain of f32 multiplications and additions gives. */
void weft_interp_matmul_f32(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += (float)a[i * k + p] * (float)b[p * n + j];
            c[i * n + j] = (double)sum;
        }
    }
}

void weft_interp_matmul_i64(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b, int64_t *c) {
    for (int64_t i = 0; i < m; i++) {
        memset(c + i * n, 0, (size_t)n * sizeof *c);
        for (int64_t p = 0; p < k; p++) {
            uint64_t scalar = (uint64_t)a[i * k + p];
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] = (int64_t)((uint64_t)c[i * n + j] + scalar * (uint64_t)b[p * n + j]);
        }
    }
}

static void matmul_complex(int64_t m, int64_t n, int64_t k, const weft_complex *a, const weft_complex *b,
                           weft_complex *c) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            weft_complex sum = {0, 0};
            for (int64_t p = 0; p < k; p++)
                sum = weft_interp_combine_complex(
                    WEFT_REDUCTION_SUM, sum,
                    weft_interp_combine_complex(WEFT_REDUCTION_PRODUCT, a[i * k + p], b[p * n + j]));
            c[i * n + j] = sum;
        }
    }
}

weft_dtype weft_interp_accumulate(const weft_node *node) {
    weft_dtype operand = weft_operand_type(node, 0)->dtype, fallback = operand;
    if (weft_dtype_is_float(operand) && weft_dtype_bits(operand) <= 16) fallback = WEFT_F32;
    if (weft_dtype_is_integer(operand) && weft_dtype_bits(operand) <= 8) fallback = WEFT_I32;
    return weft_node_dtype(node, WEFT_ATTR_accumulate, fallback);
}

/* One operand, permuted so that its axes come in the order given; as elements of the domain. */
static void load_permuted(const weft_tensor *x, const int *order, weft_interp_domain domain, void *out) {
    int64_t shape[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]];
    for (int64_t n = 0; n < x->element_count; n++, weft_interp_next(x->rank, shape, index)) {
        int64_t at = 0;
        for (int i = 0; i < x->rank; i++) at += index[i] * x->strides[order[i]];
        switch (domain) {
        case WEFT_DOMAIN_FLOAT: ((double *)out)[n] = weft_element_double(x->dtype, x->data, at); break;
        case WEFT_DOMAIN_INTEGER: ((int64_t *)out)[n] = weft_element_i64(x->dtype, x->data, at); break;
        case WEFT_DOMAIN_COMPLEX: ((weft_complex *)out)[n] = weft_interp_load_complex(x->dtype, x->data, at); break;
        }
    }
}

/* Axes that are neither batch nor contracted, in order. */
static int free_axes(const weft_tensor *x, const weft_attribute *batch, const weft_attribute *contract, int *out) {
    int count = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        bool taken = false;
        for (int i = 0; i < batch->count; i++) taken = taken || batch->as.ints[i] == axis;
        for (int i = 0; i < contract->count; i++) taken = taken || contract->as.ints[i] == axis;
        if (!taken) out[count++] = axis;
    }
    return count;
}

static int64_t put_axes(const weft_tensor *x, const weft_attribute *axes, int *order, int *at) {
    int64_t product = 1;
    for (int i = 0; i < axes->count; i++) {
        order[(*at)++] = (int)axes->as.ints[i];
        product *= x->shape[axes->as.ints[i]];
    }
    return product;
}

static int64_t put_free(const weft_tensor *x, const int *axes, int count, int *order, int *at) {
    int64_t product = 1;
    for (int i = 0; i < count; i++) {
        order[(*at)++] = axes[i];
        product *= x->shape[axes[i]];
    }
    return product;
}

typedef struct weft_dot_problem {
    int64_t batch, m, n, k;
    int lhs_order[WEFT_MAX_RANK], rhs_order[WEFT_MAX_RANK];
} weft_dot_problem;

static weft_dot_problem dot_problem(const weft_node *node, const weft_tensor *lhs, const weft_tensor *rhs) {
    const weft_attribute *lhs_batch = weft_node_attribute(node, WEFT_ATTR_lhs_batch);
    const weft_attribute *rhs_batch = weft_node_attribute(node, WEFT_ATTR_rhs_batch);
    const weft_attribute *lhs_contract = weft_node_attribute(node, WEFT_ATTR_lhs_contract);
    const weft_attribute *rhs_contract = weft_node_attribute(node, WEFT_ATTR_rhs_contract);
    weft_dot_problem p;
    int lhs_free[WEFT_MAX_RANK], rhs_free[WEFT_MAX_RANK], at = 0;
    int lhs_count = free_axes(lhs, lhs_batch, lhs_contract, lhs_free);
    int rhs_count = free_axes(rhs, rhs_batch, rhs_contract, rhs_free);
    p.batch = put_axes(lhs, lhs_batch, p.lhs_order, &at);
    p.m = put_free(lhs, lhs_free, lhs_count, p.lhs_order, &at);
    p.k = put_axes(lhs, lhs_contract, p.lhs_order, &at);
    at = 0;
    (void)put_axes(rhs, rhs_batch, p.rhs_order, &at);
    (void)put_axes(rhs, rhs_contract, p.rhs_order, &at);
    p.n = put_free(rhs, rhs_free, rhs_count, p.rhs_order, &at);
    return p;
}

void weft_interp_store_sums(const weft_node *node, weft_interp_domain domain, const void *sums, weft_tensor *y) {
    weft_dtype accumulate = weft_interp_accumulate(node);
    if (domain == WEFT_DOMAIN_FLOAT) {
        weft_interp_store_f64(y->dtype, y->data, 0, y->element_count, sums);
        return;
    }
    for (int64_t i = 0; i < y->element_count; i++) {
        if (domain == WEFT_DOMAIN_COMPLEX) {
            weft_interp_store_complex(y->dtype, y->data, i, ((const weft_complex *)sums)[i]);
            continue;
        }
        int64_t sum = weft_interp_wrap(accumulate, ((const int64_t *)sums)[i]);
        if (weft_dtype_is_float(y->dtype))
            weft_element_set_double(y->dtype, y->data, i, accumulate == WEFT_U64 ? (double)(uint64_t)sum : (double)sum);
        else
            weft_element_set_i64(y->dtype, y->data, i, sum);
    }
}

/* Integers accumulated in a float type are multiplied as floats. */
static weft_interp_domain product_domain(const weft_node *node, const weft_tensor *lhs) {
    weft_interp_domain domain = weft_interp_domain_of(lhs->dtype);
    return domain == WEFT_DOMAIN_INTEGER ? weft_interp_domain_of(weft_interp_accumulate(node)) : domain;
}

static void multiply(const weft_interpreter *interpreter, const weft_node *node, const weft_dot_problem *p,
                     weft_interp_domain domain, const void *a, const void *b, void *c) {
    bool round = weft_interp_rounds(interpreter, weft_interp_accumulate(node));
    for (int64_t i = 0; i < p->batch; i++) {
        int64_t at = i * p->m * p->k, bt = i * p->k * p->n, ct = i * p->m * p->n;
        if (domain == WEFT_DOMAIN_FLOAT)
            (round ? weft_interp_matmul_f32 : weft_interp_matmul_f64)(p->m, p->n, p->k, (const double *)a + at,
                                                                      (const double *)b + bt, (double *)c + ct);
        else if (domain == WEFT_DOMAIN_INTEGER)
            weft_interp_matmul_i64(p->m, p->n, p->k, (const int64_t *)a + at, (const int64_t *)b + bt,
                                   (int64_t *)c + ct);
        else
            matmul_complex(p->m, p->n, p->k, (const weft_complex *)a + at, (const weft_complex *)b + bt,
                           (weft_complex *)c + ct);
    }
}

weft_status weft_interpret_dot_general(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                       weft_tensor **results) {
    const weft_tensor *lhs = inputs[0], *rhs = inputs[1];
    weft_dot_problem p = dot_problem(node, lhs, rhs);
    weft_interp_domain domain = product_domain(node, lhs);
    size_t item = domain == WEFT_DOMAIN_COMPLEX ? sizeof(weft_complex) : sizeof(double);
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of dot_general");
    int64_t counts[3] = {lhs->element_count, rhs->element_count, results[0]->element_count};
    void *memory[3] = {NULL, NULL, NULL};
    weft_status status = NULL;
    for (int i = 0; i < 3 && !status; i++) status = weft_interp_scratch(interpreter, counts[i], item, &memory[i]);
    if (!status) {
        load_permuted(lhs, p.lhs_order, domain, memory[0]);
        load_permuted(rhs, p.rhs_order, domain, memory[1]);
        multiply(interpreter, node, &p, domain, memory[0], memory[1], memory[2]);
        weft_interp_store_sums(node, domain, memory[2], results[0]);
    }
    for (int i = 0; i < 3; i++) weft_interp_scratch_free(interpreter, counts[i], item, memory[i]);
    return status;
}
