/* Arithmetic on lane indices and points. Affine stays affine: only what cannot be written as base + lane * stride
   becomes a vector of indices. Invariant: index arithmetic is emitted once per scope (the context remembers op(a, b)).
   Read next: index_memory.c. */
#include "codegen/builders/index_internal.h"

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

weft_kval weft_ix(weft_index_context *c, weft_kop op, weft_kval a, weft_kval b) {
    weft_kernel *k = c->kernel;
    for (size_t i = c->entry_count; i-- > 0;) {
        const weft_index_entry *entry = &c->entries[i];
        if (!entry->value && entry->op == op && entry->a == a && entry->b == b) return entry->parts.part[0];
    }
    weft_kval result = b == WEFT_KNONE ? weft_k_unary(k, op, a) : weft_k_binary(k, op, a, b);
    int64_t number;
    if (result == a || result == b || weft_k_is_constant(k, result, &number)) return result;
    weft_index_entry *entry = weft_index_push(c);
    if (entry) {
        entry->op = op;
        entry->a = a;
        entry->b = b;
        entry->parts = weft_parts_one(result);
    }
    return result;
}

/* Extents are remembered as op constant with the extent's id split over a and b. */
weft_kval weft_ix_extent(weft_index_context *c, weft_dim extent) {
    if (weft_dim_is_number(extent)) return weft_k_index(c->kernel, extent);
    weft_dim_node node = weft_dim_get(c->graph->dims, extent);
    if (node.kind == WEFT_DIM_NUMBER) return weft_k_index(c->kernel, node.number);
    weft_kval low = (weft_kval)(uint32_t)(uint64_t)extent, high = (weft_kval)(uint32_t)((uint64_t)extent >> 32);
    for (size_t i = c->entry_count; i-- > 0;) {
        const weft_index_entry *entry = &c->entries[i];
        if (!entry->value && entry->op == WEFT_K_scalar_argument && entry->a == low && entry->b == high)
            return entry->parts.part[0];
    }
    weft_kval result = weft_k_extent(c->kernel, extent);
    weft_index_entry *entry = weft_index_push(c);
    if (entry) {
        entry->op = WEFT_K_scalar_argument;
        entry->a = low;
        entry->b = high;
        entry->parts = weft_parts_one(result);
    }
    return result;
}

bool weft_lane_is_vector(const weft_index_context *c, weft_lane_index index) {
    return weft_ktype_of(c->kernel, index.base).lanes > 1;
}

bool weft_lane_invariant(const weft_index_context *c, weft_lane_index index, int lanes) {
    return lanes == 1 || (index.stride == 0 && !weft_lane_is_vector(c, index));
}

int64_t weft_lane_divisor(const weft_index_context *c, weft_lane_index index) {
    int64_t number;
    if (weft_k_is_constant(c->kernel, index.base, &number)) return number < 0 ? -number : number;
    return index.divisor > 0 ? index.divisor : 1;
}

weft_lane_index weft_lane_constant(weft_index_context *c, int64_t value) {
    return weft_lane_scalar(weft_k_index(c->kernel, value));
}

weft_kval weft_lane_vector(weft_index_context *c, weft_lane_index index, int lanes) {
    weft_kernel *k = c->kernel;
    if (lanes == 1 || weft_lane_is_vector(c, index)) return index.base;
    weft_kval base = weft_k_splat(k, index.base, lanes);
    if (index.stride == 0) return base;
    weft_dtype dtype = k->capability->index_dtype;
    weft_kval step = weft_k_iota(k, dtype, lanes);
    if (index.stride != 1) step = weft_k_mul(k, step, weft_k_splat(k, weft_k_index(k, index.stride), lanes));
    return weft_k_add(k, base, step);
}

/* Keeps a divisor positive: 0 (of everything) becomes a large power of two. */
static int64_t divisor_of(int64_t value) { return value == 0 ? (int64_t)1 << 30 : value; }

weft_lane_index weft_lane_add(weft_index_context *c, weft_lane_index a, weft_lane_index b, int lanes) {
    int64_t divisor = divisor_of(gcd(weft_lane_divisor(c, a), weft_lane_divisor(c, b)));
    if (weft_lane_is_vector(c, a) || weft_lane_is_vector(c, b))
        return (weft_lane_index){weft_k_add(c->kernel, weft_lane_vector(c, a, lanes), weft_lane_vector(c, b, lanes)), 0,
                                 1};
    return (weft_lane_index){weft_ix(c, WEFT_K_add, a.base, b.base), a.stride + b.stride, divisor};
}

