/* The pass "fuse": cuts a block into groups, each of which one builder turns into kernels.

   classify.c says what each node may do (take part, be copied into its users, stand alone); group.c merges groups along
   edges as long as one kernel can compute them, chain.c groups of small products; side.c small updates of states;
   rewrite.c replaces each group by a `fusion` node. Invariant while grouping: the graph of groups has no cycle; its
   edges are values and the order of effects. */
#ifndef WEFT_PASSES_FUSE_H
#define WEFT_PASSES_FUSE_H

#include "ir/build.h"
#include "passes/pass.h"

typedef enum weft_fuse_role {
    WEFT_FUSE_LEAVE, /* constants, control flow, state: stays a plain node */
    WEFT_FUSE_COPY,  /* scalar constants, iota, dim: copied into every group that uses it */
    WEFT_FUSE_VIEW,  /* a view without arithmetic: copied into its users, unless someone needs its elements in memory */
    WEFT_FUSE_POINT, /* computed element by element */
    WEFT_FUSE_REDUCE,  /* reduce: the anchor of a "reduce" group */
    WEFT_FUSE_PRODUCT, /* dot_general, convolution: anchors with an epilogue */
    WEFT_FUSE_SINGLE,  /* a builder of its own, nothing joins */
    WEFT_FUSE_NETWORK  /* of a network over rows: network.h */
} weft_fuse_role;

typedef struct weft_fuse_item {
    weft_node *node;
    weft_fuse_role role;
    int order;       /* position in the block */
    int parent;      /* union-find over items; the root is the group */
    int next;        /* next item of the same group, -1 = last */
    bool effect;     /* it, or a node inside it, has an effect: such nodes keep their order */
    int next_effect; /* the next item with an effect, -1 = last */
    bool mask;       /* COPY: of a mask that attention evaluates */
    bool dependent;  /* POINT: its value depends on the reduction or product of its group */
    /* of roots: */
    int last, size;
    int anchor;  /* item of the first reduce or product; -1 = pointwise */
    bool chain;  /* several products one after another: chain.h */
    bool costly; /* repeating it is dear: transcendental functions, gathers, reductions */
    bool random; /* makes random bits: a hundred instructions an element */
    int stamp;
} weft_fuse_item;

typedef struct weft_fuse {
    weft_graph *graph;
    weft_block *block;
    weft_allocator allocator;
    const weft_capability *capability; /* NULL: of no target */
    int count, stamp;
    weft_fuse_item *items; /* in block order; node->note points at them */
    int *stack;            /* count entries of scratch */
} weft_fuse;

weft_status weft_pass_fuse(weft_pass_context *context) WEFT_MUST_USE;

weft_fuse_role weft_fuse_classify(const weft_node *node);
bool weft_fuse_is_costly(const weft_node *node);
/* Item of a node of this block, or of the node of this block that encloses it; NULL for none. */
weft_fuse_item *weft_fuse_item_of(const weft_fuse *fuse, const weft_node *node);
int weft_fuse_root(weft_fuse *fuse, int item);
/* The value behind copied views: what a group that uses `value` reads. */
weft_value *weft_fuse_source(const weft_value *value);
bool weft_fuse_used_outside(weft_fuse *fuse, const weft_value *value, int root);
void weft_fuse_group(weft_fuse *fuse);
/* Group a becomes part of group b. */
void weft_fuse_merge(weft_fuse *fuse, int a, int b);
/* chain.c: groups of small products that follow each other become one, on GPUs. */
void weft_fuse_chain(weft_fuse *fuse);
/* network.c: networks over rows become groups, on GPUs; before other groups form. */
weft_status weft_fuse_network(weft_fuse *fuse) WEFT_MUST_USE;
/* Is there a path from one group to another through a third? */
bool weft_fuse_reaches_around(weft_fuse *fuse, int from, int to);
/* Small groups that only update states, side by side in one launch: side.c. */
void weft_fuse_side_by_side(weft_fuse *fuse);
weft_status weft_fuse_rewrite(weft_fuse *fuse) WEFT_MUST_USE;
/* The anchor attribute of a group. */
const char *weft_fuse_anchor(const weft_fuse *fuse, int root);

#endif
