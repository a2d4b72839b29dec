/* convolution: for every image and group, blocks of output positions become columns of a patch matrix (im2col) that the
   weights multiply. Padding and the holes of a base-dilated input are zeros in the patches.
   Letters: N images, C input channels, O output channels, g groups, K = C/g * kernel elements, P output positions. */
#include <string.h>

#include "ir/interp/interp.h"

enum { PATCH_COLUMNS = 1024 };

typedef struct weft_convolution_problem {
    int spatial;
    int64_t images, channels, outputs, groups; /* channels and outputs per group */
    int64_t kernel[WEFT_MAX_RANK], kernel_count, positions_shape[WEFT_MAX_RANK], positions;
    const int64_t *input; /* spatial extents of x */
    int64_t input_count;  /* their product */
    int64_t low[WEFT_MAX_RANK];
    const int64_t *stride, *dilation, *base;
} weft_convolution_problem;

static weft_status read_problem(const weft_interpreter *interpreter, const weft_node *node, const weft_tensor *x,
                                const weft_tensor *w, const weft_tensor *y, weft_convolution_problem *out) {
    weft_convolution_problem p = {.spatial = x->rank - 2, .images = x->shape[0], .input = x->shape + 2};
    p.groups = weft_node_int(node, WEFT_ATTR_groups, 1);
    p.channels = w->shape[1];
    p.outputs = w->shape[0] / p.groups;
    p.kernel_count = p.positions = p.input_count = 1;
    for (int i = 0; i < p.spatial; i++) {
        p.kernel_count *= p.kernel[i] = w->shape[i + 2];
        p.positions *= p.positions_shape[i] = y->shape[i + 2];
        p.input_count *= x->shape[i + 2];
    }
    p.stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints;
    p.dilation = weft_node_attribute(node, WEFT_ATTR_dilation)->as.ints;
    p.base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints;
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_low, p.low), "convolution");
    *out = p;
    return NULL;
}

/* Spatial offset in x under kernel position k of output position o; -1 in padding and holes. */
static int64_t input_offset(const weft_convolution_problem *p, const int64_t *o, const int64_t *k) {
    int64_t offset = 0;
    for (int i = 0; i < p->spatial; i++) {
        int64_t at = o[i] * p->stride[i] + k[i] * p->dilation[i] - p->low[i];
        if (at < 0 || at % p->base[i] || at / p->base[i] >= p->input[i]) return -1;
        offset = offset * p->input[i] + at / p->base[i];
    }
    return offset;
}

/* Patches of positions [first, first + count): column n, row (channel, kernel position). x starts at the group's first
   channel; elements are 8 bytes (double or int64; zero is all bits zero in both). */
static void load_patches(const weft_convolution_problem *p, const uint64_t *x, int64_t first, int64_t count,
                         uint64_t *out) {
    int64_t o[WEFT_MAX_RANK] = {0}, rest = first;
    for (int i = p->spatial - 1; i >= 0; i--) {
        o[i] = rest % p->positions_shape[i];
        rest /= p->positions_shape[i];
    }
    for (int64_t n = 0; n < count; n++, weft_interp_next(p->spatial, p->positions_shape, o)) {
        int64_t k[WEFT_MAX_RANK] = {0};
        for (int64_t element = 0; element < p->kernel_count; element++, weft_interp_next(p->spatial, p->kernel, k)) {
            int64_t offset = input_offset(p, o, k);
            for (int64_t c = 0; c < p->channels; c++)
                out[(c * p->kernel_count + element) * count + n] = offset < 0 ? 0 : x[c * p->input_count + offset];
        }
    }
}

/* The scratch of one convolution. */
typedef struct weft_convolution_memory {
    void *x, *w, *patches, *block;
    int64_t x_count, w_count, patch_count, block_count;
} weft_convolution_memory;

static weft_status memory_create(const weft_interpreter *interpreter, const weft_convolution_problem *p,
                                 weft_convolution_memory *m) {
    int64_t columns = p->positions < PATCH_COLUMNS ? p->positions : PATCH_COLUMNS;
    m->patch_count = p->channels * p->kernel_count * columns;
    m->block_count = p->outputs * columns;
    WEFT_TRY(weft_interp_scratch(interpreter, m->x_count, 8, &m->x), "convolution");
    WEFT_TRY(weft_interp_scratch(interpreter, m->w_count, 8, &m->w), "convolution");
    WEFT_TRY(weft_interp_scratch(interpreter, m->patch_count, 8, &m->patches), "convolution");
    return weft_interp_scratch(interpreter, m->block_count, 8, &m->block);
}