weft_lane_index weft_lane_multiply(weft_index_context *c, weft_lane_index a, weft_dim factor, int lanes) {
    if (factor == 1) return a;
    weft_kernel *k = c->kernel;
    int64_t known = weft_dim_divisor(c->graph->dims, factor), divisor = weft_lane_divisor(c, a);
    if (__builtin_mul_overflow(known, divisor, &divisor)) divisor = known;
    divisor = divisor_of(divisor);
    weft_kval extent = weft_ix_extent(c, factor);
    bool vector = weft_lane_is_vector(c, a);
    if (!vector && weft_dim_is_number(factor))
        return (weft_lane_index){weft_ix(c, WEFT_K_mul, a.base, extent), a.stride * factor, divisor};
    if (!vector && (a.stride == 0 || lanes == 1))
        return (weft_lane_index){weft_ix(c, WEFT_K_mul, a.base, extent), 0, divisor};
    weft_kval wide = weft_lane_vector(c, a, lanes);
    return (weft_lane_index){weft_k_mul(k, wide, weft_k_splat(k, extent, lanes)), 0, 1};
}

weft_lane_index weft_lane_negate(weft_index_context *c, weft_lane_index a) {
    int lanes = weft_ktype_of(c->kernel, a.base).lanes;
    weft_kval zero = weft_k_index(c->kernel, 0);
    if (lanes > 1) return (weft_lane_index){weft_k_sub(c->kernel, weft_k_splat(c->kernel, zero, lanes), a.base), 0, 1};
    return (weft_lane_index){weft_ix(c, WEFT_K_sub, zero, a.base), -a.stride, a.divisor};
}

/* Lanes base .. base + lanes - 1 never straddle a multiple of extent. */
static bool stays_inside(const weft_index_context *c, weft_lane_index a, weft_dim extent, int lanes) {
    if (weft_lane_is_vector(c, a) || a.stride != 1) return false;
    int64_t base = weft_lane_divisor(c, a), width = weft_dim_divisor(c->graph->dims, extent);
    return base % lanes == 0 && width % lanes == 0;
}

/* Vector division in 32 bits where the dividend's limit allows: twice the lanes, and far cheaper than 64. */
static weft_kval vector_divide(weft_index_context *c, weft_kop op, weft_lane_index a, weft_dim extent, int lanes,
                               int64_t limit) {
    weft_kernel *k = c->kernel;
    weft_kval wide = weft_lane_vector(c, a, lanes), by = weft_ix_extent(c, extent);
    bool narrow = k->capability->index_dtype == WEFT_I64 && limit < INT32_MAX / 2;
    if (!narrow) return weft_k_binary(k, op, wide, weft_k_splat(k, by, lanes));
    weft_kval result = weft_k_binary(k, op, weft_k_convert(k, wide, WEFT_I32),
                                     weft_k_splat(k, weft_k_convert(k, by, WEFT_I32), lanes));
    return weft_k_convert(k, result, WEFT_I64);
}

weft_lane_index weft_lane_divide(weft_index_context *c, weft_lane_index a, weft_dim extent, int lanes, int64_t limit) {
    if (extent == 1) return a;
    if (weft_lane_invariant(c, a, lanes) || stays_inside(c, a, extent, lanes)) {
        int64_t known = weft_dim_is_number(extent) ? extent : 0, divisor = weft_lane_divisor(c, a);
        divisor = known > 0 && divisor % known == 0 ? divisor_of(divisor / known) : 1;
        return (weft_lane_index){weft_ix(c, WEFT_K_div, a.base, weft_ix_extent(c, extent)), 0, divisor};
    }
    return (weft_lane_index){vector_divide(c, WEFT_K_div, a, extent, lanes, limit), 0, 1};
}

weft_lane_index weft_lane_modulo(weft_index_context *c, weft_lane_index a, weft_dim extent, int lanes, int64_t limit) {
    if (extent == 1) return weft_lane_constant(c, 0);
    bool invariant = weft_lane_invariant(c, a, lanes);
    if (invariant || stays_inside(c, a, extent, lanes)) {
        int64_t divisor = divisor_of(gcd(weft_lane_divisor(c, a), weft_dim_divisor(c->graph->dims, extent)));
        return (weft_lane_index){weft_ix(c, WEFT_K_rem, a.base, weft_ix_extent(c, extent)), invariant ? 0 : 1, divisor};
    }
    return (weft_lane_index){vector_divide(c, WEFT_K_rem, a, extent, lanes, limit), 0, 1};
}

