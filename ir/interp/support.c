/* The shared helpers of interp.h: elements in blocks, strided copies, reductions. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

/* -- extents and tensors */

int weft_interp_unbound(const weft_interpreter *interpreter, weft_dim dim) {
    if (weft_dim_is_number(dim) || dim == WEFT_DIM_INVALID || dim == WEFT_DIM_ANY) return -1;
    weft_dim_node node = weft_dim_get(interpreter->graph->dims, dim);
    if (node.kind == WEFT_DIM_NUMBER) return -1;
    if (node.kind == WEFT_DIM_SYMBOL) {
        bool bound = node.a < interpreter->symbol_count && interpreter->symbols[node.a] != WEFT_SYMBOL_UNBOUND;
        return bound ? -1 : (int)node.a;
    }
    int first = weft_interp_unbound(interpreter, node.a);
    return first >= 0 ? first : weft_interp_unbound(interpreter, node.b);
}

weft_status weft_interp_extent(const weft_interpreter *interpreter, weft_dim dim, int64_t *out_value) {
    *out_value = dim;
    if (weft_dim_is_number(dim)) return NULL;
    int symbol = weft_interp_unbound(interpreter, dim);
    if (symbol >= 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "no input and no earlier node binds symbol %s",
                           weft_dim_symbol_get(interpreter->graph->dims, symbol)->name);
    if (!weft_dim_evaluate(interpreter->graph->dims, dim, interpreter->symbols, out_value))
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "an extent overflows");
    return NULL;
}

weft_status weft_interp_extents(const weft_interpreter *interpreter, const weft_node *node, weft_attribute_name name,
                                int64_t *out_values) {
    const weft_attribute *attribute = weft_node_attribute(node, name);
    for (int i = 0; i < attribute->count; i++)
        WEFT_TRY(weft_interp_extent(interpreter, attribute->as.dims[i], &out_values[i]), "attribute %s",
                 weft_attribute_string(name));
    return NULL;
}

weft_status weft_interpret_shape(const weft_interpreter *interpreter, const weft_type *type, int64_t *out_shape) {
    for (int i = 0; i < type->rank; i++) {
        WEFT_TRY(weft_interp_extent(interpreter, type->dims[i], &out_shape[i]), "axis %d", i);
        if (out_shape[i] < 0)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "axis %d has the extent %lld", i, (long long)out_shape[i]);
    }
    return NULL;
}

weft_status weft_interp_tensor(const weft_interpreter *interpreter, const weft_type *type, weft_tensor **out_tensor) {
    int64_t shape[WEFT_MAX_RANK];
    *out_tensor = NULL;
    WEFT_TRY(weft_interpret_shape(interpreter, type, shape), "result shape");
    return weft_tensor_create(interpreter->graph->context, type->dtype, type->rank, shape, out_tensor);
}

weft_status weft_interp_result(const weft_interpreter *interpreter, const weft_node *node, int i,
                               weft_tensor **out_tensor) {
    return weft_interp_tensor(interpreter, &node->results[i].type, out_tensor);
}

weft_status weft_interp_scratch(const weft_interpreter *interpreter, int64_t count, size_t item_bytes,
                                void **out_memory) {
    size_t bytes;
    *out_memory = weft_size_multiply((size_t)count, item_bytes, &bytes)
                      ? weft_allocate(interpreter->graph->context->allocator, bytes)
                      : NULL;
    return *out_memory ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %lld elements", (long long)count);
}

void weft_interp_scratch_free(const weft_interpreter *interpreter, int64_t count, size_t item_bytes, void *memory) {
    weft_free(interpreter->graph->context->allocator, memory, (size_t)count * item_bytes);
}

/* -- blocks of elements */

weft_interp_domain weft_interp_domain_of(weft_dtype dtype) {
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_FLOAT) return WEFT_DOMAIN_FLOAT;
    return weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX ? WEFT_DOMAIN_COMPLEX : WEFT_DOMAIN_INTEGER;
}

void weft_interp_load_f64(weft_dtype dtype, const void *data, int64_t start, int64_t count, double *out) {
    if (dtype == WEFT_F32) {
        const float *p = (const float *)data + start;
        for (int64_t i = 0; i < count; i++) out[i] = (double)p[i];
    } else if (dtype == WEFT_F64) {
        memcpy(out, (const double *)data + start, (size_t)count * sizeof *out);
    } else {
        for (int64_t i = 0; i < count; i++) out[i] = weft_element_double(dtype, data, start + i);
    }
}

void weft_interp_store_f64(weft_dtype dtype, void *data, int64_t start, int64_t count, const double *values) {
    if (dtype == WEFT_F32) {
        float *p = (float *)data + start;
        for (int64_t i = 0; i < count; i++) p[i] = (float)values[i];
    } else if (dtype == WEFT_F64) {
        memcpy((double *)data + start, values, (size_t)count * sizeof *values);
    } else {
        for (int64_t i = 0; i < count; i++) weft_element_set_double(dtype, data, start + i, values[i]);
    }
}

