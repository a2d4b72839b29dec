/* Conditions over extents: evaluation, proof and printing. */
#include "base/guard.h"

bool weft_condition_holds(const weft_dim_table *table, const weft_condition *condition, const int64_t *symbols) {
    int64_t lhs, rhs;
    if (!weft_dim_evaluate(table, condition->lhs, symbols, &lhs) ||
        !weft_dim_evaluate(table, condition->rhs, symbols, &rhs))
        return false;
    switch (condition->relation) {
    case WEFT_RELATION_EQ: return lhs == rhs;
    case WEFT_RELATION_NE: return lhs != rhs;
    case WEFT_RELATION_LT: return lhs < rhs;
    case WEFT_RELATION_LE: return lhs <= rhs;
    }
    return false;
}

bool weft_condition_known(weft_dim_table *table, const weft_condition *condition) {
    int64_t minimum, maximum;
    weft_dim difference;
    switch (condition->relation) {
    case WEFT_RELATION_EQ: return weft_dim_known_equal(table, condition->lhs, condition->rhs);
    case WEFT_RELATION_NE: return weft_dim_known_different(table, condition->lhs, condition->rhs);
    case WEFT_RELATION_LT:
    case WEFT_RELATION_LE:
        difference = weft_dim_subtract(table, condition->lhs, condition->rhs);
        if (difference == WEFT_DIM_INVALID) return false;
        weft_dim_bounds(table, difference, &minimum, &maximum);
        return condition->relation == WEFT_RELATION_LT ? maximum < 0 : maximum <= 0;
    }
    return false;
}

void weft_condition_print(const weft_dim_table *table, const weft_condition *condition, weft_text *text) {
    static const char *const spelling[] = {" == ", " != ", " < ", " <= "};
    weft_dim_print(table, condition->lhs, text);
    weft_text_append(text, "%s", spelling[condition->relation]);
    weft_dim_print(table, condition->rhs, text);
}
