/* The value of any node of a fusion at an index, as kernel IR: the heart of every builder.

   A builder makes loops and says where it is (one lane index per axis of the value it wants); the evaluator walks the
   region backwards from that value to the operands, transforming the index on the way (tinygrad and Halide work like
   this), and emits loads and arithmetic. Values wanted twice at the same index are emitted once.

       weft_index_context c;
       WEFT_TRY(weft_index_init(request, kernel, &c), "...");           // one buffer per operand in use and per result
       weft_lane_index at[2] = {weft_lane_scalar(row), weft_lane_range(column, vector_is_multiple_of)};
       weft_kval value = weft_index_value(&c, weft_fusion_yield(fusion, 0), at, lanes, mask);
       weft_index_store(&c, 0, at, lanes, mask, value);
       return weft_index_finish(&c);                                      // the first problem, or the verifier's

   Carriers. In registers a value of dtype T has the element type weft_index_carrier(T): F32 for f16, bf16, f8 and f4
   (each op computes in F32 and rounds to T, so a carrier always holds a number of T), I8 and U8 for the 4- and 2-bit
   integers (wrapped to their width), BOOL predicates, a pair of F32 or F64 for complex, otherwise T itself.

   Masks. The caller's mask switches off trailing lanes only: lane 0 of an index is always inside the value's shape.
   Lanes that are off hold anything.

   Scopes. What was emitted inside a for, if or while is not visible after its end: take a mark when the nest opens and
   release it before the end. Values evaluated before the nest stay known inside (that is how invariants are hoisted).

   Ops: every elementwise op of the core, compare, select, convert, bitcast, constant, iota, dim, reshape, transpose,
   broadcast, slice, reverse, pad, concat, dynamic_slice, dynamic_update_slice, gather, complex/real/imag, rng_bits; and
   reduce, arg_reduce and reduce_window as loops in place unless bound. Everything else must be bound.
   Errors: problems are sticky in the context; weft_index_finish returns the first. Thread-compatible.
   Read next: index_internal.h, index.c, index_point.c, collapse.c, index_memory.c, index_move.c, index_math.c,
   index_reduce.c. */
#ifndef WEFT_CODEGEN_BUILDERS_INDEX_H
#define WEFT_CODEGEN_BUILDERS_INDEX_H

#include "codegen/builders/builder.h"
#include "codegen/kernel/build.h"

/* One axis of an index for all lanes: lane l is at base + l * stride. */
typedef struct weft_lane_index {
    weft_kval base; /* scalar of the kernel's index dtype; or a vector of one index per lane, stride then unused */
    int64_t stride;
    int64_t divisor; /* base is known to be a multiple of this; 0 or 1: nothing known */
} weft_lane_index;

/* All lanes at the same place. */
static inline weft_lane_index weft_lane_scalar(weft_kval base) { return (weft_lane_index){base, 0, 1}; }
/* Lanes side by side from base, a multiple of divisor. */
static inline weft_lane_index weft_lane_range(weft_kval base, int64_t divisor) {
    return (weft_lane_index){base, 1, divisor};
}

typedef struct weft_index_context {
    const weft_build_request *request;
    weft_graph *graph;
    weft_kernel *kernel;
    weft_arena *arena;
    const weft_node *fusion;
    weft_kval *operands;              /* buffers by operand number; WEFT_KNONE when the region does not use it */
    weft_kval *results;               /* buffers by result number */
    struct weft_index_entry *entries; /* evaluated and bound values, newest last */
    size_t entry_count, entry_capacity;
    struct weft_index_merge *merges; /* axis analysis: collapse.c */
    size_t merge_count, merge_capacity;
    weft_status problem; /* owned until finish */
    int nest;            /* of evaluation: catches regions that are too deep */
} weft_index_context;

/* Makes the kernel's buffer arguments: operands that the region uses, then results. Everything the context allocates
   lives in request->arena. */
weft_status weft_index_init(const weft_build_request *request, weft_kernel *kernel,
                            weft_index_context *out_context) WEFT_MUST_USE;
/* The first problem, else weft_kernel_verify. Call it once, at the end of the kernel. */
weft_status weft_index_finish(weft_index_context *c) WEFT_MUST_USE;

/* Has this op a value at an index without being bound? */
bool weft_index_has_value(weft_op op);

/* The value that result `index` of a fusion yields. */
const weft_value *weft_fusion_yield(const weft_node *fusion, int index);
/* Its region's block. */
const weft_block *weft_fusion_block(const weft_node *fusion);

