/* Facts about extents that a program relies on, with the reason for each. A program's guards are all true or the
   program does not run: the JIT then compiles another, an artifact returns GUARD_FAILED with the text of the guard. */
#ifndef WEFT_BASE_GUARD_H
#define WEFT_BASE_GUARD_H

#include "base/dim.h"

typedef enum weft_relation { WEFT_RELATION_EQ, WEFT_RELATION_NE, WEFT_RELATION_LT, WEFT_RELATION_LE } weft_relation;

typedef struct weft_condition {
    weft_dim lhs, rhs;
    weft_relation relation;
} weft_condition;

typedef struct weft_guard {
    weft_condition condition;
    const char *pass;     /* which pass consumed the fact */
    const char *location; /* node: op, name, file:line */
} weft_guard;

/* false also on overflow */
bool weft_condition_holds(const weft_dim_table *table, const weft_condition *condition, const int64_t *symbols);
/* Proved by bounds and divisibility alone? */
bool weft_condition_known(weft_dim_table *table, const weft_condition *condition);
void weft_condition_print(const weft_dim_table *table, const weft_condition *condition, weft_text *text);

#endif
