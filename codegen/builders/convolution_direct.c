/* Depthwise and narrow convolutions on GPUs, without a matrix product: a sum of few terms an output, read straight from
   memory and the caches. A thread makes four neighbouring positions of one line for a few output channels, all terms
   written out; every element of x that a thread needs is loaded once, weights are the same for all threads of a line.
   convolution_simt.c takes what has longer sums. Read next: convolution_simt.c. */
#include "codegen/builders/convolution.h"
#include "codegen/builders/matmul.h"
#include "codegen/builders/plan.h"

/* Terms of a sum: depthwise, and with several input channels; beyond, tiles in shared memory read less. */
enum { DEPTHWISE_TERMS = 64, NARROW_TERMS = 36, LANES = 4, CHANNELS_MAX = 8, THREADS = 128 };

typedef struct direct {
    const weft_build_request *request;
    const weft_node *node;
    weft_kernel *k;
    weft_index_context c;
    int rank; /* spatial axes */
    int64_t inputs, taps, group_outputs;
    int channels, lanes; /* of a thread: output channels, positions of the last axis */
    weft_kval image, first_input, first_output, column, line[WEFT_MAX_RANK];
    weft_kval sums[CHANNELS_MAX][LANES];
} direct;

static bool find(const weft_node *fusion, direct *out, const char **out_reason) {
    const weft_node *node = weft_fusion_find(fusion, WEFT_OP_convolution);
    *out_reason = "no convolution in the group";
    if (!node) return false;
    const weft_type *w = weft_operand_type(node, 1);
    *out = (direct){.node = node, .rank = w->rank - 2, .inputs = w->dims[1], .taps = 1, .lanes = LANES};
    *out_reason = "no spatial axis, or a kernel of unknown size";
    if (out->rank < 1) return false;
    for (int i = 0; i < w->rank; i++)
        if (!weft_dim_is_number(w->dims[i])) return false;
    const int64_t *base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints;
    *out_reason = "a spread input";
    for (int d = 0; d < out->rank; d++) {
        if (base[d] != 1) return false;
        out->taps *= w->dims[d + 2];
        if (out->taps > DEPTHWISE_TERMS) break;
    }
    *out_reason = "sums of many terms";
    if (out->inputs < 1 || out->taps < 1 ||
        out->taps > (out->inputs == 1 ? DEPTHWISE_TERMS : NARROW_TERMS / out->inputs))
        return false;
    out->group_outputs = w->dims[0] / weft_node_int(node, WEFT_ATTR_groups, 1);
    *out_reason = "operands are no floats that are summed in f32";
    if (weft_product_sum(node) != WEFT_F32 || weft_index_carrier(weft_operand_type(node, 0)->dtype) != WEFT_F32 ||
        weft_index_carrier(w->dtype) != WEFT_F32)
        return false;
    for (out->channels = CHANNELS_MAX; out->group_outputs % out->channels;) out->channels /= 2;
    *out_reason = NULL;
    return true;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    direct d;
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    if (!find(fusion, &d, out_reason)) return false;
    *out_reason = "more elements than 32-bit indices reach";
    if (!weft_fusion_fits_index(graph, fusion, capability)) return false;
    *out_reason = "results of less than a byte an element";
    if (weft_fusion_stores_narrow(fusion)) return false;
    *out_reason = "the epilogue moves elements of the result";
    if (!weft_convolution_keeps_positions(graph, fusion, d.node)) return false;
    *out_reason = NULL;
    return true;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    static const int lanes[] = {LANES, 2};
    (void)request;
    int count = 0;
    for (; count < 2 && count < capacity; count++)
        out_schedules[count] =
            (weft_schedule){.builder = "convolution-direct", .vector = lanes[count], .threads = THREADS};
    return count;
}

static weft_kval number(direct *d, int64_t value) { return weft_k_index(d->k, value); }

/* Takes the innermost of `extent` off an id. */
static weft_kval take(direct *d, weft_kval *id, weft_dim extent) {
    if (extent == 1) return number(d, 0);
    weft_kval size = weft_k_extent(d->k, extent), own = weft_k_rem(d->k, *id, size);
    *id = weft_k_div(d->k, *id, size);
    return own;
}