void weft_index_unflatten(weft_index_context *c, int rank, const weft_dim *dims, weft_lane_index position, int lanes,
                          weft_lane_index *out_index) {
    weft_dim_table *table = c->graph->dims;
    weft_dim total = 1;
    int outermost = 0; /* the first axis longer than 1: it needs no modulo */
    while (outermost < rank - 1 && dims[outermost] == 1) outermost++;
    for (int i = 0; i < rank; i++) total = weft_dim_multiply(table, total, dims[i]);
    int64_t low, limit;
    weft_dim_bounds(table, total, &low, &limit);
    for (int i = rank - 1; i >= 0; i--) {
        if (dims[i] == 1 && i != outermost) {
            out_index[i] = weft_lane_constant(c, 0);
        } else if (i <= outermost) {
            out_index[i] = position;
        } else {
            out_index[i] = weft_lane_modulo(c, position, dims[i], lanes, limit);
            position = weft_lane_divide(c, position, dims[i], lanes, limit);
        }
    }
}

weft_lane_index weft_index_position(weft_index_context *c, int rank, const weft_dim *dims, const weft_lane_index *index,
                                    int lanes) {
    weft_lane_index position = weft_lane_constant(c, 0);
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 1) continue;
        position = weft_lane_add(c, weft_lane_multiply(c, position, dims[i], lanes), index[i], lanes);
    }
    return position;
}

void weft_index_unflatten_merged(weft_index_context *c, int rank, const weft_dim *dims, uint32_t merge,
                                 weft_lane_index position, int lanes, weft_lane_index *out_index) {
    weft_dim groups[WEFT_MAX_RANK] = {0};
    weft_lane_index index[WEFT_MAX_RANK];
    int count = 0, last[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++) {
        bool joins = i > 0 && (merge >> (i - 1) & 1);
        if (joins)
            groups[count - 1] = weft_dim_multiply(c->graph->dims, groups[count - 1], dims[i]);
        else
            groups[count++] = dims[i];
        if (!joins || dims[i] != 1) last[count - 1] = i;
        out_index[i] = weft_lane_constant(c, 0);
    }
    weft_index_unflatten(c, count, groups, position, lanes, index);
    for (int g = 0; g < count; g++) out_index[last[g]] = index[g];
}

void weft_point_axes(weft_index_context *c, weft_point *point) {
    if (point->has_axes) return;
    weft_index_unflatten_merged(c, point->rank, point->dims, point->merge, point->flat, point->lanes, point->axis);
    point->has_axes = true;
}

void weft_point_flat(weft_index_context *c, weft_point *point) {
    if (point->has_flat) return;
    point->flat = weft_index_position(c, point->rank, point->dims, point->axis, point->lanes);
    point->has_flat = true;
}

bool weft_point_invariant(const weft_index_context *c, const weft_point *point) {
    if (point->has_flat && weft_lane_invariant(c, point->flat, point->lanes)) return true;
    if (!point->has_axes) return point->rank == 0;
    for (int i = 0; i < point->rank; i++)
        if (!weft_lane_invariant(c, point->axis[i], point->lanes)) return false;
    return true;
}

static weft_kval both(weft_index_context *c, weft_kval a, weft_kval b) {
    if (a == WEFT_KNONE) return b;
    if (b == WEFT_KNONE) return a;
    return weft_ix(c, WEFT_K_and, a, b);
}

weft_kval weft_point_mask(weft_index_context *c, const weft_point *point, int lanes) {
    if (lanes == 1 && point->lanes > 1) return point->scalar;
    weft_kval mask = both(c, both(c, point->edge, point->vector), point->scalar);
    if (mask == WEFT_KNONE || weft_ktype_of(c->kernel, mask).lanes == lanes) return mask;
    return weft_k_splat(c->kernel, mask, lanes);
}

void weft_point_restrict(weft_index_context *c, weft_point *point, weft_kval condition) {
    bool scalar = weft_ktype_of(c->kernel, condition).lanes == 1;
    weft_kval *mask = scalar ? &point->scalar : &point->vector;
    *mask = both(c, *mask, condition);
}

weft_point weft_point_like(const weft_point *point, const weft_type *type) {
    weft_point result = *point;
    result.rank = type->rank;
    result.dims = type->dims;
    result.has_axes = true;
    result.has_flat = false;
    return result;
}

weft_kval weft_lane_compare(weft_index_context *c, weft_kop op, weft_lane_index index, weft_kval limit, int lanes) {
    if (weft_lane_invariant(c, index, lanes)) return weft_ix(c, op, index.base, limit);
    weft_kval wide = weft_lane_vector(c, index, lanes);
    return weft_k_binary(c->kernel, op, wide, weft_k_splat(c->kernel, limit, lanes));
}

weft_kval weft_index_below(weft_index_context *c, weft_lane_index index, int lanes, weft_kval limit) {
    weft_kval mask = weft_lane_compare(c, WEFT_K_lt, index, limit, lanes);
    return weft_ktype_of(c->kernel, mask).lanes == lanes ? mask : weft_k_splat(c->kernel, mask, lanes);
}
