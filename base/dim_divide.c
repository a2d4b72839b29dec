/* Floor division, modulo and exact division of extents.

   Both divisions reduce dividend and divisor first, so that a // b and a % b that belong together end with the same
   atom arguments: split   a = q*b + r, term by term, and q leaves the atom; cancel  common factors of all terms of r
   and b: (g*r) // (g*b) = r // b, (g*r) % (g*b) = g * (r % b); drop    for a number b and g dividing b: (g*x + y) // b
   = (x + y//g) // (b/g) where y//g is one number by bounds; decide  0 <= r < b by bounds: 0 and r; nest    (x // m) //
   n = x // (m*n). b > 0 is the caller's contract (evaluation checks it). Source: Granlund, Montgomery 1994 for the
   identities of nested floor division; the term reduction is ordinary multivariate polynomial division (Cox, Little,
   O'Shea, chapter 2). */
#include "base/dim_table.h"

/* The division being reduced: quotient part, remainder, divisor, and what was cancelled from both. */
typedef struct division {
    weft_dim_poly quotient, rest, divisor;
    weft_dim_term cancelled;     /* monomial common to rest and divisor, coefficient included */
    weft_dim_poly modulo_offset; /* the remainder's part that left by `drop` */
} division;

/* t / d as a monomial with whole coefficient (truncated); false when it is none. exact: nothing may stay behind. */
static bool divide_term(weft_dim_table *table, const weft_dim_term *term, const weft_dim_term *by, bool exact,
                        weft_dim_term *out_term) {
    int64_t factor = term->coefficient / by->coefficient;
    if (!factor || (exact && term->coefficient % by->coefficient)) return false;
    if (by->count > term->count) return false;
    weft_dim *atoms = weft_arena_allocate_array(&table->arena, (size_t)term->count, sizeof *atoms);
    if (!atoms) return false;
    int count = 0, j = 0;
    for (int i = 0; i < term->count; i++) {
        if (j < by->count && term->atoms[i] == by->atoms[j])
            j++;
        else
            atoms[count++] = term->atoms[i];
    }
    if (j < by->count) return false;
    *out_term = (weft_dim_term){factor, count, atoms};
    return true;
}

/* (x // m) // n = x // (m*n); else the atom a // b of reduced operands. */
static weft_dim quotient_atom(weft_dim_table *table, weft_dim a, weft_dim b) {
    weft_dim_poly poly = weft_dim_poly_of(table, a);
    bool plain = poly.count == 1, shifted = poly.count == 2 && b > 0 && !poly.terms[1].count;
    if ((plain || shifted) && poly.terms[0].coefficient == 1 && poly.terms[0].count == 1) {
        weft_dim_node node = weft_dim_get(table, poly.terms[0].atoms[0]);
        if (node.kind == WEFT_DIM_FLOOR_DIVIDE && (plain || node.b > 0)) {
            weft_dim shift = plain ? 0 : weft_dim_number(table, poly.terms[1].coefficient);
            weft_dim dividend = weft_dim_add(table, node.a, weft_dim_multiply(table, shift, node.b));
            return weft_dim_divide_floor(table, dividend, weft_dim_multiply(table, node.b, b));
        }
    }
    return weft_dim_intern_atom(table, WEFT_DIM_FLOOR_DIVIDE, a, b);
}

/* A term whose known divisors make it a multiple of the number n: term / n through an exact atom. */
static bool divide_term_known(weft_dim_table *table, const weft_dim_term *term, int64_t n,
                              weft_dim_poly *out_quotient) {
    if (!term->count || weft_dim_divisor_of_term(table, term) % n) return false;
    int64_t common = weft_dim_gcd(term->coefficient, n);
    weft_dim_term *one = weft_arena_allocate(&table->arena, sizeof *one);
    if (!one) return false;
    *one = (weft_dim_term){1, term->count, term->atoms};
    weft_dim monomial = weft_dim_poly_build(table, (weft_dim_poly){1, one});
    weft_dim atom = monomial == WEFT_DIM_INVALID ? monomial : quotient_atom(table, monomial, n / common);
    if (atom == WEFT_DIM_INVALID) return false;
    weft_dim_term factor = {term->coefficient / common, 0, NULL};
    *out_quotient = weft_dim_poly_times_term(table, weft_dim_poly_of(table, atom), &factor);
    return true;
}