/* Where position `output` of spatial axis a meets offset `tap` of the kernel, and whether x has that place. */
static weft_kval place(direct *d, int a, weft_kval output, int64_t tap, weft_kval *inside) {
    weft_kernel *k = d->k;
    int64_t stride = weft_node_attribute(d->node, WEFT_ATTR_stride)->as.ints[a];
    weft_dim low = weft_node_attribute(d->node, WEFT_ATTR_low)->as.dims[a];
    weft_kval at = weft_k_add(k, weft_k_mul(k, output, number(d, stride)), number(d, tap));
    at = weft_k_sub(k, at, weft_k_extent(k, low));
    weft_kval exists = weft_k_and(k, weft_k_le(k, number(d, 0), at),
                                  weft_k_lt(k, at, weft_k_extent(k, weft_operand_type(d->node, 0)->dims[a + 2])));
    *inside = *inside == WEFT_KNONE ? exists : weft_k_and(k, *inside, exists);
    return weft_k_select(k, exists, at, number(d, 0));
}

/* sums of the thread's channels += w x for all its positions; x: the element that tap `tap` of lane `lane` reads. */
static void multiply_add(direct *d, int lane, weft_kval x, const weft_kval *weights) {
    for (int o = 0; o < d->channels; o++) d->sums[o][lane] = weft_k_mad(d->k, weights[o], x, d->sums[o][lane]);
}

/* One input channel, one line of the kernel: its taps and the positions of the thread read a run of x. */
static void add_line(direct *d, weft_lane_index *x_index, weft_lane_index *w_index, weft_kval inside) {
    const weft_type *w = weft_operand_type(d->node, 1);
    int last = d->rank - 1;
    int64_t stride = weft_node_attribute(d->node, WEFT_ATTR_stride)->as.ints[last],
            dilation = weft_node_attribute(d->node, WEFT_ATTR_dilation)->as.ints[last];
    int64_t width = w->dims[w->rank - 1], reach = (d->lanes - 1) * stride + (width - 1) * dilation;
    weft_kval weights[DEPTHWISE_TERMS][CHANNELS_MAX];
    for (int64_t t = 0; t < width; t++)
        for (int o = 0; o < d->channels; o++) {
            w_index[0] = weft_lane_scalar(weft_k_add(d->k, d->first_output, number(d, o)));
            w_index[w->rank - 1] = weft_lane_scalar(number(d, t));
            weights[t][o] = weft_index_value(&d->c, d->node->operands[1], w_index, 1, WEFT_KNONE);
        }
    for (int64_t offset = 0; offset <= reach; offset++) {
        weft_kval x = WEFT_KNONE;
        for (int lane = 0; lane < d->lanes; lane++) {
            int64_t tap = offset - lane * stride;
            if (tap < 0 || tap % dilation || tap / dilation >= width) continue;
            if (x == WEFT_KNONE) {
                weft_kval exists = inside;
                x_index[last + 2] = weft_lane_scalar(place(d, last, d->column, offset, &exists));
                x = weft_index_value(&d->c, d->node->operands[0], x_index, 1, exists);
                x = weft_k_select(d->k, exists, x, weft_k_float(d->k, WEFT_F32, 0)); /* a prologue makes 0 something */
            }
            multiply_add(d, lane, x, weights[tap / dilation]);
        }
    }
}

static void add_terms(direct *d) {
    const weft_type *w = weft_operand_type(d->node, 1);
    const int64_t *dilation = weft_node_attribute(d->node, WEFT_ATTR_dilation)->as.ints;
    weft_lane_index x_index[WEFT_MAX_RANK], w_index[WEFT_MAX_RANK];
    int64_t lines = d->taps / w->dims[w->rank - 1];
    x_index[0] = weft_lane_scalar(d->image);
    for (int64_t c = 0; c < d->inputs; c++) {
        x_index[1] = weft_lane_scalar(weft_k_add(d->k, d->first_input, number(d, c)));
        w_index[1] = weft_lane_scalar(number(d, c));
        for (int64_t line = 0; line < lines; line++) {
            weft_kval inside = WEFT_KNONE;
            int64_t rest = line;
            for (int a = d->rank - 2; a >= 0; a--) {
                int64_t tap = rest % w->dims[a + 2];
                rest /= w->dims[a + 2];
                x_index[a + 2] = weft_lane_scalar(place(d, a, d->line[a], tap * dilation[a], &inside));
                w_index[a + 2] = weft_lane_scalar(number(d, tap));
            }
            size_t mark = weft_index_mark(&d->c);
            add_line(d, x_index, w_index, inside);
            weft_index_release(&d->c, mark);
        }
    }
}

