/* What makers of random operations share: fuzz_graph.c (the pool, common ops) and fuzz_more.c (rarer ones). A maker
   takes items that suit it from the pool and adds its results; it never makes an invalid node. */
#ifndef WEFT_CLI_FUZZ_GENERATOR_H
#define WEFT_CLI_FUZZ_GENERATOR_H

#include "base/dtype.h"
#include "cli/fuzz.h"
#include "ir/graph.h"
#include "weft/ops.h"

enum { CLI_FUZZ_POOL_MAX = 128, CLI_FUZZ_DEPTH_MAX = 3, CLI_FUZZ_ELEMENTS_MAX = 4096, CLI_FUZZ_MODERATE = 256 };

typedef struct cli_fuzz_item {
    weft_value *value;
    bool exact;
    int depth;      /* inexact ops on the way */
    double largest; /* bound on the magnitude of its elements */
} cli_fuzz_item;

typedef struct cli_fuzz_generator {
    cli_random random;
    weft_graph *graph;
    weft_dim symbol; /* 0 = none */
    cli_fuzz_item pool[CLI_FUZZ_POOL_MAX];
    int count;
} cli_fuzz_generator;

typedef bool (*cli_fuzz_filter)(const cli_fuzz_generator *g, const cli_fuzz_item *i);
typedef void (*cli_fuzz_maker)(cli_fuzz_generator *g);

static inline int cli_fuzz_below(cli_fuzz_generator *g, int limit) { return cli_random_below(&g->random, limit); }
static inline bool cli_fuzz_chance(cli_fuzz_generator *g, int percent) { return cli_fuzz_below(g, 100) < percent; }
int64_t cli_fuzz_largest(const cli_fuzz_generator *g, weft_dim dim);
/* A bound on the magnitude of a value's elements. */
double cli_fuzz_bound(const cli_fuzz_generator *g, const weft_value *v);
/* A float that an op which rounds may take. */
static inline bool cli_fuzz_shallow(const cli_fuzz_generator *g, const cli_fuzz_item *i) {
    (void)g;
    return weft_dtype_is_float(i->value->type.dtype) && i->depth < CLI_FUZZ_DEPTH_MAX &&
           i->largest <= CLI_FUZZ_MODERATE;
}
/* The most elements a value can have. */
int64_t cli_fuzz_elements(const cli_fuzz_generator *g, const weft_value *v);
/* Into the pool, unless it is full or the value too large. */
void cli_fuzz_add(cli_fuzz_generator *g, weft_value *value, bool exact, int depth);
/* A random item that passes, favouring recent ones; NULL when none does. */
const cli_fuzz_item *cli_fuzz_pick(cli_fuzz_generator *g, cli_fuzz_filter passes);
/* An item that broadcasts with a; a itself when none is found. */
const cli_fuzz_item *cli_fuzz_partner(cli_fuzz_generator *g, const cli_fuzz_item *a);
/* f32 */
weft_value *cli_fuzz_constant(cli_fuzz_generator *g, int rank, const int64_t *shape);

extern const cli_fuzz_maker cli_fuzz_more[];
extern const int cli_fuzz_more_count;

#endif