/* Element type of registers that hold values of this dtype (of one part, for complex). */
weft_dtype weft_index_carrier(weft_dtype dtype);
/* Rounds or wraps a carrier to a number of dtype: an F32 accumulator that becomes a bf16 result. */
weft_kval weft_index_round(weft_index_context *c, weft_dtype dtype, weft_kval value);

/* value at index (rank entries), `lanes` lanes; mask: BOOL with `lanes` lanes or WEFT_KNONE. The carrier of its dtype.
 */
weft_kval weft_index_value(weft_index_context *c, const weft_value *value, const weft_lane_index *index, int lanes,
                           weft_kval mask);
/* The same at a row-major position: no axes are computed unless an op asks for them. */
weft_kval weft_index_value_flat(weft_index_context *c, const weft_value *value, weft_lane_index position, int lanes,
                                weft_kval mask);

/* From here to the release of the enclosing mark, `value` is `registers` wherever it is asked for: an epilogue's
   accumulator, a finished reduction. registers: carrier of its dtype, already rounded; a scalar serves all lanes. */
void weft_index_bind(weft_index_context *c, const weft_value *value, weft_kval registers);
/* Bound only where it is asked at this very index (the same kernel values): a row kept in scratch. */
void weft_index_bind_at(weft_index_context *c, const weft_value *value, const weft_lane_index *index, int lanes,
                        weft_kval mask, weft_kval registers);
size_t weft_index_mark(const weft_index_context *c);
/* Ten rounds of Philox 4x32 (index_random.c) over u32 words, in place; key: two words. */
void weft_index_philox(weft_kernel *k, const weft_kval *key, weft_kval *counter);
void weft_index_release(weft_index_context *c, size_t mark);

/* Stores a carrier as result `result` of the fusion at index. 4- and 2-bit types: lanes must fill whole bytes and the
   row-major position of lane 0 be a multiple of the elements per byte. */
void weft_index_store(weft_index_context *c, int result, const weft_lane_index *index, int lanes, weft_kval mask,
                      weft_kval value);
void weft_index_store_flat(weft_index_context *c, int result, weft_lane_index position, int lanes, weft_kval mask,
                           weft_kval value);
/* Evaluates what result `result` yields at index and stores it, complex included. */
void weft_index_emit(weft_index_context *c, int result, const weft_lane_index *index, int lanes, weft_kval mask);
void weft_index_emit_flat(weft_index_context *c, int result, weft_lane_index position, int lanes, weft_kval mask);
/* The same where the caller knows both the index and its row-major position: lanes may cross the end of an axis and
   still lie side by side in memory. */
void weft_index_emit_known(weft_index_context *c, int result, const weft_lane_index *index, weft_lane_index position,
                           int lanes, weft_kval mask);

/* Bit i: axes i and i + 1 of value may be counted as one: everything below it is indifferent. Then an index may hold
   the position in the whole run at its last axis longer than 1, and 0 elsewhere: weft_index_unflatten_merged makes
   such. */
uint32_t weft_index_mergeable(weft_index_context *c, const weft_value *value);

/* Loads operand-like memory: buffer (operand, result, temporary or shared of dtype's storage) at a row-major position.
 */
weft_kval weft_index_load(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_lane_index position,
                          int lanes, weft_kval mask);
void weft_index_store_buffer(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_lane_index position,
                             int lanes, weft_kval mask, weft_kval value);
/* Element type of buffers that store dtype: U8 for the 4- and 2-bit types, F32 and F64 (two per element) for complex.
 */
weft_dtype weft_index_storage(weft_dtype dtype);

/* lane < limit for lanes at index: BOOL with `lanes` lanes. */
weft_kval weft_index_below(weft_index_context *c, weft_lane_index index, int lanes, weft_kval limit);
/* Row-major position of an index in a shape. */
weft_lane_index weft_index_position(weft_index_context *c, int rank, const weft_dim *dims, const weft_lane_index *index,
                                    int lanes);
/* The axes of a row-major position. */
void weft_index_unflatten(weft_index_context *c, int rank, const weft_dim *dims, weft_lane_index position, int lanes,
                          weft_lane_index *out_index);
/* The same, runs of merged axes left whole. */
void weft_index_unflatten_merged(weft_index_context *c, int rank, const weft_dim *dims, uint32_t merge,
                                 weft_lane_index position, int lanes, weft_lane_index *out_index);

#endif
