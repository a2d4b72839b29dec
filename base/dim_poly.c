/* Polynomials over atoms: addition, multiplication, and the two rewrites that tie floor division to its dividend.

   Rewrites, applied until none fits:
     exact:     c * (a // n) with n dividing a   ->  (c/g) * (a // (n/g)), g = gcd(c, n)
     remainder: c * (a % n) + c * n * (a // n)   ->  c * a
   Read next: dim_divide.c. */
#include "base/dim_table.h"

#include <string.h>

weft_dim_poly weft_dim_poly_invalid(void) { return (weft_dim_poly){-1, NULL}; }

weft_dim_poly weft_dim_poly_constant(weft_dim_table *table, int64_t value) {
    if (!value) return (weft_dim_poly){0, NULL};
    weft_dim_term *term = weft_arena_allocate(&table->arena, sizeof *term);
    if (!term || value == INT64_MIN) return weft_dim_poly_invalid();
    *term = (weft_dim_term){value, 0, NULL};
    return (weft_dim_poly){1, term};
}

weft_dim_poly weft_dim_poly_of(weft_dim_table *table, weft_dim dim) {
    if (dim >= 0) return weft_dim_poly_constant(table, dim);
    if (!weft_dim_is_usable(table, dim)) return weft_dim_poly_invalid();
    return weft_dim_entry_get(table, dim)->poly;
}

weft_dim_poly weft_dim_poly_add(weft_dim_table *table, weft_dim_poly a, weft_dim_poly b, int64_t scale) {
    if (a.count < 0 || b.count < 0) return weft_dim_poly_invalid();
    weft_dim_term *terms = weft_arena_allocate_array(&table->arena, (size_t)a.count + (size_t)b.count, sizeof *terms);
    if (!terms) return weft_dim_poly_invalid();
    int count = 0;
    for (int i = 0, j = 0; i < a.count || j < b.count;) {
        int order = i == a.count ? 1 : j == b.count ? -1 : weft_dim_term_compare(table, &a.terms[i], &b.terms[j]);
        weft_dim_term term;
        if (order < 0) {
            term = a.terms[i++];
        } else {
            term = b.terms[j++];
            if (__builtin_mul_overflow(term.coefficient, scale, &term.coefficient)) return weft_dim_poly_invalid();
            if (!order && __builtin_add_overflow(term.coefficient, a.terms[i++].coefficient, &term.coefficient))
                return weft_dim_poly_invalid();
        }
        if (term.coefficient == INT64_MIN) return weft_dim_poly_invalid();
        if (term.coefficient) terms[count++] = term;
    }
    return count > WEFT_DIM_TERMS_MAX ? weft_dim_poly_invalid() : (weft_dim_poly){count, terms};
}

static bool merge_atoms(weft_dim_table *table, const weft_dim_term *a, const weft_dim_term *b,
                        weft_dim_term *out_term) {
    int count = a->count + b->count, k = 0;
    weft_dim *atoms = weft_arena_allocate_array(&table->arena, (size_t)count, sizeof *atoms);
    if (!atoms || count > WEFT_DIM_DEGREE_MAX) return false;
    for (int i = 0, j = 0; k < count;) {
        bool left = j == b->count || (i < a->count && weft_dim_compare(table, a->atoms[i], b->atoms[j]) <= 0);
        atoms[k++] = left ? a->atoms[i++] : b->atoms[j++];
    }
    out_term->count = count;
    out_term->atoms = atoms;
    return !__builtin_mul_overflow(a->coefficient, b->coefficient, &out_term->coefficient) &&
           out_term->coefficient != INT64_MIN;
}

weft_dim_poly weft_dim_poly_times_term(weft_dim_table *table, weft_dim_poly a, const weft_dim_term *term) {
    if (a.count < 0 || !term->coefficient) return a.count < 0 ? a : (weft_dim_poly){0, NULL};
    weft_dim_term *terms = weft_arena_allocate_array(&table->arena, (size_t)a.count, sizeof *terms);
    if (!terms) return weft_dim_poly_invalid();
    for (int i = 0; i < a.count; i++)
        if (!merge_atoms(table, &a.terms[i], term, &terms[i])) return weft_dim_poly_invalid();
    return (weft_dim_poly){a.count, terms};
}

