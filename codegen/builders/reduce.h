/* Between the files of the "reduce" builder: what a reduction fusion is, taken apart once.

   All reduce ops of the region read values of one shape X and drop the same axes. Neighbouring axes of X that every
   access treats as one are merged, never across kept and reduced. The last group of axes carries the lanes:
   - reduced (rows): a row is reduced along its lanes, row by row;
   - kept (columns): lanes are neighbouring results, the loop runs over the reduced axes.
   Levels: a reduce that needs the result of another comes a level later; each level is one pass over the row, and a
   last pass writes results of X's shape.
   Sides: reduces of the axes that all others keep, of a value that those make anyway (reduce_beside.c). */
#ifndef WEFT_CODEGEN_BUILDERS_REDUCE_H
#define WEFT_CODEGEN_BUILDERS_REDUCE_H

#include "codegen/builders/index_internal.h"
#include "codegen/builders/plan.h"

enum { WEFT_REDUCTIONS_MAX = 16, WEFT_REDUCE_KEEP_MAX = 3, WEFT_REDUCE_UNROLL_MAX = 4, WEFT_REDUCE_SIDES_MAX = 3 };

/* SIDE: from a sum of columns beside rows, reduce_beside.c. */
typedef enum weft_reduce_form {
    WEFT_REDUCE_FULL,
    WEFT_REDUCE_KEPT,
    WEFT_REDUCE_REDUCED,
    WEFT_REDUCE_SIDE
} weft_reduce_form;

/* A subset of X's axes with its own row-major order. */
typedef struct weft_axis_set {
    int count, axis[WEFT_MAX_RANK];
    weft_dim dims[WEFT_MAX_RANK], extent; /* extent: product */
    uint32_t merge;
} weft_axis_set;

/* A value of X's shape that one pass stores in scratch and later passes load. */
typedef struct weft_reduce_keep {
    const weft_value *value;
    int pass;         /* that stores it */
    weft_dtype dtype; /* of the scratch: on GPUs the value's own, for a carrier holds nothing else */
    weft_kval memory;
} weft_reduce_keep;

/* A sum that is one element of the row: reduce_pick.c. */
typedef struct weft_reduce_pick {
    const weft_value *label; /* NULL: no pick */
    int level;
    weft_kval inside, place; /* the label is a place of the row; that place, or 0 */
} weft_reduce_pick;

typedef struct weft_reduction {
    weft_index_context c;
    const weft_build_request *request;
    weft_kernel *k;
    int lanes, unroll, threads;
    const weft_type *x;
    int count, levels;
    const weft_node *nodes[WEFT_REDUCTIONS_MAX];
    int level[WEFT_REDUCTIONS_MAX]; /* from 0; -1: a pick */
    weft_reduce_pick pick[WEFT_REDUCTIONS_MAX];
    const char *kind[WEFT_REDUCTIONS_MAX];
    int side_count; /* reduces of the other axes: no part of the above */
    const weft_node *side[WEFT_REDUCE_SIDES_MAX];
    weft_reduce_form *forms;   /* of results */
    bool any_full, full_waits; /* results of X's shape; one of them needs a reduction */
    bool full_early;           /* they are written in the pass over the row: reduce_split.c */
    bool rows;                 /* lanes along a reduced group */
    int lane_axis;             /* where the lane index stands */
    weft_dim lane_extent;
    weft_axis_set kept;  /* kept axes without the lane group */
    weft_axis_set outer; /* reduced axes without the lane group */
    uint32_t merge;
    const struct split *split; /* of reduce_split.c, while it runs */
    int keep_count;
    weft_reduce_keep keep[WEFT_REDUCE_KEEP_MAX];
    weft_kval keep_base;     /* where the row starts in what is kept, a multiple of lanes; WEFT_KNONE: at 0 */
    const weft_kval *labels; /* of the picks, read ahead; NULL: read where they are needed */
} weft_reduction;

/* Rows brought into shared memory ahead of their turn: reduce_ring.c. */
typedef struct weft_row_ring {
    weft_reduction *r;
    int stages, count; /* slots; operands of X's shape */
    const weft_value *value[WEFT_REDUCE_KEEP_MAX];
    weft_kval memory[WEFT_REDUCE_KEEP_MAX];
    weft_kval step;              /* from one row of the block to its next */
    weft_kval read, write, base; /* vars: slots; this turn's row begins at base */
    weft_kval row;
    weft_kval label[WEFT_REDUCTIONS_MAX], label_now[WEFT_REDUCTIONS_MAX], label_next[WEFT_REDUCTIONS_MAX];
    size_t mark;
} weft_row_ring;

/* reduce.c */
weft_status weft_reduction_init(const weft_build_request *request, const char *suffix,
                                weft_reduction *out_reduction) WEFT_MUST_USE;
bool weft_reduction_fits(const weft_graph *graph, const weft_node *fusion);
/* Writes the axes of position `at` of a set into index. */
void weft_axis_set_index(weft_reduction *r, const weft_axis_set *set, weft_kval at, weft_lane_index *index);
/* index (of X, reduced axes 0) as the index of result `result`. */
void weft_reduction_result_index(const weft_reduction *r, int result, const weft_lane_index *index,
                                 weft_lane_index *out);
/* Emits results that are not of X's shape at a kept index. */
void weft_reduction_emit_results(weft_reduction *r, weft_lane_index *index, int lanes, weft_kval mask);
/* One visit: element values of the reduces of `pass` at index, combined into accumulators[i]; the pass after the last
   level writes full results. position: in the row, for kept values. */
