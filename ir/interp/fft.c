/* fft along one axis: recursive decimation in time over the smallest prime factor, in f64. A prime length is a plain
   discrete Fourier transform. Twiddles come from one table of the n-th roots of unity, so errors do not accumulate.
   Forward: sum x[k] exp(-2 pi i k j / n); inverse: the conjugate sum divided by n.
   Source: Cooley and Tukey, 1965. */
#include <math.h>

#include "ir/interp/interp.h"

static int64_t smallest_factor(int64_t n) {
    for (int64_t f = 2; f * f <= n; f++)
        if (n % f == 0) return f;
    return n;
}

/* out[0, n) = transform of in[0], in[step], ...; roots[j] = exp(-+2 pi i j / (n * step)). spare has n elements. */
static void transform(int64_t n, int64_t step, const weft_complex *in, const weft_complex *roots, weft_complex *out,
                      weft_complex *spare) {
    if (n <= 1) {
        if (n == 1) out[0] = in[0];
        return;
    }
    int64_t p = smallest_factor(n), m = n / p;
    for (int64_t r = 0; r < p; r++) transform(m, step * p, in + r * step, roots, spare + r * m, out + r * m);
    for (int64_t j = 0; j < n; j++) {
        weft_complex sum = {0, 0};
        for (int64_t r = 0; r < p; r++) {
            weft_complex w = roots[j * r % n * step];
            sum = weft_interp_combine_complex(
                WEFT_REDUCTION_SUM, sum, weft_interp_combine_complex(WEFT_REDUCTION_PRODUCT, w, spare[r * m + j % m]));
        }
        out[j] = sum;
    }
}

static void make_roots(int64_t n, bool inverse, weft_complex *roots) {
    const double two_pi = 6.283185307179586;
    for (int64_t j = 0; j < n; j++) {
        double angle = two_pi * (double)j / (double)n;
        roots[j] = (weft_complex){cos(angle), inverse ? sin(angle) : -sin(angle)};
    }
}

weft_status weft_interpret_fft(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                               weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0), n = x->shape[axis], step = x->strides[axis];
    bool inverse = weft_node_string(node, WEFT_ATTR_kind, "forward")[0] == 'i';
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of fft");
    if (x->element_count == 0) return NULL;
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, n, 4 * sizeof(weft_complex), &memory), "fft");
    weft_complex *roots = memory, *in = roots + n, *out = in + n, *spare = out + n;
    make_roots(n, inverse, roots);
    for (int64_t line = 0; line < x->element_count / n; line++) {
        int64_t first = line / step * step * n + line % step;
        for (int64_t k = 0; k < n; k++) in[k] = weft_interp_load_complex(x->dtype, x->data, first + k * step);
        transform(n, 1, in, roots, out, spare);
        for (int64_t k = 0; k < n; k++) {
            weft_complex value = out[k];
            if (inverse) value = (weft_complex){value.re / (double)n, value.im / (double)n};
            weft_interp_store_complex(x->dtype, results[0]->data, first + k * step, value);
        }
    }
    weft_interp_scratch_free(interpreter, n, 4 * sizeof(weft_complex), memory);
    return NULL;
}