/* The term without its atom `skip`. */
static bool drop_atom(weft_dim_table *table, const weft_dim_term *term, int skip, weft_dim_term *out_rest) {
    weft_dim *atoms = weft_arena_allocate_array(&table->arena, (size_t)term->count, sizeof *atoms);
    if (!atoms) return false;
    int count = 0;
    for (int i = 0; i < term->count; i++)
        if (i != skip) atoms[count++] = term->atoms[i];
    *out_rest = (weft_dim_term){term->coefficient, count, atoms};
    return true;
}

/* poly - term + rest * value */
static weft_dim_poly replace(weft_dim_table *table, weft_dim_poly poly, const weft_dim_term *term,
                             const weft_dim_term *rest, weft_dim value) {
    weft_dim_poly without = weft_dim_poly_add(table, poly, (weft_dim_poly){1, term}, -1);
    weft_dim_poly product = weft_dim_poly_times_term(table, weft_dim_poly_of(table, value), rest);
    return weft_dim_poly_add(table, without, product, 1);
}

static bool rewrite_exact(weft_dim_table *table, weft_dim_poly *poly, const weft_dim_term *term, int index) {
    weft_dim_node node = weft_dim_get(table, term->atoms[index]);
    if (node.kind != WEFT_DIM_FLOOR_DIVIDE || node.b <= 1) return false;
    int64_t divisor = weft_dim_divisor(table, node.a), common = weft_dim_gcd(term->coefficient, node.b);
    if (common == 1 || divisor % node.b) return false;
    weft_dim_term rest;
    if (!drop_atom(table, term, index, &rest)) {
        *poly = weft_dim_poly_invalid();
        return true;
    }
    rest.coefficient /= common;
    *poly = replace(table, *poly, term, &rest, weft_dim_divide_floor(table, node.a, node.b / common));
    return true;
}

static bool rewrite_remainder(weft_dim_table *table, weft_dim_poly *poly, const weft_dim_term *term, int index) {
    weft_dim_node node = weft_dim_get(table, term->atoms[index]);
    if (node.kind != WEFT_DIM_MODULO) return false;
    weft_dim_term rest;
    if (!drop_atom(table, term, index, &rest)) {
        *poly = weft_dim_poly_invalid();
        return true;
    }
    /* c * rest * n * (a // n), which must be one term and present */
    weft_dim quotient = weft_dim_divide_floor(table, node.a, node.b);
    weft_dim_poly whole = weft_dim_poly_of(table, weft_dim_multiply(table, quotient, node.b));
    if (whole.count != 1) return false;
    weft_dim_poly wanted = weft_dim_poly_times_term(table, whole, &rest);
    if (wanted.count != 1) return false;
    for (int i = 0; i < poly->count; i++) {
        if (weft_dim_term_compare(table, &poly->terms[i], &wanted.terms[0])) continue;
        if (poly->terms[i].coefficient != wanted.terms[0].coefficient) return false;
        weft_dim_poly without = weft_dim_poly_add(table, *poly, wanted, -1);
        *poly = replace(table, without, term, &rest, node.a);
        return true;
    }
    return false;
}

static weft_dim_poly rewrite(weft_dim_table *table, weft_dim_poly poly) {
    for (bool changed = true; changed && poly.count > 0;) {
        changed = false;
        for (int i = 0; i < poly.count && !changed; i++) {
            const weft_dim_term *term = &poly.terms[i];
            for (int k = 0; k < term->count && !changed; k++)
                changed = rewrite_exact(table, &poly, term, k) ||
                          (poly.count > 1 && rewrite_remainder(table, &poly, term, k));
        }
    }
    return poly;
}

