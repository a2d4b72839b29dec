/* Between the files of the index evaluator. A point is where a value is wanted: its axes, or its row-major position, or
   both; whichever half is missing is computed when an op asks for it. Masks travel apart, because they mean different
   things to an access that does not depend on the lane: `edge` never matters to it (lane 0 is always inside), `scalar`
   always does, `vector` guards axes that depend on the lane. Read next: index.c. */
#ifndef WEFT_CODEGEN_BUILDERS_INDEX_INTERNAL_H
#define WEFT_CODEGEN_BUILDERS_INDEX_INTERNAL_H

#include "codegen/builders/index.h"

/* A value in registers: two parts for complex; else part[1] is WEFT_KNONE. A scalar serves all lanes. */
typedef struct weft_parts {
    weft_kval part[2];
} weft_parts;

typedef struct weft_point {
    int rank, lanes;
    const weft_dim *dims;
    uint32_t merge; /* of the value at this point: weft_index_mergeable; axes are computed up to that */
    bool has_axes, has_flat;
    weft_lane_index axis[WEFT_MAX_RANK];
    weft_lane_index flat;
    weft_kval edge, scalar, vector; /* masks, WEFT_KNONE = all on */
} weft_point;

typedef struct weft_index_entry {
    const weft_value *value; /* NULL: index arithmetic, op(a, b) */
    bool anywhere;           /* bound at every index */
    weft_point at;
    weft_kop op;
    weft_kval a, b;
    weft_parts parts;
} weft_index_entry;

static inline weft_parts weft_parts_one(weft_kval value) { return (weft_parts){{value, WEFT_KNONE}}; }

/* index.c */
void weft_index_problem(weft_index_context *c, weft_code code, const char *format, ...) WEFT_PRINTF(3, 4);
weft_parts weft_index_evaluate(weft_index_context *c, const weft_value *value, weft_point point);
/* The only part of a value that is not complex. */
weft_kval weft_index_one(weft_index_context *c, const weft_value *value, const weft_point *point);
weft_index_entry *weft_index_push(weft_index_context *c);
weft_kval weft_index_zero(weft_index_context *c, weft_dtype carrier);
weft_parts weft_parts_splat(weft_index_context *c, weft_parts parts, int lanes);

/* index_point.c */
weft_kval weft_ix(weft_index_context *c, weft_kop op, weft_kval a, weft_kval b); /* index arithmetic, each once */
weft_kval weft_ix_extent(weft_index_context *c, weft_dim extent);
weft_kval weft_lane_vector(weft_index_context *c, weft_lane_index index,
                           int lanes); /* one index per lane; 1 lane: scalar */
bool weft_lane_invariant(const weft_index_context *c, weft_lane_index index, int lanes);
bool weft_lane_is_vector(const weft_index_context *c, weft_lane_index index);
weft_lane_index weft_lane_constant(weft_index_context *c, int64_t value);
weft_lane_index weft_lane_add(weft_index_context *c, weft_lane_index a, weft_lane_index b, int lanes);
weft_lane_index weft_lane_multiply(weft_index_context *c, weft_lane_index a, weft_dim factor, int lanes);
weft_lane_index weft_lane_negate(weft_index_context *c, weft_lane_index a);
weft_lane_index weft_lane_divide(weft_index_context *c, weft_lane_index a, weft_dim divisor, int lanes, int64_t limit);
weft_lane_index weft_lane_modulo(weft_index_context *c, weft_lane_index a, weft_dim divisor, int lanes, int64_t limit);
int64_t weft_lane_divisor(const weft_index_context *c, weft_lane_index index); /* as a gcd: 0 = of everything */
void weft_point_axes(weft_index_context *c, weft_point *point);
void weft_point_flat(weft_index_context *c, weft_point *point);
bool weft_point_invariant(const weft_index_context *c, const weft_point *point);
/* All masks as one with `lanes` lanes (1 lane: scalar); WEFT_KNONE when everything is on. */
weft_kval weft_point_mask(weft_index_context *c, const weft_point *point, int lanes);
/* Adds a condition of 1 lane or of the point's lanes. */
void weft_point_restrict(weft_index_context *c, weft_point *point, weft_kval condition);
/* The same place in a value of another shape, axes to be filled in. */
weft_point weft_point_like(const weft_point *point, const weft_type *type);
weft_kval weft_lane_compare(weft_index_context *c, weft_kop op, weft_lane_index index, weft_kval limit, int lanes);

