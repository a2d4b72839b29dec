/* Interval analysis, divisibility, minimum and maximum.
   Bounds saturate: INT64_MIN and INT64_MAX stand for "no bound". */
#include "base/dim_table.h"

static int64_t add_low(int64_t a, int64_t b) {
    int64_t sum;
    if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t add_high(int64_t a, int64_t b) {
    int64_t sum;
    if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t multiply_saturated(int64_t a, int64_t b) {
    int64_t product;
    if (!a || !b) return 0;
    return __builtin_mul_overflow(a, b, &product) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : product;
}

static void multiply_intervals(int64_t *low, int64_t *high, int64_t other_low, int64_t other_high) {
    int64_t corners[4] = {multiply_saturated(*low, other_low), multiply_saturated(*low, other_high),
                          multiply_saturated(*high, other_low), multiply_saturated(*high, other_high)};
    /* -1 * INT64_MAX is finite as a product, but here it means "no bound" */
    bool open = *low == INT64_MIN || *high == INT64_MAX || other_low == INT64_MIN || other_high == INT64_MAX;
    *low = *high = corners[0];
    for (int i = 1; i < 4; i++) {
        if (corners[i] < *low) *low = corners[i];
        if (corners[i] > *high) *high = corners[i];
    }
    if (open && *low <= -INT64_MAX / 2) *low = INT64_MIN;
    if (open && *high >= INT64_MAX / 2) *high = INT64_MAX;
}

void weft_dim_bounds_of_poly(const weft_dim_table *table, weft_dim_poly poly, int64_t *out_minimum,
                             int64_t *out_maximum) {
    *out_minimum = *out_maximum = 0;
    for (int i = 0; i < poly.count; i++) {
        const weft_dim_term *term = &poly.terms[i];
        int64_t low = term->coefficient, high = term->coefficient, atom_low, atom_high;
        for (int k = 0; k < term->count; k++) {
            weft_dim_bounds(table, term->atoms[k], &atom_low, &atom_high);
            multiply_intervals(&low, &high, atom_low, atom_high);
        }
        *out_minimum = add_low(*out_minimum, low);
        *out_maximum = add_high(*out_maximum, high);
    }
    if (poly.count < 0) {
        *out_minimum = INT64_MIN;
        *out_maximum = INT64_MAX;
    }
}

static int64_t floor_bound(int64_t a, int64_t b) {
    if (a == INT64_MIN || a == INT64_MAX) return a;
    return a / b - (a % b < 0);
}

static void divide_bounds(const weft_dim_table *table, weft_dim_entry *entry) {
    int64_t low, high, by_low, by_high;
    weft_dim_bounds(table, entry->node.a, &low, &high);
    weft_dim_bounds(table, entry->node.b, &by_low, &by_high);
    if (by_low < 1) by_low = 1;
    if (by_high < 1) by_high = 1;
    if (entry->node.kind == WEFT_DIM_MODULO) {
        entry->minimum = 0;
        entry->maximum = by_high == INT64_MAX ? INT64_MAX : by_high - 1;
        if (low >= 0 && high < entry->maximum) entry->maximum = high;
        entry->divisor = weft_dim_gcd(weft_dim_divisor(table, entry->node.a), weft_dim_divisor(table, entry->node.b));
        return;
    }
    entry->minimum = floor_bound(low, low < 0 ? by_low : by_high);
    entry->maximum = floor_bound(high, high < 0 ? by_high : by_low);
    int64_t divisor = weft_dim_divisor(table, entry->node.a), by = entry->node.b;
    entry->divisor = by > 0 && divisor % by == 0 ? divisor / by : 1; /* exact */
}

static void choice_bounds(const weft_dim_table *table, weft_dim_entry *entry) {
    int64_t low[2], high[2];
    weft_dim_bounds(table, entry->node.a, &low[0], &high[0]);
    weft_dim_bounds(table, entry->node.b, &low[1], &high[1]);
    bool minimum = entry->node.kind == WEFT_DIM_MINIMUM;
    entry->minimum = (low[0] < low[1]) == minimum ? low[0] : low[1];
    entry->maximum = (high[0] < high[1]) == minimum ? high[0] : high[1];
    entry->divisor = weft_dim_gcd(weft_dim_divisor(table, entry->node.a), weft_dim_divisor(table, entry->node.b));
}

int64_t weft_dim_divisor_of_term(const weft_dim_table *table, const weft_dim_term *term) {
    int64_t divisor = term->coefficient < 0 ? -term->coefficient : term->coefficient, product;
    for (int i = 0; i < term->count; i++) {
        if (__builtin_mul_overflow(divisor, weft_dim_entry_get(table, term->atoms[i])->divisor, &product)) break;
        divisor = product;
    }
    return divisor;
}

void weft_dim_bounds_of_entry(const weft_dim_table *table, weft_dim_entry *entry) {
    const weft_symbol *symbol;
    switch (entry->node.kind) {
    case WEFT_DIM_SYMBOL:
        symbol = table->symbols[entry->node.a];
        entry->minimum = symbol->minimum;
        entry->maximum = symbol->maximum;
        entry->divisor = symbol->divisor;
        return;
    case WEFT_DIM_FLOOR_DIVIDE:
    case WEFT_DIM_MODULO: divide_bounds(table, entry); return;
    case WEFT_DIM_MINIMUM:
    case WEFT_DIM_MAXIMUM: choice_bounds(table, entry); return;
    case WEFT_DIM_NUMBER:
    case WEFT_DIM_ADD:
    case WEFT_DIM_MULTIPLY: break;
    }
    weft_dim_bounds_of_poly(table, entry->poly, &entry->minimum, &entry->maximum);
    entry->divisor = 0;
    for (int i = 0; i < entry->poly.count; i++)
        entry->divisor = weft_dim_gcd(entry->divisor, weft_dim_divisor_of_term(table, &entry->poly.terms[i]));
}

void weft_dim_bounds(const weft_dim_table *table, weft_dim dim, int64_t *out_minimum, int64_t *out_maximum) {
    bool usable = weft_dim_is_usable(table, dim);
    const weft_dim_entry *entry = dim < 0 && usable ? weft_dim_entry_get(table, dim) : NULL;
    *out_minimum = entry ? entry->minimum : usable ? dim : INT64_MIN;
    *out_maximum = entry ? entry->maximum : usable ? dim : INT64_MAX;
}

int64_t weft_dim_divisor(const weft_dim_table *table, weft_dim dim) {
    if (dim >= 0) return dim;
    return weft_dim_is_usable(table, dim) ? weft_dim_entry_get(table, dim)->divisor : 1;
}

bool weft_dim_known_equal(const weft_dim_table *table, weft_dim a, weft_dim b) {
    return a == b && weft_dim_is_usable(table, a);
}

bool weft_dim_known_different(weft_dim_table *table, weft_dim a, weft_dim b) {
    if (!weft_dim_is_usable(table, a) || !weft_dim_is_usable(table, b) || a == b) return false;
    if (a >= 0 && b >= 0) return true;
    int64_t minimum, maximum, common = 0;
    weft_dim_poly difference = weft_dim_poly_add(table, weft_dim_poly_of(table, a), weft_dim_poly_of(table, b), -1);
    if (difference.count <= 0) return false;
    weft_dim_bounds_of_poly(table, difference, &minimum, &maximum);
    if (minimum > 0 || maximum < 0) return true;
    /* 8*x + 3 is never 0 */
    const weft_dim_term *last = &difference.terms[difference.count - 1];
    if (last->count) return false;
    for (int i = 0; i + 1 < difference.count; i++)
        common = weft_dim_gcd(common, weft_dim_divisor_of_term(table, &difference.terms[i]));
    return common > 1 && last->coefficient % common;
}

/* Proved: the choice between a and b is a (also when they are equal). */
static bool beats(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b) {
    int64_t minimum, maximum;
    weft_dim_poly difference = weft_dim_poly_add(table, weft_dim_poly_of(table, a), weft_dim_poly_of(table, b), -1);
    if (difference.count < 0) return false;
    weft_dim_bounds_of_poly(table, difference, &minimum, &maximum);
    return kind == WEFT_DIM_MINIMUM ? maximum <= 0 : minimum >= 0;
}

/* Appends the operands of nested choices of one kind to list; false when there are too many. */
static bool flatten(const weft_dim_table *table, weft_dim_kind kind, weft_dim dim, weft_dim *list, int *count) {
    weft_dim_node node = weft_dim_get(table, dim);
    if (node.kind == kind)
        return flatten(table, kind, node.a, list, count) && flatten(table, kind, node.b, list, count);
    if (*count == WEFT_DIM_DEGREE_MAX) return false;
    list[(*count)++] = dim;
    return true;
}

/* One canonical chain: nested operands flattened, dominated ones dropped, the rest sorted. */
static weft_dim choose(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b) {
    weft_dim operands[WEFT_DIM_DEGREE_MAX], kept[WEFT_DIM_DEGREE_MAX], result;
    int count = 0, kept_count = 0;
    if (!weft_dim_is_usable(table, a) || !weft_dim_is_usable(table, b)) return WEFT_DIM_INVALID;
    if (a == b) return a;
    if (a >= 0 && b >= 0) return (a < b) == (kind == WEFT_DIM_MINIMUM) ? a : b;
    if (weft_dim_recall(table, kind, a, b, &result)) return result;
    if (!flatten(table, kind, a, operands, &count) || !flatten(table, kind, b, operands, &count))
        return WEFT_DIM_INVALID;
    for (int i = 0; i < count; i++) {
        bool dominated = false;
        for (int k = 0; k < count && !dominated; k++) {
            /* of two equal ones the earlier stays */
            bool beaten = k != i && beats(table, kind, operands[k], operands[i]);
            dominated = beaten && (k < i || !beats(table, kind, operands[i], operands[k]));
        }
        if (dominated) continue;
        int place = kept_count++;
        for (; place && weft_dim_compare(table, kept[place - 1], operands[i]) > 0; place--)
            kept[place] = kept[place - 1];
        kept[place] = operands[i];
    }
    result = kept_count ? kept[0] : WEFT_DIM_INVALID;
    for (int i = 1; i < kept_count && result != WEFT_DIM_INVALID; i++)
        result = weft_dim_intern_atom(table, kind, result, kept[i]);
    return weft_dim_remember(table, kind, a, b, result);
}

weft_dim weft_dim_minimum(weft_dim_table *table, weft_dim a, weft_dim b) {
    return choose(table, WEFT_DIM_MINIMUM, a, b);
}

weft_dim weft_dim_maximum(weft_dim_table *table, weft_dim a, weft_dim b) {
    return choose(table, WEFT_DIM_MAXIMUM, a, b);
}
