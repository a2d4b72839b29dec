/* Symbolic extents: integer expressions over symbols with bounds and divisibility.

   A weft_dim >= 0 is that number. A negative one (other than WEFT_DIM_ANY and WEFT_DIM_INVALID) names an interned node
   of a table. Every constructor canonicalises (sums of products with sorted atoms; floor division, modulo, minimum and
   maximum are atoms), so expressions that are equal as polynomials are equal as numbers. Negative constants exist
   inside expressions only: weft_dim_number. Errors: out of memory or overflow gives WEFT_DIM_INVALID, which is
   absorbing; check once at the end, weft_dim_invalid says which it was. Threading: a table is thread-compatible. */
#ifndef WEFT_BASE_DIM_H
#define WEFT_BASE_DIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "weft/graph.h"

#define WEFT_DIM_INVALID (INT64_MIN + 1)

typedef enum weft_dim_kind {
    WEFT_DIM_NUMBER,
    WEFT_DIM_SYMBOL,
    WEFT_DIM_ADD,          /* a + b */
    WEFT_DIM_MULTIPLY,     /* a * b */
    WEFT_DIM_FLOOR_DIVIDE, /* floor(a / b), b > 0 */
    WEFT_DIM_MODULO,       /* a - floor(a / b) * b, b > 0 */
    WEFT_DIM_MINIMUM,
    WEFT_DIM_MAXIMUM
} weft_dim_kind;

/* Where the value of a symbol comes from. */
typedef enum weft_symbol_origin {
    WEFT_SYMBOL_DECLARED,  /* weft_graph_symbol: inputs that carry it bind it */
    WEFT_SYMBOL_ANONYMOUS, /* an undeclared axis of an input */
    WEFT_SYMBOL_DATA       /* a size computed on the device: in [minimum, maximum], read by read_dims */
} weft_symbol_origin;

typedef struct weft_symbol {
    const char *name;
    int64_t minimum, maximum, divisor; /* inclusive; maximum INT64_MAX = unbounded */
    weft_symbol_origin origin;
} weft_symbol;

typedef struct weft_dim_node {
    weft_dim_kind kind;
    weft_dim a, b;  /* operands; a is the symbol index for SYMBOL */
    int64_t number; /* NUMBER */
} weft_dim_node;

typedef struct weft_dim_table weft_dim_table;

weft_status weft_dim_table_create(weft_allocator allocator, weft_dim_table **out_table) WEFT_MUST_USE;
void weft_dim_table_release(weft_dim_table *table);
weft_allocator weft_dim_table_allocator(const weft_dim_table *table);
/* An allocation of the table failed at some time: extents may be INVALID, and facts unknown, because of it. */
bool weft_dim_out_of_memory(const weft_dim_table *table);
/* The status for a WEFT_DIM_INVALID of this table: OUT_OF_MEMORY, or OUT_OF_RANGE. what: "the size of a value". */
weft_status weft_dim_invalid(const weft_dim_table *table, const char *what) WEFT_MUST_USE;
/* A number, or a node of this table: not WEFT_DIM_ANY, WEFT_DIM_INVALID or a stray value. */
bool weft_dim_is_valid(const weft_dim_table *table, weft_dim dim);
/* Calls visit for every symbol in dim (repeats possible); false as soon as visit returns false. */
bool weft_dim_visit_symbols(const weft_dim_table *table, weft_dim dim, bool (*visit)(void *self, int symbol),
                            void *self);

/* name is copied. Two symbols never share a name: a second one gets a suffix. */
weft_dim weft_dim_symbol(weft_dim_table *table, const char *name, int64_t minimum, int64_t maximum, int64_t divisor,
                         weft_symbol_origin origin);
int weft_dim_symbol_count(const weft_dim_table *table);
const weft_symbol *weft_dim_symbol_get(const weft_dim_table *table, int index);
weft_dim weft_dim_symbol_value(weft_dim_table *table, int index);        /* the extent that is symbol `index` */
int weft_dim_symbol_find(const weft_dim_table *table, const char *name); /* -1 */

weft_dim weft_dim_number(weft_dim_table *table, int64_t value);
weft_dim weft_dim_add(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_subtract(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_multiply(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_divide_floor(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_divide_ceil(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_modulo(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_minimum(weft_dim_table *table, weft_dim a, weft_dim b);
weft_dim weft_dim_maximum(weft_dim_table *table, weft_dim a, weft_dim b);

static inline bool weft_dim_is_number(weft_dim dim) { return dim >= 0; }
weft_dim_node weft_dim_get(const weft_dim_table *table, weft_dim dim);

/* Interval analysis; saturates at INT64_MIN / INT64_MAX. */
void weft_dim_bounds(const weft_dim_table *table, weft_dim dim, int64_t *out_minimum, int64_t *out_maximum);
/* The largest known divisor (at least 1; 0 for the number 0). */
int64_t weft_dim_divisor(const weft_dim_table *table, weft_dim dim);
bool weft_dim_known_equal(const weft_dim_table *table, weft_dim a, weft_dim b);
/* a can be shown different from b by bounds. */
bool weft_dim_known_different(weft_dim_table *table, weft_dim a, weft_dim b);
/* Exact division: true and *out when b divides a symbolically (every monomial). */
bool weft_dim_divide_exact(weft_dim_table *table, weft_dim a, weft_dim b, weft_dim *out_quotient);

/* Value with symbols[i] for symbol i. false on overflow, division by zero or WEFT_DIM_INVALID. */
bool weft_dim_evaluate(const weft_dim_table *table, weft_dim dim, const int64_t *symbols, int64_t *out_value);
/* Replaces symbols: replacement[i] for symbol i (WEFT_DIM_ANY keeps it). */
weft_dim weft_dim_substitute(weft_dim_table *table, weft_dim dim, const weft_dim *replacement);
/* The same expression in another table, symbols mapped by name (created there when missing). */
weft_dim weft_dim_copy(const weft_dim_table *from, weft_dim dim, weft_dim_table *to);

/* B, B*4+1, (H//2), max(a,b), ... ; parse accepts what print writes; symbols must exist. */
void weft_dim_print(const weft_dim_table *table, weft_dim dim, weft_text *text);
weft_status weft_dim_parse(weft_dim_table *table, const char *text, size_t bytes, weft_dim *out_dim) WEFT_MUST_USE;

#endif
