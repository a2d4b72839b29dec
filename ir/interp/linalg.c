/* Dense linear algebra on the last two axes, in f64: cholesky, triangular_solve, qr by Householder reflections, eigh by
   Jacobi rotations. Leading axes are a batch. Matrices are row-major; m rows, n columns.
   Source: Golub and Van Loan, Matrix Computations, 4th edition (algorithms 4.2.1, 3.1.1, 5.2.1, 8.5.2). */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

static int64_t rows_of(const weft_tensor *x) { return x->shape[x->rank - 2]; }
static int64_t columns_of(const weft_tensor *x) { return x->shape[x->rank - 1]; }
static int64_t batch_of(const weft_tensor *x) { return weft_interp_count(x->rank - 2, x->shape); }

/* -- cholesky */

/* Lower factor of a symmetric matrix of which one triangle is read; a negative pivot gives NaN, as sqrt says. */
static void cholesky_one(int64_t n, bool lower, const double *a, double *l) {
    memset(l, 0, (size_t)(n * n) * sizeof *l);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            double sum = lower ? a[i * n + j] : a[j * n + i];
            for (int64_t k = 0; k < j; k++) sum -= l[i * n + k] * l[j * n + k];
            l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
        }
    }
}

static void transpose_square(int64_t n, double *a) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double kept = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = kept;
        }
    }
}

weft_status weft_interpret_cholesky(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                    weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    int64_t n = rows_of(x), size = n * n;
    bool lower = weft_node_int(node, WEFT_ATTR_lower, 1) != 0;
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of cholesky");
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, size, 2 * sizeof(double), &memory), "cholesky");
    double *a = memory, *l = a + size;
    for (int64_t b = 0; b < batch_of(x); b++) {
        weft_interp_load_f64(x->dtype, x->data, b * size, size, a);
        cholesky_one(n, lower, a, l);
        if (!lower) transpose_square(n, l);
        weft_interp_store_f64(x->dtype, results[0]->data, b * size, size, l);
    }
    weft_interp_scratch_free(interpreter, size, 2 * sizeof(double), memory);
    return NULL;
}

/* -- triangular_solve */

typedef struct weft_triangle {
    const double *a;
    int64_t n;
    bool lower, transposed, unit; /* lower: which triangle of a is stored */
} weft_triangle;

/* Element (i, j) of the matrix that is solved with: a or its transpose. */
static double triangle_at(const weft_triangle *t, int64_t i, int64_t j) {
    return t->transposed ? t->a[j * t->n + i] : t->a[i * t->n + j];
}

/* Solves T x = b in place; element i of x is at x[i * step]. */
static void solve_line(const weft_triangle *t, double *x, int64_t step) {
    bool forward = t->lower != t->transposed;
    for (int64_t s = 0; s < t->n; s++) {
        int64_t i = forward ? s : t->n - 1 - s;
        double sum = x[i * step];
        for (int64_t r = 0; r < s; r++) {
            int64_t k = forward ? r : t->n - 1 - r;
            sum -= triangle_at(t, i, k) * x[k * step];
        }
        x[i * step] = t->unit ? sum : sum / triangle_at(t, i, i);
    }
}

weft_status weft_interpret_triangular_solve(weft_interpreter *interpreter, const weft_node *node,
                                            weft_tensor *const *inputs, weft_tensor **results) {
    const weft_tensor *a = inputs[0], *b = inputs[1];
    int64_t n = rows_of(a), rows = rows_of(b), columns = columns_of(b), size = rows * columns;
    bool left = weft_node_int(node, WEFT_ATTR_left_side, 1) != 0;
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of triangular_solve");
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, n * n + size, sizeof(double), &memory), "triangular_solve");
    double *matrix = memory, *x = matrix + n * n;
    weft_triangle triangle = {.a = matrix, .n = n};
    triangle.lower = weft_node_int(node, WEFT_ATTR_lower, 1) != 0;
    triangle.unit = weft_node_int(node, WEFT_ATTR_unit_diagonal, 0) != 0;
    /* x op(A) = b is op(A)^T x^T = b^T: the same solve along rows. */
    triangle.transposed = (weft_node_int(node, WEFT_ATTR_transpose_a, 0) != 0) != !left;
    for (int64_t i = 0; i < batch_of(b); i++) {
        weft_interp_load_f64(a->dtype, a->data, i * n * n, n * n, matrix);
        weft_interp_load_f64(b->dtype, b->data, i * size, size, x);
        for (int64_t line = 0; line < (left ? columns : rows); line++)
            solve_line(&triangle, left ? x + line : x + line * columns, left ? columns : 1);
        weft_interp_store_f64(b->dtype, results[0]->data, i * size, size, x);
    }
    weft_interp_scratch_free(interpreter, n * n + size, sizeof(double), memory);
    return NULL;
}

/* -- qr */

/* Reflector that maps column j of a, from row j on, to a multiple of the first unit vector; v[0] = 1. Returns tau. */
static double reflector(int64_t m, int64_t n, const double *a, int64_t j, double *v) {
    double norm = 0, alpha = a[j * n + j];
    for (int64_t i = j + 1; i < m; i++) norm += a[i * n + j] * a[i * n + j];
    for (int64_t i = 0; i < m; i++) v[i] = i == j ? 1 : 0;
    if (norm == 0) return 0;
    double beta = -copysign(sqrt(alpha * alpha + norm), alpha);
    for (int64_t i = j + 1; i < m; i++) v[i] = a[i * n + j] / (alpha - beta);
    return (beta - alpha) / beta;
}

