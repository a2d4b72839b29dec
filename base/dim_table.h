/* Inside of the table of symbolic extents, shared by the dim_*.c files only.

   Invariants: an entry is immutable once interned; `poly` is the canonical polynomial of the entry: terms sorted by
   falling degree and then by their atoms, no zero coefficient, no two terms with the same atoms, atoms sorted. Atoms
   are SYMBOL, FLOOR_DIVIDE, MODULO, MINIMUM and MAXIMUM entries. The order of atoms is structural (symbols by name), so
   the same expression prints the same from every table. Limits keep hostile expressions harmless: size bounds the tree
   that evaluation walks, depth its recursion. Read next: dim.c, dim_poly.c, dim_divide.c. */
#ifndef WEFT_BASE_DIM_TABLE_H
#define WEFT_BASE_DIM_TABLE_H

#include "base/dim.h"

enum { WEFT_DIM_TERMS_MAX = 256, WEFT_DIM_DEGREE_MAX = 32, WEFT_DIM_SIZE_MAX = 1 << 16, WEFT_DIM_DEPTH_MAX = 1000 };

typedef struct weft_dim_term {
    int64_t coefficient;
    int count; /* degree; 0 = the constant */
    const weft_dim *atoms;
} weft_dim_term;

typedef struct weft_dim_poly {
    int count; /* 0 = the number 0; negative = invalid */
    const weft_dim_term *terms;
} weft_dim_poly;

typedef struct weft_dim_entry {
    weft_dim_node node;
    weft_dim_poly poly;
    int64_t minimum, maximum, divisor;
    int32_t size, depth;
} weft_dim_entry;

typedef struct weft_dim_slot {
    int32_t operation; /* 0 = free; 1 + kind = interned node; 16 + kind = remembered result of a constructor */
    weft_dim a, b, result;
} weft_dim_slot;

struct weft_dim_table {
    weft_allocator source;    /* the caller's */
    weft_allocator allocator; /* the same, through a function that notes failures */
    bool out_of_memory;       /* an allocation failed: an invalid extent may be due to it */
    weft_arena arena;
    weft_dim_entry *entries;
    size_t entry_count, entry_capacity;
    weft_dim_slot *slots;
    size_t slot_count, slot_capacity; /* capacity: a power of two */
    const weft_symbol **symbols;
    weft_dim *symbol_values;
    size_t symbol_count, symbol_capacity, value_capacity;
};

static inline bool weft_dim_is_usable(const weft_dim_table *table, weft_dim dim) {
    return dim >= 0 || (dim >= -(int64_t)table->entry_count);
}
static inline const weft_dim_entry *weft_dim_entry_get(const weft_dim_table *table, weft_dim dim) {
    return &table->entries[-(dim + 1)];
}

/* dim.c: the node (kind, a, b or number) with this polynomial; WEFT_DIM_INVALID without memory or past a limit. */
weft_dim weft_dim_intern(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b, int64_t number,
                         weft_dim_poly poly);
weft_dim weft_dim_intern_atom(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b);
/* Results of constructors already asked for. false when unknown. */
bool weft_dim_recall(const weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b, weft_dim *out_result);
weft_dim weft_dim_remember(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b, weft_dim result);
int64_t weft_dim_gcd(int64_t a, int64_t b); /* of absolute values; gcd(0, x) = |x| */

/* dim_order.c */
int weft_dim_compare(const weft_dim_table *table, weft_dim a, weft_dim b);
int weft_dim_term_compare(const weft_dim_table *table, const weft_dim_term *a, const weft_dim_term *b);

/* dim_poly.c: polynomials live in the table's arena; a negative count is absorbing. */
weft_dim_poly weft_dim_poly_invalid(void);
weft_dim_poly weft_dim_poly_of(weft_dim_table *table, weft_dim dim);
weft_dim_poly weft_dim_poly_constant(weft_dim_table *table, int64_t value);
/* a + scale * b */
weft_dim_poly weft_dim_poly_add(weft_dim_table *table, weft_dim_poly a, weft_dim_poly b, int64_t scale);
weft_dim_poly weft_dim_poly_times_term(weft_dim_table *table, weft_dim_poly a, const weft_dim_term *term);
/* The canonical extent of a polynomial. */
weft_dim weft_dim_poly_build(weft_dim_table *table, weft_dim_poly poly);

/* dim_bounds.c */
void weft_dim_bounds_of_entry(const weft_dim_table *table, weft_dim_entry *entry);
void weft_dim_bounds_of_poly(const weft_dim_table *table, weft_dim_poly poly, int64_t *out_minimum,
                             int64_t *out_maximum);
int64_t weft_dim_divisor_of_term(const weft_dim_table *table, const weft_dim_term *term);

#endif