/* a * b * c * 4 as a chain from the left */
static weft_dim build_term(weft_dim_table *table, const weft_dim_term *term) {
    if (!term->count) return weft_dim_number(table, term->coefficient);
    weft_dim chain = term->atoms[0];
    weft_dim_term *prefixes = weft_arena_allocate_array(&table->arena, (size_t)term->count, sizeof *prefixes);
    if (!prefixes) return WEFT_DIM_INVALID;
    for (int i = 1; i < term->count && chain != WEFT_DIM_INVALID; i++) {
        prefixes[i] = (weft_dim_term){1, i + 1, term->atoms};
        chain = weft_dim_intern(table, WEFT_DIM_MULTIPLY, chain, term->atoms[i], 0, (weft_dim_poly){1, &prefixes[i]});
    }
    if (term->coefficient == 1 || chain == WEFT_DIM_INVALID) return chain;
    weft_dim factor = weft_dim_number(table, term->coefficient);
    if (factor == WEFT_DIM_INVALID) return factor;
    return weft_dim_intern(table, WEFT_DIM_MULTIPLY, chain, factor, 0, (weft_dim_poly){1, term});
}

weft_dim weft_dim_poly_build(weft_dim_table *table, weft_dim_poly poly) {
    poly = rewrite(table, poly);
    if (poly.count < 0) return WEFT_DIM_INVALID;
    if (!poly.count) return 0;
    weft_dim chain = build_term(table, &poly.terms[0]);
    for (int i = 1; i < poly.count && chain != WEFT_DIM_INVALID; i++) {
        weft_dim term = build_term(table, &poly.terms[i]);
        if (term == WEFT_DIM_INVALID) return term;
        chain = weft_dim_intern(table, WEFT_DIM_ADD, chain, term, 0, (weft_dim_poly){i + 1, poly.terms});
    }
    return chain;
}

weft_dim weft_dim_add(weft_dim_table *table, weft_dim a, weft_dim b) {
    weft_dim result;
    if (!weft_dim_is_usable(table, a) || !weft_dim_is_usable(table, b)) return WEFT_DIM_INVALID;
    if (a >= 0 && b >= 0) return __builtin_add_overflow(a, b, &result) ? WEFT_DIM_INVALID : result;
    if (a == 0 || b == 0) return a ? a : b;
    if (weft_dim_recall(table, WEFT_DIM_ADD, a, b, &result)) return result;
    weft_dim_poly sum = weft_dim_poly_add(table, weft_dim_poly_of(table, a), weft_dim_poly_of(table, b), 1);
    return weft_dim_remember(table, WEFT_DIM_ADD, a, b, weft_dim_poly_build(table, sum));
}

weft_dim weft_dim_multiply(weft_dim_table *table, weft_dim a, weft_dim b) {
    weft_dim result;
    if (!weft_dim_is_usable(table, a) || !weft_dim_is_usable(table, b)) return WEFT_DIM_INVALID;
    if (a >= 0 && b >= 0) return __builtin_mul_overflow(a, b, &result) ? WEFT_DIM_INVALID : result;
    if (a == 0 || b == 0) return 0;
    if (a == 1 || b == 1) return a == 1 ? b : a;
    if (weft_dim_recall(table, WEFT_DIM_MULTIPLY, a, b, &result)) return result;
    weft_dim_poly x = weft_dim_poly_of(table, a), y = weft_dim_poly_of(table, b), product = {0, NULL};
    if (x.count < 0 || y.count < 0) return WEFT_DIM_INVALID;
    for (int i = 0; i < y.count; i++)
        product = weft_dim_poly_add(table, product, weft_dim_poly_times_term(table, x, &y.terms[i]), 1);
    return weft_dim_remember(table, WEFT_DIM_MULTIPLY, a, b, weft_dim_poly_build(table, product));
}

weft_dim weft_dim_subtract(weft_dim_table *table, weft_dim a, weft_dim b) {
    return weft_dim_add(table, a, weft_dim_multiply(table, b, weft_dim_number(table, -1)));
}