/* index_memory.c */
weft_parts weft_index_load_point(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_point point);
void weft_index_store_point(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_point point,
                            weft_parts value);
int64_t weft_index_float_limit(weft_dtype dtype, double *out_maximum);
weft_kval weft_index_to_bits(weft_index_context *c, weft_dtype dtype, weft_kval value);
weft_kval weft_index_from_bits(weft_index_context *c, weft_dtype dtype, weft_kval bits);

/* index_math.c: elementwise ops on carriers */
weft_parts weft_index_elementwise(weft_index_context *c, const weft_node *node, const weft_point *point);
weft_kval weft_index_binary(weft_index_context *c, weft_op op, weft_dtype dtype, weft_kval a, weft_kval b);
weft_kval weft_index_compare(weft_index_context *c, const char *direction, weft_dtype dtype, weft_kval a, weft_kval b);
weft_parts weft_index_convert(weft_index_context *c, weft_dtype from, weft_dtype to, bool saturate, weft_parts value);
weft_kval weft_index_select(weft_index_context *c, weft_kval mask, weft_kval a, weft_kval b);

/* index_coarse.c: where a fast approximation is as good as rounding */
bool weft_index_exp_is_coarse(const weft_index_context *c, const weft_node *exp);
bool weft_index_quotient_is_coarse(const weft_index_context *c, const weft_node *div);
/* a / b for a scalar b, within 2 units of f32. */
weft_kval weft_index_divide_by_scalar(weft_index_context *c, weft_kval a, weft_kval b);

/* index_move.c, index_gather.c: ops that move elements */
weft_parts weft_index_constant(weft_index_context *c, const weft_node *node, weft_point *point);
weft_parts weft_index_move(weft_index_context *c, const weft_node *node, weft_point *point);
weft_parts weft_index_gather(weft_index_context *c, const weft_node *node, weft_point *point);
weft_parts weft_index_dynamic_slice(weft_index_context *c, const weft_node *node, weft_point *point);
weft_parts weft_index_dynamic_update_slice(weft_index_context *c, const weft_node *node, weft_point *point);
/* condition ? yes at its point : no at its point; reads only where it must. */
typedef struct weft_choice {
    const weft_value *value;
    weft_point point;
} weft_choice;
weft_parts weft_index_choose(weft_index_context *c, weft_kval condition, int lanes, const weft_choice *yes,
                             const weft_choice *no);

/* index_reduce.c: loops in place */
weft_parts weft_index_reduce(weft_index_context *c, const weft_node *node, weft_point *point);
weft_parts weft_index_reduce_window(weft_index_context *c, const weft_node *node, weft_point *point);
weft_parts weft_index_arg_reduce(weft_index_context *c, const weft_node *node, weft_point *point);
/* Combines two carriers of dtype: kind sum product max min and or. No rounding to dtype. */
weft_kval weft_index_combine(weft_index_context *c, const char *kind, weft_dtype dtype, weft_kval a, weft_kval b);
weft_parts weft_index_combine_parts(weft_index_context *c, const char *kind, weft_dtype dtype, weft_parts a,
                                    weft_parts b);
weft_kval weft_index_identity(weft_index_context *c, const char *kind, weft_dtype dtype, int lanes);
weft_kval weft_index_combine_lanes(weft_index_context *c, const char *kind, weft_dtype dtype, weft_kval vector);

/* index_random.c */
weft_parts weft_index_rng_bits(weft_index_context *c, const weft_node *node, weft_point *point);

#endif