void weft_interp_load_i64(weft_dtype dtype, const void *data, int64_t start, int64_t count, int64_t *out) {
    if (dtype == WEFT_I64) {
        memcpy(out, (const int64_t *)data + start, (size_t)count * sizeof *out);
    } else if (dtype == WEFT_BOOL) {
        for (int64_t i = 0; i < count; i++) out[i] = ((const unsigned char *)data)[start + i] != 0;
    } else {
        for (int64_t i = 0; i < count; i++) out[i] = weft_element_i64(dtype, data, start + i);
    }
}

void weft_interp_store_i64(weft_dtype dtype, void *data, int64_t start, int64_t count, const int64_t *values) {
    if (dtype == WEFT_I64) {
        memcpy((int64_t *)data + start, values, (size_t)count * sizeof *values);
    } else {
        for (int64_t i = 0; i < count; i++) weft_element_set_i64(dtype, data, start + i, values[i]);
    }
}

weft_complex weft_interp_load_complex(weft_dtype dtype, const void *data, int64_t index) {
    weft_dtype part = dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    return (weft_complex){weft_element_double(part, data, 2 * index), weft_element_double(part, data, 2 * index + 1)};
}

void weft_interp_store_complex(weft_dtype dtype, void *data, int64_t index, weft_complex value) {
    weft_dtype part = dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    weft_element_set_double(part, data, 2 * index, value.re);
    weft_element_set_double(part, data, 2 * index + 1, value.im);
}

int64_t weft_interp_index(const weft_tensor *tensor, int64_t index) {
    int64_t value = weft_element_i64(tensor->dtype, tensor->data, index);
    return tensor->dtype == WEFT_U64 && value < 0 ? INT64_MAX : value;
}

int64_t weft_interp_wrap(weft_dtype dtype, int64_t value) {
    int64_t cell = 0;
    weft_element_set_i64(dtype, &cell, 0, value);
    return weft_element_i64(dtype, &cell, 0);
}

bool weft_interp_less_i64(weft_dtype dtype, int64_t a, int64_t b) {
    return dtype == WEFT_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

/* -- strided copies */

int64_t weft_interp_count(int rank, const int64_t *shape) {
    int64_t count = 1; /* no overflow: shapes of existing tensors */
    for (int i = 0; i < rank; i++) count *= shape[i];
    return count;
}

bool weft_interp_next(int rank, const int64_t *shape, int64_t *index) {
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < shape[i]) return true;
        index[i] = 0;
    }
    return false;
}

weft_view weft_interp_view(const weft_tensor *tensor) {
    weft_view view = {0};
    memcpy(view.strides, tensor->strides, (size_t)tensor->rank * sizeof *view.strides);
    return view;
}

/* One row of whole-byte elements. */
static void copy_row(size_t bytes, int64_t count, const unsigned char *src, int64_t src_stride, unsigned char *dst,
                     int64_t dst_stride) {
    if (src_stride == 1 && dst_stride == 1) {
        memcpy(dst, src, (size_t)count * bytes);
        return;
    }
    ptrdiff_t from = (ptrdiff_t)src_stride * (ptrdiff_t)bytes, to = (ptrdiff_t)dst_stride * (ptrdiff_t)bytes;
    switch (bytes) { /* constant sizes become plain moves */
    case 1:
        for (int64_t i = 0; i < count; i++, src += from, dst += to) *dst = *src;
        return;
    case 4:
        for (int64_t i = 0; i < count; i++, src += from, dst += to) memcpy(dst, src, 4);
        return;
    case 8:
        for (int64_t i = 0; i < count; i++, src += from, dst += to) memcpy(dst, src, 8);
        return;
    default:
        for (int64_t i = 0; i < count; i++, src += from, dst += to) memcpy(dst, src, bytes);
    }
}

void weft_interp_copy(weft_dtype dtype, int rank, const int64_t *shape, const void *src, const weft_view *from,
                      void *dst, const weft_view *to) {
    if (weft_interp_count(rank, shape) == 0) return;
    int bits = weft_dtype_bits(dtype), outer = rank > 0 ? rank - 1 : 0;
    int64_t inner = rank > 0 ? shape[outer] : 1, index[WEFT_MAX_RANK] = {0};
    int64_t from_stride = rank > 0 ? from->strides[outer] : 1, to_stride = rank > 0 ? to->strides[outer] : 1;
    do {
        int64_t a = from->offset, b = to->offset;
        for (int i = 0; i < outer; i++) {
            a += index[i] * from->strides[i];
            b += index[i] * to->strides[i];
        }
        if (bits >= 8) {
            size_t bytes = (size_t)bits / 8;
            copy_row(bytes, inner, (const unsigned char *)src + a * (int64_t)bytes, from_stride,
                     (unsigned char *)dst + b * (int64_t)bytes, to_stride);
        } else {
            for (int64_t i = 0; i < inner; i++)
                weft_element_set_bits(dtype, dst, b + i * to_stride,
                                      weft_element_bits(dtype, src, a + i * from_stride));
        }
    } while (weft_interp_next(outer, shape, index));
}

