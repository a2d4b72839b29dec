/* The pass "budget": groups run again, so that a program keeps less memory. Read next: budget.c, again.c. */
#ifndef WEFT_PASSES_FUSE_BUDGET_H
#define WEFT_PASSES_FUSE_BUDGET_H

#include "passes/fuse/region.h"
#include "passes/pass.h"

/* Options: bytes=N, for temporaries, constants and states together, or share=X of what they are without. The status
   OUT_OF_MEMORY says how far it got and what is largest when even that is too much. */
weft_status weft_pass_budget(weft_pass_context *context) WEFT_MUST_USE;

/* -- shared by budget.c and again.c */

/* A value of a group and what stands for it from a later place on. */
typedef struct weft_budget_pair {
    const weft_value *first;
    weft_value *again;
} weft_budget_pair;

typedef struct weft_budget {
    weft_graph *graph;
    weft_block *block;
    weft_allocator allocator;
    double bytes_per_second, operations_per_second;
    int count; /* nodes of the block; their notes are their places, from 1 */
    weft_node **nodes;
    double *live; /* bytes at each place */
    size_t node_capacity, live_capacity;
    double peak;
    int at; /* where it is */
    size_t pair_count, pair_capacity;
    weft_budget_pair *pairs;
    int groups;     /* that run again so far */
    double seconds; /* what that takes, by the model */
} weft_budget;

/* Where a value's memory is used: aliases are followed. */
typedef struct weft_budget_span {
    int first, last;
    int next;             /* the first use behind the peak; 0 = none */
    bool at_peak, leaves; /* used by the node at the peak; an output of the block */
} weft_budget_span;

typedef enum weft_budget_way {
    WEFT_BUDGET_AGAIN, /* the group once more */
    WEFT_BUDGET_MAPPED /* elementwise, from the product that the group then writes */
} weft_budget_way;

/* Results of a group that are made anew at a place instead of being kept. */
typedef struct weft_budget_choice {
    weft_node *group;
    weft_budget_way way;
    weft_value *product; /* inner value, for MAPPED */
    int count, place;
    int results[WEFT_FUSE_RESULTS_MAX];
    bool dear;      /* products run again */
    double freed;   /* at the peak */
    double seconds; /* for it */
} weft_budget_choice;

int weft_budget_place(const weft_budget *budget, const weft_node *node);
/* The value whose memory it is: behind reshapes and barriers of the block. */
weft_value *weft_budget_root(const weft_budget *budget, weft_value *value);
weft_budget_span weft_budget_span_of(const weft_budget *budget, const weft_value *root);
/* Bytes of a temporary; 0 for inputs, states, constants and what is written over a state. */
double weft_budget_bytes(const weft_budget *budget, const weft_value *root);
/* Completes the choice (way, product, results and place are given): false when that is not possible. */
bool weft_budget_weigh(weft_budget *budget, weft_budget_choice *choice);
weft_status weft_budget_apply(weft_budget *budget, const weft_budget_choice *choice) WEFT_MUST_USE;

#endif