static bool poly_is_number(weft_dim_poly poly, int64_t *out_value) {
    *out_value = poly.count == 1 ? poly.terms[0].coefficient : 0;
    return poly.count == 0 || (poly.count == 1 && !poly.terms[0].count);
}

static int64_t floor_number(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Moves every multiple of the divisor from rest to quotient. exact: only what divides without remainder. */
static void split(weft_dim_table *table, division *d, bool exact) {
    const weft_dim_term *lead = &d->divisor.terms[0];
    bool whole = exact || d->divisor.count > 1;
    int64_t number;
    bool numeric = poly_is_number(d->divisor, &number);
    for (int i = 0; i < d->rest.count;) {
        const weft_dim_term *term = &d->rest.terms[i];
        weft_dim_term *factor = weft_arena_allocate(&table->arena, sizeof *factor);
        weft_dim_poly quotient, product;
        if (!factor) {
            d->rest = weft_dim_poly_invalid();
            return;
        }
        if (divide_term(table, term, lead, whole, factor)) {
            if (numeric && !term->count) factor->coefficient = floor_number(term->coefficient, number);
            quotient = (weft_dim_poly){1, factor};
            product = weft_dim_poly_times_term(table, d->divisor, factor);
        } else if (numeric && !term->count && term->coefficient < 0 && !exact) {
            *factor = (weft_dim_term){floor_number(term->coefficient, number), 0, NULL};
            quotient = (weft_dim_poly){1, factor};
            product = weft_dim_poly_times_term(table, d->divisor, factor);
        } else if (numeric && number > 1 && divide_term_known(table, term, number, &quotient)) {
            product = (weft_dim_poly){1, term};
        } else {
            i++;
            continue;
        }
        d->quotient = weft_dim_poly_add(table, d->quotient, quotient, 1);
        d->rest = weft_dim_poly_add(table, d->rest, product, -1);
        if (d->rest.count < 0) return;
    }
}

static bool at_least_zero(const weft_dim_table *table, weft_dim dim) {
    int64_t minimum, maximum;
    weft_dim_bounds(table, dim, &minimum, &maximum);
    return minimum >= 0;
}

/* Divides rest and divisor by the monomial that divides every term of both. */
static void cancel(weft_dim_table *table, division *d) {
    weft_dim_term common = d->divisor.terms[0];
    for (int part = 0; part < 2; part++) {
        weft_dim_poly poly = part ? d->rest : d->divisor;
        for (int i = 0; i < poly.count; i++) {
            const weft_dim_term *term = &poly.terms[i];
            weft_dim *atoms = weft_arena_allocate_array(&table->arena, (size_t)common.count, sizeof *atoms);
            if (!atoms) return;
            int count = 0;
            for (int a = 0, b = 0; a < common.count && b < term->count;) {
                int order = weft_dim_compare(table, common.atoms[a], term->atoms[b]);
                if (!order && at_least_zero(table, common.atoms[a])) atoms[count++] = common.atoms[a];
                a += order <= 0;
                b += order >= 0;
            }
            common = (weft_dim_term){weft_dim_gcd(common.coefficient, term->coefficient), count, atoms};
        }
    }
    if (common.coefficient == 1 && !common.count) return;
    division reduced = *d;
    weft_dim_poly *polys[2] = {&reduced.divisor, &reduced.rest};
    for (int part = 0; part < 2; part++) {
        weft_dim_term *terms = weft_arena_allocate_array(&table->arena, (size_t)polys[part]->count, sizeof *terms);
        if (!terms) return;
        for (int i = 0; i < polys[part]->count; i++)
            if (!divide_term(table, &polys[part]->terms[i], &common, true, &terms[i])) return;
        polys[part]->terms = terms;
    }
    weft_dim_poly product = weft_dim_poly_times_term(table, (weft_dim_poly){1, &d->cancelled}, &common);
    if (product.count != 1) return;
    reduced.cancelled = product.terms[0];
    *d = reduced;
}

/* Numeric divisor n: for a g that divides n, the terms that are no multiples of g together may floor to one number. */
static bool drop(weft_dim_table *table, division *d, int64_t n) {
    for (int i = 0; i < d->rest.count; i++) {
        int64_t g = weft_dim_gcd(n, d->rest.terms[i].coefficient), minimum, maximum;
        if (!d->rest.terms[i].count || g <= 1) continue;
        weft_dim_term *multiples = weft_arena_allocate_array(&table->arena, (size_t)d->rest.count, sizeof *multiples);
        weft_dim_term *others = weft_arena_allocate_array(&table->arena, (size_t)d->rest.count, sizeof *others);
        if (!multiples || !others) return false;
        int multiple_count = 0, other_count = 0;
        for (int k = 0; k < d->rest.count; k++) {
            weft_dim_term term = d->rest.terms[k];
            if (term.coefficient % g) {
                others[other_count++] = term;
            } else {
                term.coefficient /= g;
                multiples[multiple_count++] = term;
            }
        }
        weft_dim_poly left_behind = {other_count, others};
        weft_dim_bounds_of_poly(table, left_behind, &minimum, &maximum);
        if (!other_count || minimum == INT64_MIN || maximum == INT64_MAX ||
            floor_number(minimum, g) != floor_number(maximum, g))
            continue;
        /* y = g*k + offset with 0 <= offset < g: the offset belongs to the modulo only */
        weft_dim_poly k = weft_dim_poly_constant(table, floor_number(minimum, g));
        weft_dim_poly offset = weft_dim_poly_add(table, left_behind, k, -g);
        offset = weft_dim_poly_times_term(table, offset, &d->cancelled);
        d->modulo_offset = weft_dim_poly_add(table, d->modulo_offset, offset, 1);
        d->rest = weft_dim_poly_add(table, (weft_dim_poly){multiple_count, multiples}, k, 1);
        d->divisor = weft_dim_poly_constant(table, n / g);
        if (__builtin_mul_overflow(d->cancelled.coefficient, g, &d->cancelled.coefficient))
            d->rest = weft_dim_poly_invalid();
        return true;
    }
    return false;
}

static void reduce(weft_dim_table *table, weft_dim a, weft_dim b, division *d) {
    *d = (division){{0, NULL}, weft_dim_poly_of(table, a), weft_dim_poly_of(table, b), {1, 0, NULL}, {0, NULL}};
    for (bool again = true; again && d->rest.count > 0 && d->divisor.count > 0;) {
        int64_t number;
        split(table, d, false);
        if (d->rest.count <= 0) return;
        cancel(table, d);
        again = poly_is_number(d->divisor, &number) && drop(table, d, number);
    }
}

/* rest // divisor is one known number: decided by bounds. */
static bool decided(weft_dim_table *table, const division *d, int64_t *out_quotient) {
    int64_t minimum, maximum, number, low, high;
    weft_dim_bounds_of_poly(table, d->rest, &minimum, &maximum);
    if (poly_is_number(d->divisor, &number)) {
        if (number <= 0 || minimum == INT64_MIN || maximum == INT64_MAX) return false;
        *out_quotient = floor_number(minimum, number);
        return *out_quotient == floor_number(maximum, number);
    }
    if (d->rest.count == 1 && d->rest.terms[0].count == 1 && d->rest.terms[0].coefficient == 1) {
        weft_dim_node node = weft_dim_get(table, d->rest.terms[0].atoms[0]);
        *out_quotient = 0;
        if (node.kind == WEFT_DIM_MODULO && node.b == weft_dim_poly_build(table, d->divisor)) return true;
    }
    weft_dim_poly gap = weft_dim_poly_add(table, d->rest, d->divisor, -1);
    if (gap.count < 0) return false;
    weft_dim_bounds_of_poly(table, gap, &low, &high);
    *out_quotient = 0;
    return minimum >= 0 && high < 0;
}

/* The trivial cases of both divisions. */
static bool divide_simple(weft_dim_table *table, weft_dim a, weft_dim b, bool modulo, weft_dim *out_result) {
    int64_t minimum, maximum;
    *out_result = WEFT_DIM_INVALID;
    if (!weft_dim_is_usable(table, a) || !weft_dim_is_usable(table, b)) return true;
    weft_dim_bounds(table, b, &minimum, &maximum);
    if (maximum <= 0) return true;
    if (a >= 0 && b >= 0) *out_result = modulo ? a % b : a / b;
    if (a == 0) *out_result = 0;
    if (b == 1) *out_result = modulo ? 0 : a;
    return *out_result != WEFT_DIM_INVALID;
}

weft_dim weft_dim_divide_floor(weft_dim_table *table, weft_dim a, weft_dim b) {
    weft_dim result;
    if (divide_simple(table, a, b, false, &result)) return result;
    if (weft_dim_recall(table, WEFT_DIM_FLOOR_DIVIDE, a, b, &result)) return result;
    division d;
    int64_t quotient;
    reduce(table, a, b, &d);
    if (d.rest.count < 0 || d.divisor.count < 0 || d.quotient.count < 0) return WEFT_DIM_INVALID;
    if (d.rest.count && decided(table, &d, &quotient)) {
        d.quotient = weft_dim_poly_add(table, d.quotient, weft_dim_poly_constant(table, quotient), 1);
    } else if (d.rest.count) {
        weft_dim rest = weft_dim_poly_build(table, d.rest), divisor = weft_dim_poly_build(table, d.divisor);
        if (rest == WEFT_DIM_INVALID || divisor == WEFT_DIM_INVALID) return WEFT_DIM_INVALID;
        weft_dim atom = divisor == 1 ? rest : quotient_atom(table, rest, divisor);
        d.quotient = weft_dim_poly_add(table, d.quotient, weft_dim_poly_of(table, atom), 1);
    }
    return weft_dim_remember(table, WEFT_DIM_FLOOR_DIVIDE, a, b, weft_dim_poly_build(table, d.quotient));
}

weft_dim weft_dim_modulo(weft_dim_table *table, weft_dim a, weft_dim b) {
    weft_dim result;
    if (divide_simple(table, a, b, true, &result)) return result;
    if (weft_dim_recall(table, WEFT_DIM_MODULO, a, b, &result)) return result;
    division d;
    int64_t quotient;
    reduce(table, a, b, &d);
    if (d.rest.count < 0 || d.divisor.count < 0 || d.modulo_offset.count < 0) return WEFT_DIM_INVALID;
    if (d.rest.count) {
        weft_dim_poly left;
        if (decided(table, &d, &quotient)) {
            left = weft_dim_poly_add(table, d.rest, d.divisor, -quotient);
        } else {
            weft_dim rest = weft_dim_poly_build(table, d.rest), divisor = weft_dim_poly_build(table, d.divisor);
            if (rest == WEFT_DIM_INVALID || divisor == WEFT_DIM_INVALID) return WEFT_DIM_INVALID;
            left = divisor == 1 ? (weft_dim_poly){0, NULL}
                                : weft_dim_poly_of(table, weft_dim_intern_atom(table, WEFT_DIM_MODULO, rest, divisor));
        }
        left = weft_dim_poly_times_term(table, left, &d.cancelled);
        d.modulo_offset = weft_dim_poly_add(table, d.modulo_offset, left, 1);
    }
    return weft_dim_remember(table, WEFT_DIM_MODULO, a, b, weft_dim_poly_build(table, d.modulo_offset));
}

weft_dim weft_dim_divide_ceil(weft_dim_table *table, weft_dim a, weft_dim b) {
    weft_dim less = weft_dim_add(table, b, weft_dim_number(table, -1));
    return weft_dim_divide_floor(table, weft_dim_add(table, a, less), b);
}

bool weft_dim_divide_exact(weft_dim_table *table, weft_dim a, weft_dim b, weft_dim *out_quotient) {
    *out_quotient = WEFT_DIM_INVALID;
    if (!weft_dim_is_usable(table, a) || !weft_dim_is_usable(table, b) || b == 0) return false;
    division d = {{0, NULL}, weft_dim_poly_of(table, a), weft_dim_poly_of(table, b), {1, 0, NULL}, {0, NULL}};
    if (d.rest.count < 0 || d.divisor.count <= 0) return false;
    split(table, &d, true);
    if (d.rest.count) return false;
    *out_quotient = weft_dim_poly_build(table, d.quotient);
    return *out_quotient != WEFT_DIM_INVALID;
}