/* -- reductions */

weft_reduction weft_interp_reduction(const weft_node *node) {
    static const struct {
        const char *name;
        weft_reduction kind;
    } kinds[] = {{"sum", WEFT_REDUCTION_SUM}, {"product", WEFT_REDUCTION_PRODUCT}, {"max", WEFT_REDUCTION_MAX},
                 {"min", WEFT_REDUCTION_MIN}, {"and", WEFT_REDUCTION_AND},         {"or", WEFT_REDUCTION_OR},
                 {"set", WEFT_REDUCTION_SET}};
    const char *name = weft_node_string(node, WEFT_ATTR_kind, "sum");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) return kinds[i].kind;
    return WEFT_REDUCTION_SUM; /* infer hooks accept no other names */
}

double weft_interp_identity_f64(weft_reduction kind, weft_dtype dtype) {
    if (kind == WEFT_REDUCTION_PRODUCT) return 1;
    if (kind != WEFT_REDUCTION_MAX && kind != WEFT_REDUCTION_MIN) return 0;
    double highest = weft_float_decode(dtype, weft_float_encode(dtype, (double)INFINITY, false));
    if (isnan(highest)) highest = weft_float_decode(dtype, weft_float_encode(dtype, (double)INFINITY, true));
    if (isnan(highest)) highest = 0x1p127; /* f8e8m0fnu */
    if (kind == WEFT_REDUCTION_MIN) return highest;
    return dtype == WEFT_F8E8M0FNU ? 0x1p-127 : -highest;
}

int64_t weft_interp_identity_i64(weft_reduction kind, weft_dtype dtype) {
    int bits = dtype == WEFT_BOOL ? 1 : weft_dtype_bits(dtype);
    bool is_signed = weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED;
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    switch (kind) {
    case WEFT_REDUCTION_PRODUCT: return 1;
    case WEFT_REDUCTION_AND: return is_signed ? -1 : (int64_t)ones;
    case WEFT_REDUCTION_MAX: return is_signed ? -(int64_t)(ones >> 1) - 1 : 0;
    case WEFT_REDUCTION_MIN: return is_signed ? (int64_t)(ones >> 1) : (int64_t)ones;
    case WEFT_REDUCTION_SUM:
    case WEFT_REDUCTION_OR:
    case WEFT_REDUCTION_SET: return 0;
    }
    return 0;
}

bool weft_interp_rounds(const weft_interpreter *interpreter, weft_dtype dtype) {
    return interpreter->mode == WEFT_INTERPRET_ROUNDED && dtype != WEFT_F64 && dtype != WEFT_C128;
}

double weft_interp_maximum(double a, double b) {
    if (isnan(a) || isnan(b)) return (double)NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

double weft_interp_minimum(double a, double b) {
    if (isnan(a) || isnan(b)) return (double)NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

double weft_interp_combine_f64(weft_reduction kind, bool round, double a, double b) {
    double result = b;
    switch (kind) {
    case WEFT_REDUCTION_SUM: result = a + b; break;
    case WEFT_REDUCTION_PRODUCT: result = a * b; break;
    case WEFT_REDUCTION_MAX: return weft_interp_maximum(a, b);
    case WEFT_REDUCTION_MIN: return weft_interp_minimum(a, b);
    case WEFT_REDUCTION_AND:
    case WEFT_REDUCTION_OR:
    case WEFT_REDUCTION_SET: return b;
    }
    return round ? (double)(float)result : result;
}

int64_t weft_interp_combine_i64(weft_reduction kind, weft_dtype dtype, int64_t a, int64_t b) {
    switch (kind) {
    case WEFT_REDUCTION_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
    case WEFT_REDUCTION_PRODUCT: return (int64_t)((uint64_t)a * (uint64_t)b);
    case WEFT_REDUCTION_MAX: return weft_interp_less_i64(dtype, a, b) ? b : a;
    case WEFT_REDUCTION_MIN: return weft_interp_less_i64(dtype, b, a) ? b : a;
    case WEFT_REDUCTION_AND: return a & b;
    case WEFT_REDUCTION_OR: return a | b;
    case WEFT_REDUCTION_SET: return b;
    }
    return b;
}

weft_complex weft_interp_combine_complex(weft_reduction kind, weft_complex a, weft_complex b) {
    if (kind == WEFT_REDUCTION_SUM) return (weft_complex){a.re + b.re, a.im + b.im};
    if (kind == WEFT_REDUCTION_PRODUCT) return (weft_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    return b;
}
