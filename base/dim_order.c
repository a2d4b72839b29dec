/* The structural order of extents and of the terms of a polynomial: what makes canonical forms unique and printing
   independent of the order of construction. */
#include "base/dim_table.h"

#include <string.h>

int weft_dim_compare(const weft_dim_table *table, weft_dim a, weft_dim b) {
    if (a == b) return 0;
    weft_dim_node x = weft_dim_get(table, a), y = weft_dim_get(table, b);
    if (x.kind != y.kind) return x.kind < y.kind ? -1 : 1;
    if (x.kind == WEFT_DIM_NUMBER) return x.number < y.number ? -1 : 1;
    if (x.kind == WEFT_DIM_SYMBOL) return strcmp(table->symbols[x.a]->name, table->symbols[y.a]->name);
    int order = weft_dim_compare(table, x.a, y.a);
    return order ? order : weft_dim_compare(table, x.b, y.b);
}

/* Graded lexicographic, the larger monomial first: compatible with multiplication, which polynomial division needs. */
int weft_dim_term_compare(const weft_dim_table *table, const weft_dim_term *a, const weft_dim_term *b) {
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    for (int i = 0; i < a->count; i++) {
        int order = weft_dim_compare(table, a->atoms[i], b->atoms[i]);
        if (order) return order;
    }
    return 0;
}