/* The thread's positions of each channel through the epilogue. */
static void store(direct *d) {
    weft_kernel *k = d->k;
    const weft_type *y = &d->node->results[0].type;
    weft_dim columns = y->dims[y->rank - 1];
    int64_t known = weft_dim_divisor(k->dims, columns);
    weft_kval mask = WEFT_KNONE;
    if (known % d->lanes)
        mask = weft_index_below(&d->c, weft_lane_range(d->column, d->lanes), d->lanes, weft_k_extent(k, columns));
    for (int o = 0; o < d->channels; o++) {
        size_t mark = weft_index_mark(&d->c);
        weft_kval sum = weft_k_splat(k, d->sums[o][0], d->lanes);
        for (int lane = 1; lane < d->lanes; lane++) sum = weft_k_insert(k, sum, lane, d->sums[o][lane]);
        weft_index_bind(&d->c, &d->node->results[0], weft_product_finish(&d->c, d->node, sum));
        weft_kval at = weft_k_add(k, weft_k_mul(k, d->image, weft_k_extent(k, y->dims[1])),
                                  weft_k_add(k, d->first_output, number(d, o)));
        for (int a = 0; a < d->rank - 1; a++)
            at = weft_k_add(k, weft_k_mul(k, at, weft_k_extent(k, y->dims[a + 2])), d->line[a]);
        at = weft_k_add(k, weft_k_mul(k, at, weft_k_extent(k, columns)), d->column);
        weft_lane_index flat = {at, 1, known % d->lanes ? 1 : d->lanes};
        for (int result = 0; result < d->request->fusion->result_count; result++)
            weft_index_emit_flat(&d->c, result, flat, d->lanes, mask);
        weft_index_release(&d->c, mark);
    }
}

static void emit(direct *d) {
    weft_kernel *k = d->k;
    const weft_type *y = &d->node->results[0].type;
    weft_dim chunks = weft_dim_divide_ceil(k->dims, y->dims[y->rank - 1], d->lanes), total = chunks;
    for (int a = 0; a < d->rank - 1; a++) total = weft_dim_multiply(k->dims, total, y->dims[a + 2]);
    total = weft_dim_multiply(k->dims, total, weft_dim_multiply(k->dims, y->dims[0], y->dims[1] / d->channels));
    k->threads = d->request->schedule->threads;
    k->grid = weft_dim_divide_ceil(k->dims, total, k->threads);
    weft_kval id = weft_k_add(k, weft_k_mul(k, weft_k_block(k), number(d, k->threads)), weft_k_thread(k));
    weft_k_if(k, weft_k_lt(k, id, weft_k_extent(k, total)));
    size_t mark = weft_index_mark(&d->c);
    d->column = weft_k_mul(k, take(d, &id, chunks), number(d, d->lanes));
    for (int a = d->rank - 2; a >= 0; a--) d->line[a] = take(d, &id, y->dims[a + 2]);
    d->first_output = weft_k_mul(k, take(d, &id, y->dims[1] / d->channels), number(d, d->channels));
    d->first_input = weft_k_mul(k, weft_k_div(k, d->first_output, number(d, d->group_outputs)), number(d, d->inputs));
    d->image = id;
    for (int o = 0; o < d->channels; o++)
        for (int lane = 0; lane < d->lanes; lane++) d->sums[o][lane] = weft_k_float(k, WEFT_F32, 0);
    add_terms(d);
    store(d);
    weft_index_release(&d->c, mark);
    weft_k_end(k);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const char *reason;
    direct d;
    if (!find(request->fusion, &d, &reason)) return WEFT_STATUS(WEFT_INTERNAL, "convolution-direct: %s", reason);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    if (weft_fusion_is_empty(request)) return out_plan->launch_count = 0, NULL;
    d.request = request;
    d.k = weft_plan_kernel(request, "");
    if (!d.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    if (request->schedule->vector == 1 || request->schedule->vector == 2) d.lanes = request->schedule->vector;
    WEFT_TRY(weft_index_init(request, d.k, &d.c), "building %s", request->name);
    emit(&d);
    WEFT_TRY(weft_index_finish(&d.c), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, d.k);
}

extern const weft_builder weft_builder_convolution_direct;
const weft_builder weft_builder_convolution_direct = {
    .name = "convolution", .accepts = accepts, .propose = propose, .build = build};