void weft_reduction_visit(weft_reduction *r, int pass, const weft_lane_index *index, weft_lane_index position,
                          int lanes, weft_kval mask, const weft_kval *accumulators);
/* Loads what a pass may read of X's shape at index, ahead of its visit; what it does not read goes away. */
void weft_reduction_fetch(weft_reduction *r, int pass, const weft_lane_index *index, int lanes);
/* reduce_pick.c: finds the reduces that are picks; reads their labels; starts their loads, once a row; binds those of a
   pass before it. A pass without reduces of its own is left out. */
void weft_reduction_find_picks(weft_reduction *r);
void weft_reduction_read_labels(weft_reduction *r, const weft_lane_index *index, weft_kval *out_labels);
void weft_reduction_place_picks(weft_reduction *r, const weft_lane_index *index);
int weft_reduction_first_pick(const weft_reduction *r); /* the first pass that one is bound for; past the last: none */
void weft_reduction_bind_picks(weft_reduction *r, int pass, const weft_lane_index *index);
bool weft_reduction_pass_is_empty(const weft_reduction *r, int pass);
/* Operands of X's shape: how many, bytes of their widest element. */
int weft_reduction_row_arguments(const weft_reduction *r);
int weft_reduction_widest_argument(const weft_reduction *r);
/* Shared memory (CPU: scratch) for the values that are kept. */
void weft_reduction_make_scratch(weft_reduction *r);
/* New accumulators for the reduces of a pass, identity in every lane; others WEFT_KNONE. */
void weft_reduction_start(weft_reduction *r, int pass, int lanes, weft_kval *out_accumulators);

/* reduce_rows.c, reduce_columns.c, reduce_split.c */
void weft_reduce_rows(weft_reduction *r);
void weft_reduce_columns(weft_reduction *r);
/* Few results, long reductions: partial results by piece, then their combination. False when it does not pay. */
bool weft_reduce_should_split(const weft_reduction *r, int *out_pieces);
weft_status weft_reduce_split(const weft_build_request *request, int pieces, weft_kernel_plan *out_plan) WEFT_MUST_USE;
/* Rows of a piece: [lo, hi) of the outer axes, or of the lanes when there are none. */
typedef struct weft_reduce_range {
    weft_kval outer_lo, outer_hi, lane_lo, lane_hi;
} weft_reduce_range;
void weft_reduce_row_pass(weft_reduction *r, int pass, weft_lane_index *index, const weft_reduce_range *range,
                          weft_kval *out_results);
/* Reduce i of all lanes, accumulators and threads: the same scalar everywhere, combined in a fixed order. */
weft_kval weft_reduce_combine(weft_reduction *r, int i, int unroll, weft_kval (*accumulators)[WEFT_REDUCTIONS_MAX],
                              weft_kval scalar);
/* reduce_held.c: rows that fit the registers of their threads. False: this is none. */
bool weft_reduce_held(weft_reduction *r);
int64_t weft_reduce_held_vectors(const weft_reduction *r); /* of a thread; 0: rows are not held */
/* Rows in turns, sums of columns beside them: partial ones of each turn's rows go to temps. */
void weft_reduce_held_beside(weft_reduction *r, const weft_kval *temps, int64_t blocks, int rows_of_block);
/* reduce_beside.c: a norm's backward pass with the gradients of its scale and bias, and its like. */
bool weft_reduce_beside_fits(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability);
weft_status weft_reduce_beside(const weft_build_request *request, weft_kernel_plan *out_plan) WEFT_MUST_USE;
/* reduce.c: values of the region keep rows rows, side sums stand aside; without sides the same as weft_reduction_fits.
 */
bool weft_reduction_fits_with_sides(const weft_graph *graph, const weft_node *fusion);
/* reduce_ring.c: does a ring of `stages` rows exist here? Once lanes and threads are settled. init: the same, and its
   memory; grid and registers of the kernel. begin opens the loop over rows and waits for this one's; end closes it. */
bool weft_row_ring_fits(const weft_reduction *r, int stages);
bool weft_row_ring_init(weft_row_ring *ring, weft_reduction *r);
weft_kval weft_row_ring_begin(weft_row_ring *ring);
void weft_row_ring_end(weft_row_ring *ring);
/* Lanes and threads for rows on a GPU. */
void weft_reduce_prepare_gpu(weft_reduction *r);

/* Vectors of columns that walk the reduced axes together. */
typedef struct weft_column_group {
    int count, lanes;
    weft_kval column[WEFT_REDUCE_UNROLL_MAX], mask;
} weft_column_group;
typedef void (*weft_column_body)(weft_reduction *r, const weft_lane_index *row, weft_kval column, int count, int lanes,
                                 weft_kval mask);
void weft_reduce_column_pass(weft_reduction *r, int pass, weft_lane_index *index, const weft_column_group *g,
                             weft_kval lo, weft_kval hi, weft_kval (*results)[WEFT_REDUCTIONS_MAX]);
/* Calls body for columns [lo, hi): several vectors at once, single ones, the tail. */
void weft_reduce_for_columns(weft_reduction *r, const weft_lane_index *row, weft_kval lo, weft_kval hi,
                             weft_column_body body);
void weft_reduce_row_index(weft_reduction *r, weft_kval row, weft_lane_index *out);

#endif