static void memory_free(const weft_interpreter *interpreter, weft_convolution_memory *m) {
    weft_interp_scratch_free(interpreter, m->x_count, 8, m->x);
    weft_interp_scratch_free(interpreter, m->w_count, 8, m->w);
    weft_interp_scratch_free(interpreter, m->patch_count, 8, m->patches);
    weft_interp_scratch_free(interpreter, m->block_count, 8, m->block);
}

static void store_block(const weft_node *node, weft_tensor *y, int64_t start, int64_t count, bool floats,
                        const void *sums) {
    if (floats) {
        weft_interp_store_f64(y->dtype, y->data, start, count, sums);
        return;
    }
    weft_dtype accumulate = weft_interp_accumulate(node);
    for (int64_t i = 0; i < count; i++) {
        int64_t sum = weft_interp_wrap(accumulate, ((const int64_t *)sums)[i]);
        if (weft_dtype_is_float(y->dtype))
            weft_element_set_double(y->dtype, y->data, start + i,
                                    accumulate == WEFT_U64 ? (double)(uint64_t)sum : (double)sum);
        else
            weft_element_set_i64(y->dtype, y->data, start + i, sum);
    }
}

/* One group of one image. */
static void convolve_group(const weft_interpreter *interpreter, const weft_node *node,
                           const weft_convolution_problem *p, const weft_convolution_memory *m, int64_t image,
                           int64_t group, bool floats, weft_tensor *y) {
    int64_t k = p->channels * p->kernel_count;
    const uint64_t *x = (const uint64_t *)m->x + (image * p->groups + group) * p->channels * p->input_count;
    const void *w = (const uint64_t *)m->w + group * p->outputs * k;
    bool round = weft_interp_rounds(interpreter, weft_interp_accumulate(node));
    for (int64_t first = 0; first < p->positions; first += PATCH_COLUMNS) {
        int64_t n = p->positions - first < PATCH_COLUMNS ? p->positions - first : PATCH_COLUMNS;
        load_patches(p, x, first, n, m->patches);
        if (floats)
            (round ? weft_interp_matmul_f32 : weft_interp_matmul_f64)(p->outputs, n, k, w, m->patches, m->block);
        else
            weft_interp_matmul_i64(p->outputs, n, k, w, m->patches, m->block);
        for (int64_t o = 0; o < p->outputs; o++)
            store_block(node, y, ((image * p->groups + group) * p->outputs + o) * p->positions + first, n, floats,
                        (const uint64_t *)m->block + o * n);
    }
}

weft_status weft_interpret_convolution(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                       weft_tensor **results) {
    const weft_tensor *x = inputs[0], *w = inputs[1];
    weft_convolution_problem p;
    weft_interp_domain domain = weft_interp_domain_of(x->dtype);
    if (domain == WEFT_DOMAIN_INTEGER) domain = weft_interp_domain_of(weft_interp_accumulate(node));
    if (domain == WEFT_DOMAIN_COMPLEX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "convolution of complex numbers: split it first");
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of convolution");
    WEFT_TRY(read_problem(interpreter, node, x, w, results[0], &p), "convolution");
    if (results[0]->element_count == 0) return NULL;
    weft_convolution_memory memory = {.x_count = x->element_count, .w_count = w->element_count};
    weft_status status = memory_create(interpreter, &p, &memory);
    if (!status) {
        bool floats = domain == WEFT_DOMAIN_FLOAT;
        if (floats) {
            weft_interp_load_f64(x->dtype, x->data, 0, x->element_count, memory.x);
            weft_interp_load_f64(w->dtype, w->data, 0, w->element_count, memory.w);
        } else {
            weft_interp_load_i64(x->dtype, x->data, 0, x->element_count, memory.x);
            weft_interp_load_i64(w->dtype, w->data, 0, w->element_count, memory.w);
        }
        for (int64_t image = 0; image < p.images; image++)
            for (int64_t group = 0; group < p.groups; group++)
                convolve_group(interpreter, node, &p, &memory, image, group, floats, results[0]);
    }
    memory_free(interpreter, &memory);
    return status;
}
