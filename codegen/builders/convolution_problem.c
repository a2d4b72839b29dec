/* From a convolution in a fusion to a weft_convolution: axes, packed layout, what can be read in place.
   Read next: convolution_cpu.c. */
#include "codegen/builders/convolution.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Packed positions of an axis and the elements between them, from the last axis outwards. */
static void lay_out(const weft_build_request *request, weft_convolution *p, int lanes) {
    weft_dim_table *table = request->graph->dims;
    weft_dim pitch = 1;
    for (int d = p->rank - 1; d >= 0; d--) {
        weft_convolution_axis *a = &p->axis[d];
        bool last = d == p->rank - 1;
        a->subsampled = a->kernel == 1;
        a->phases = last && !a->subsampled ? a->stride : 1;
        a->step = a->subsampled || last ? 1 : a->stride;
        int64_t reach = a->subsampled ? 0 : (a->kernel - 1) * a->dilation;
        a->pitch = pitch;
        if (last) /* whole vectors of outputs, and what their taps reach beyond */
            a->extent =
                weft_dim_add(table, weft_dim_multiply(table, weft_dim_divide_ceil(table, a->output, lanes), lanes),
                             ceil_div(reach, a->phases));
        else
            a->extent = weft_dim_add(table, weft_dim_multiply(table, weft_dim_subtract(table, a->output, 1), a->step),
                                     reach + 1);
        pitch = weft_dim_multiply(table, pitch, weft_dim_multiply(table, a->extent, a->phases));
    }
    p->plane = pitch;
}

static bool is_direct(const weft_build_request *request, weft_convolution *p) {
    for (int d = 0; d < p->rank; d++) {
        const weft_convolution_axis *a = &p->axis[d];
        if (a->kernel != 1 || a->stride != 1 || a->base_dilation != 1 || a->low != 0 ||
            !weft_dim_known_equal(request->graph->dims, a->input, a->output))
            return false;
    }
    if (p->x->type.dtype != p->accumulate || !weft_access_find(request, p->x, &p->x_access)) return false;
    weft_axes spatial = {.extent = 1};
    for (int d = 0; d < p->rank; d++) {
        spatial.axis[d] = d + 2;
        spatial.dims[spatial.count++] = p->x->type.dims[d + 2];
    }
    weft_dim stride;
    p->x_batch_stride = p->x_access.stride[0];
    p->x_channel_stride = p->x_access.stride[1];
    return weft_axes_stride(request->graph, &spatial, &p->x_access, &stride) && (stride == 1 || stride == 0);
}

static bool reads_w_in_place(const weft_build_request *request, weft_convolution *p) {
    const weft_type *type = &p->w->type;
    if (type->dtype != p->accumulate || !weft_access_find(request, p->w, &p->w_access)) return false;
    weft_axes all = {.extent = 1};
    for (int i = 0; i < type->rank; i++) {
        all.axis[i] = i;
        all.dims[all.count++] = type->dims[i];
    }
    weft_dim stride;
    return weft_axes_stride(request->graph, &all, &p->w_access, &stride) && (stride == 1 || stride == 0);
}

bool weft_convolution_find(const weft_build_request *request, weft_convolution *out_convolution,
                           const char **out_reason) {
    const weft_node *node = weft_fusion_find(request->fusion, WEFT_OP_convolution);
    if (!node) return *out_reason = "no convolution in the fusion", false;
    const weft_type *x = weft_operand_type(node, 0), *w = weft_operand_type(node, 1), *y = &node->results[0].type;
    weft_convolution *p = out_convolution;
    *p = (weft_convolution){
        .node = node, .x = node->operands[0], .w = node->operands[1], .rank = x->rank - 2, .taps = 1};
    p->accumulate = weft_product_sum(node);
    if (p->accumulate == WEFT_INVALID) return *out_reason = "operands are neither floats nor integers", false;
    if (p->rank < 1) return *out_reason = "no spatial axis", false;
    p->groups = weft_node_int(node, WEFT_ATTR_groups, 1);
    for (int i = 0; i < w->rank; i++)
        if (!weft_dim_is_number(w->dims[i])) return *out_reason = "a symbolic kernel", false;
    p->group_inputs = w->dims[1];
    p->group_outputs = w->dims[0] / p->groups;
    p->batch = x->dims[0];
    const int64_t *stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints,
                  *dilation = weft_node_attribute(node, WEFT_ATTR_dilation)->as.ints;
    const int64_t *base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints;
    const weft_dim *low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims;
    p->lines = 1;
    for (int d = 0; d < p->rank; d++) {
        p->axis[d] = (weft_convolution_axis){.kernel = w->dims[d + 2],
                                             .stride = stride[d],
                                             .dilation = dilation[d],
                                             .base_dilation = base[d],
                                             .low = low[d],
                                             .input = x->dims[d + 2],
                                             .output = y->dims[d + 2]};
        p->taps *= w->dims[d + 2];
        if (d < p->rank - 1) p->lines = weft_dim_multiply(request->graph->dims, p->lines, y->dims[d + 2]);
    }
    p->line = y->dims[x->rank - 1];
    int lanes = request->capability->vector_bytes / (weft_dtype_bits(p->accumulate) / 8);
    p->direct = is_direct(request, p);
    if (p->direct) {
        p->line = weft_dim_multiply(request->graph->dims, p->lines, p->line);
        p->lines = 1;
    } else {
        lay_out(request, p, lanes);
    }
    p->w_direct = reads_w_in_place(request, p);
    return true;
}