/* a -= tau v (v^T a), on rows from j on. */
static void reflect(int64_t m, int64_t n, double tau, const double *v, int64_t j, double *a) {
    for (int64_t c = 0; c < n; c++) {
        double dot = 0;
        for (int64_t i = j; i < m; i++) dot += v[i] * a[i * n + c];
        for (int64_t i = j; i < m; i++) a[i * n + c] -= tau * dot * v[i];
    }
}

/* a (m x n) becomes R in its upper triangle; q (m x k) the first k columns of Q. vs: k reflectors of m, taus: k. */
static void qr_one(int64_t m, int64_t n, double *a, double *q, double *vs, double *taus) {
    int64_t k = m < n ? m : n;
    for (int64_t j = 0; j < k; j++) {
        taus[j] = reflector(m, n, a, j, vs + j * m);
        reflect(m, n, taus[j], vs + j * m, j, a);
    }
    for (int64_t i = 0; i < m * k; i++) q[i] = i / k == i % k ? 1 : 0;
    for (int64_t j = k - 1; j >= 0; j--) reflect(m, k, taus[j], vs + j * m, j, q);
}

weft_status weft_interpret_qr(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                              weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    int64_t m = rows_of(x), n = columns_of(x), k = m < n ? m : n, total = m * n + 2 * m * k + k;
    for (int i = 0; i < 2; i++) WEFT_TRY(weft_interp_result(interpreter, node, i, &results[i]), "result of qr");
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, total, sizeof(double), &memory), "qr");
    double *a = memory, *q = a + m * n, *vs = q + m * k, *taus = vs + m * k;
    for (int64_t b = 0; b < batch_of(x); b++) {
        weft_interp_load_f64(x->dtype, x->data, b * m * n, m * n, a);
        qr_one(m, n, a, q, vs, taus);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < i && j < n; j++) a[i * n + j] = 0;
        weft_interp_store_f64(x->dtype, results[0]->data, b * m * k, m * k, q);
        weft_interp_store_f64(x->dtype, results[1]->data, b * k * n, k * n, a);
    }
    weft_interp_scratch_free(interpreter, total, sizeof(double), memory);
    return NULL;
}

/* -- eigh */

enum { JACOBI_SWEEPS = 60 };

/* Rotates rows and columns p, q of a so that a[p][q] vanishes; v collects the rotations. */
static void jacobi_rotate(int64_t n, double *a, double *v, int64_t p, int64_t q) {
    double apq = a[p * n + q];
    if (apq == 0) return;
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1)), c = 1 / sqrt(t * t + 1), s = t * c;
    for (int64_t k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int64_t k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
        double vx = v[k * n + p], vy = v[k * n + q];
        v[k * n + p] = c * vx - s * vy;
        v[k * n + q] = s * vx + c * vy;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

static void jacobi(int64_t n, double *a, double *v) {
    for (int64_t i = 0; i < n * n; i++) v[i] = i / n == i % n ? 1 : 0;
    for (int sweep = 0; sweep < JACOBI_SWEEPS; sweep++) {
        double off = 0, all = 0;
        for (int64_t i = 0; i < n * n; i++) {
            all += a[i] * a[i];
            if (i / n != i % n) off += a[i] * a[i];
        }
        if (!(off > all * 1e-34)) return; /* done, or NaN */
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) jacobi_rotate(n, a, v, p, q);
    }
}

/* Selection sort of the eigenvalues, columns of v along. */
static void order_eigenpairs(int64_t n, double *values, double *v) {
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++)
            if (values[j] < values[least]) least = j;
        double kept = values[i];
        values[i] = values[least];
        values[least] = kept;
        for (int64_t k = 0; k < n && least != i; k++) {
            kept = v[k * n + i];
            v[k * n + i] = v[k * n + least];
            v[k * n + least] = kept;
        }
    }
}

/* The first element of an eigenvector beyond 0.37 / sqrt(n) is positive: one is at least 1 / sqrt(n). */
static void sign_eigenvectors(int64_t n, double *v) {
    for (int64_t j = 0; j < n; j++) {
        int64_t first = 0;
        while (first < n - 1 && !(fabs(v[first * n + j]) > 0.37 / sqrt((double)n))) first++;
        if (!(v[first * n + j] < 0)) continue;
        for (int64_t i = 0; i < n; i++) v[i * n + j] = -v[i * n + j];
    }
}

/* Reads the lower triangle. */
weft_status weft_interpret_eigh(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    int64_t n = rows_of(x), size = n * n;
    for (int i = 0; i < 2; i++) WEFT_TRY(weft_interp_result(interpreter, node, i, &results[i]), "result of eigh");
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, 2 * size + n, sizeof(double), &memory), "eigh");
    double *a = memory, *v = a + size, *values = v + size;
    for (int64_t b = 0; b < batch_of(x); b++) {
        weft_interp_load_f64(x->dtype, x->data, b * size, size, a);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++) a[i * n + j] = a[j * n + i];
        jacobi(n, a, v);
        for (int64_t i = 0; i < n; i++) values[i] = a[i * n + i];
        order_eigenpairs(n, values, v);
        sign_eigenvectors(n, v);
        weft_interp_store_f64(x->dtype, results[0]->data, b * n, n, values);
        weft_interp_store_f64(x->dtype, results[1]->data, b * size, size, v);
    }
    weft_interp_scratch_free(interpreter, 2 * size + n, sizeof(double), memory);
    return NULL;
}
