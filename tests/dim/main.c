/* Symbolic extents: algebra against random evaluation, canonical forms, text, tables, failures. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/dim.h"
#include "base/guard.h"

typedef struct counting_allocator {
    long left; /* allocations until failure; negative = none fails */
    long live;
} counting_allocator;

static void *counting_resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    counting_allocator *counter = self;
    weft_allocator system = weft_allocator_system();
    if (new_bytes > old_bytes) {
        if (!counter->left) return NULL;
        if (counter->left > 0) counter->left--;
    }
    void *result = system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
    if (!pointer && result) counter->live++;
    if (pointer && !new_bytes) counter->live--;
    return result;
}

static uint64_t state = 88172645463325252u;
static int64_t draw(int64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (uint64_t)below);
}

static weft_dim_table *table;
static weft_dim B, H, W, C8;

static void set_up(void) {
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &table));
    B = weft_dim_symbol(table, "B", 0, INT64_MAX, 1, WEFT_SYMBOL_DECLARED);
    H = weft_dim_symbol(table, "H", 1, 1000, 1, WEFT_SYMBOL_DECLARED);
    W = weft_dim_symbol(table, "W", 3, 9, 3, WEFT_SYMBOL_ANONYMOUS);
    C8 = weft_dim_symbol(table, "C", 0, INT64_MAX, 8, WEFT_SYMBOL_DECLARED);
}
static void tear_down(void) { weft_dim_table_release(table); }

static weft_dim number(int64_t value) { return weft_dim_number(table, value); }
static weft_dim add(weft_dim a, weft_dim b) { return weft_dim_add(table, a, b); }
static weft_dim sub(weft_dim a, weft_dim b) { return weft_dim_subtract(table, a, b); }
static weft_dim mul(weft_dim a, weft_dim b) { return weft_dim_multiply(table, a, b); }
static weft_dim quo(weft_dim a, weft_dim b) { return weft_dim_divide_floor(table, a, b); }
static weft_dim rem(weft_dim a, weft_dim b) { return weft_dim_modulo(table, a, b); }

static void assert_text(weft_dim dim, const char *wanted) {
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_dim_print(table, dim, &text);
    ck_assert_str_eq(weft_text_string(&text), wanted);
    weft_text_deinit(&text);
}

START_TEST(canonical_polynomials) {
    ck_assert_int_eq(add(B, H), add(H, B));
    ck_assert_int_eq(sub(add(B, H), H), B);
    ck_assert_int_eq(sub(B, B), 0);
    ck_assert_int_eq(mul(add(B, 1), sub(B, 1)), sub(mul(B, B), 1));
    ck_assert_int_eq(mul(add(B, H), W), add(mul(W, B), mul(H, W)));
    assert_text(add(mul(4, B), 1), "B*4+1");
    assert_text(sub(mul(B, W), mul(H, 2)), "B*W-H*2");
    assert_text(sub(0, B), "-B");
    assert_text(number(-7), "-7");
    ck_assert_int_eq(weft_dim_get(table, add(B, number(-1))).kind, WEFT_DIM_ADD);
    ck_assert_int_eq(weft_dim_get(table, 12).number, 12);
}
END_TEST

START_TEST(divisions) {
    ck_assert_int_eq(quo(mul(B, 4), 4), B);
    ck_assert_int_eq(quo(add(mul(B, 4), 3), 4), B);
    ck_assert_int_eq(rem(add(mul(B, 4), 3), 4), 3);
    ck_assert_int_eq(quo(add(mul(B, 9), sub(W, 1)), 9), B); /* 0 <= W-1 < 9 */
    ck_assert_int_eq(quo(mul(B, mul(H, W)), mul(H, W)), B);
    ck_assert_int_eq(quo(add(mul(B, 32), rem(H, 8)), 8), mul(B, 4));
    ck_assert_int_eq(quo(add(mul(B, 8), rem(H, 8)), 32), quo(B, 4));
    ck_assert_int_eq(rem(C8, 4), 0);
    ck_assert_int_eq(mul(quo(C8, 8), 8), C8);
    ck_assert_int_eq(mul(quo(C8, 8), 4), quo(C8, 2));
    ck_assert_int_eq(quo(quo(B, 3), 5), quo(B, 15));
    ck_assert_int_eq(quo(add(quo(B, 3), 2), 5), quo(add(B, 6), 15));
    ck_assert_int_eq(add(mul(quo(B, 5), 5), rem(B, 5)), B);
    ck_assert_int_eq(add(mul(mul(H, quo(B, 6)), 6), mul(rem(B, 6), H)), mul(B, H));
    ck_assert_int_eq(add(mul(quo(B, H), H), rem(B, H)), B);
    ck_assert_int_eq(rem(rem(B, 8), 8), rem(B, 8));
    ck_assert_int_eq(quo(sub(0, 7), 2), number(-4));
    ck_assert_int_eq(rem(number(-7), 2), 1);
    ck_assert_int_eq(quo(add(C8, B), 8), add(quo(C8, 8), quo(B, 8)));
    ck_assert_int_eq(weft_dim_divide_ceil(table, C8, 8), quo(C8, 8));
    ck_assert_int_eq(quo(mul(add(B, 1), add(H, W)), add(H, W)), add(B, 1));
    ck_assert_int_eq(quo(rem(B, H), H), 0);
    assert_text(quo(B, 2), "(B//2)");
    assert_text(rem(add(B, 1), H), "((B+1)%H)");
    weft_dim quotient;
    ck_assert(weft_dim_divide_exact(table, mul(add(B, 1), 6), 3, &quotient));
    ck_assert_int_eq(quotient, mul(add(B, 1), 2));
    ck_assert(!weft_dim_divide_exact(table, add(B, 1), 3, &quotient));
    ck_assert(!weft_dim_divide_exact(table, B, H, &quotient));
    ck_assert(weft_dim_divide_exact(table, sub(mul(B, B), mul(H, H)), add(B, H), &quotient));
    ck_assert_int_eq(quotient, sub(B, H));
    ck_assert(weft_dim_divide_exact(table, 0, H, &quotient) && quotient == 0);
    ck_assert(weft_dim_divide_exact(table, C8, 4, &quotient) && mul(quotient, 4) == C8);
}
END_TEST

START_TEST(choices) {
    ck_assert_int_eq(weft_dim_minimum(table, H, 1000), H);
    ck_assert_int_eq(weft_dim_maximum(table, H, 1), H);
    ck_assert_int_eq(weft_dim_maximum(table, B, add(B, H)), add(B, H));
    weft_dim a = weft_dim_minimum(table, B, weft_dim_minimum(table, H, C8));
    ck_assert_int_eq(a, weft_dim_minimum(table, weft_dim_minimum(table, C8, B), H));
    ck_assert_int_eq(weft_dim_minimum(table, a, B), a);
    assert_text(weft_dim_maximum(table, B, H), "max(B,H)");
}
END_TEST

static void assert_bounds(weft_dim dim, int64_t low, int64_t high, int64_t divisor) {
    int64_t minimum, maximum;
    weft_dim_bounds(table, dim, &minimum, &maximum);
    ck_assert_int_eq(minimum, low);
    ck_assert_int_eq(maximum, high);
    ck_assert_int_eq(weft_dim_divisor(table, dim), divisor);
}

START_TEST(bounds_and_divisors) {
    assert_bounds(B, 0, INT64_MAX, 1);
    assert_bounds(mul(H, W), 3, 9000, 3);
    assert_bounds(sub(H, W), -8, 997, 1);
    assert_bounds(mul(C8, W), 0, INT64_MAX, 24);
    assert_bounds(sub(0, C8), INT64_MIN, 0, 8);
    assert_bounds(quo(H, 4), 0, 250, 1);
    assert_bounds(rem(B, 10), 0, 9, 1);
    assert_bounds(quo(C8, 4), 0, INT64_MAX, 2);
    assert_bounds(weft_dim_minimum(table, B, H), 0, 1000, 1);
    assert_bounds(weft_dim_maximum(table, B, H), 1, INT64_MAX, 1);
    assert_bounds(0, 0, 0, 0);
    assert_bounds(12, 12, 12, 12);
    ck_assert(weft_dim_known_different(table, H, 0));
    ck_assert(weft_dim_known_different(table, B, add(B, 1)));
    ck_assert(weft_dim_known_different(table, C8, add(mul(B, 4), 3)));
    ck_assert(!weft_dim_known_different(table, B, H));
    ck_assert(weft_dim_known_equal(table, add(B, 0), B));
    ck_assert(!weft_dim_known_equal(table, WEFT_DIM_INVALID, WEFT_DIM_INVALID));
    weft_condition less = {W, 10, WEFT_RELATION_LT}, maybe = {H, W, WEFT_RELATION_LE}, never = {W, 2, WEFT_RELATION_LE};
    ck_assert(weft_condition_known(table, &less));
    ck_assert(!weft_condition_known(table, &maybe) && !weft_condition_known(table, &never));
}
END_TEST

/* A random expression and its value computed beside it. ok = false when evaluation must fail. */
static weft_dim random_dim(int depth, const int64_t *symbols, int64_t *value, bool *ok) {
    if (!depth || !draw(5)) {
        int64_t which = draw(6);
        if (which < 4) {
            *value = symbols[which];
            return weft_dim_symbol_value(table, (int)which);
        }
        *value = draw(3) ? draw(20) : -draw(20);
        return number(*value);
    }
    int64_t x, y;
    int64_t operation = draw(7);
    weft_dim a = random_dim(depth - 1, symbols, &x, ok), b;
    if (operation == 3 || operation == 4) { /* divisors stay positive */
        if (draw(2)) {
            y = 1 + draw(12);
            b = y;
        } else {
            y = symbols[1];
            b = H;
        }
        if (draw(4) == 0) {
            y *= symbols[2];
            b = mul(b, W);
        }
    } else {
        b = random_dim(depth - 1, symbols, &y, ok);
    }
    switch (operation) {
    case 0: *ok &= !__builtin_add_overflow(x, y, value); return add(a, b);
    case 1: *ok &= !__builtin_sub_overflow(x, y, value); return sub(a, b);
    case 2: *ok &= !__builtin_mul_overflow(x, y, value); return mul(a, b);
    case 3: *value = x / y - (x % y < 0); return quo(a, b);
    case 4: *value = x % y + (x % y < 0 ? y : 0); return rem(a, b);
    case 5: *value = x < y ? x : y; return weft_dim_minimum(table, a, b);
    default: *value = x > y ? x : y; return weft_dim_maximum(table, a, b);
    }
}

START_TEST(random_expressions) {
    int checked = 0;
    for (int trial = 0; trial < 20000; trial++) {
        int64_t symbols[4] = {draw(40), 1 + draw(30), 3 + 3 * draw(3), 8 * draw(12)}, value = 0, evaluated;
        bool ok = true;
        weft_dim dim = random_dim(1 + (int)draw(4), symbols, &value, &ok);
        if (!ok || dim == WEFT_DIM_INVALID) continue; /* INVALID: an intermediate coefficient overflowed */
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        weft_dim_print(table, dim, &text);
        ck_assert_msg(weft_dim_evaluate(table, dim, symbols, &evaluated), "%s", weft_text_string(&text));
        ck_assert_msg(evaluated == value, "%s: %lld, not %lld (B=%lld H=%lld W=%lld C=%lld)", weft_text_string(&text),
                      (long long)evaluated, (long long)value, (long long)symbols[0], (long long)symbols[1],
                      (long long)symbols[2], (long long)symbols[3]);
        int64_t minimum, maximum, divisor = weft_dim_divisor(table, dim);
        weft_dim_bounds(table, dim, &minimum, &maximum);
        ck_assert_msg(minimum <= value && value <= maximum, "%s", weft_text_string(&text));
        ck_assert_msg(divisor ? value % divisor == 0 : value == 0, "%s", weft_text_string(&text));
        weft_dim again;
        ck_assert_ptr_null(weft_dim_parse(table, text.data, text.length, &again));
        ck_assert_msg(again == dim, "%s does not read back", weft_text_string(&text));
        weft_text_deinit(&text);
        checked++;
    }
    ck_assert_int_gt(checked, 15000);
}
END_TEST

START_TEST(substitution_and_copies) {
    for (int trial = 0; trial < 3000; trial++) {
        int64_t symbols[4] = {draw(40), 1 + draw(30), 3 + 3 * draw(3), 8 * draw(12)}, value = 0, evaluated;
        bool ok = true;
        weft_dim dim = random_dim(3, symbols, &value, &ok);
        if (!ok || dim == WEFT_DIM_INVALID) continue;
        weft_dim all[4] = {symbols[0], symbols[1], symbols[2], symbols[3]};
        weft_dim some[4] = {WEFT_DIM_ANY, symbols[1], WEFT_DIM_ANY, WEFT_DIM_ANY};
        weft_dim folded = weft_dim_substitute(table, dim, all);
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        weft_dim_print(table, dim, &text);
        weft_text_append(&text, " -> ");
        weft_dim_print(table, folded, &text);
        ck_assert_msg(folded == number(value), "%s, not %lld", weft_text_string(&text), (long long)value);
        weft_text_deinit(&text);
        weft_dim partial = weft_dim_substitute(table, dim, some);
        ck_assert(weft_dim_evaluate(table, partial, symbols, &evaluated) && evaluated == value);
        if (trial % 10) continue;
        weft_dim_table *other;
        ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &other));
        weft_dim_symbol(other, "W", 0, 100, 1, WEFT_SYMBOL_DECLARED);
        int64_t other_symbols[4] = {0};
        weft_dim copied = weft_dim_copy(table, dim, other);
        for (int i = 0; i < weft_dim_symbol_count(other); i++)
            other_symbols[i] = symbols[weft_dim_symbol_find(table, weft_dim_symbol_get(other, i)->name)];
        ck_assert(weft_dim_evaluate(other, copied, other_symbols, &evaluated) && evaluated == value);
        weft_dim_table_release(other);
    }
}
END_TEST

START_TEST(names) {
    weft_dim odd = weft_dim_symbol(table, "batch size/\"x\"", 0, 5, 1, WEFT_SYMBOL_ANONYMOUS);
    weft_dim min = weft_dim_symbol(table, "min", 0, 5, 1, WEFT_SYMBOL_ANONYMOUS);
    weft_dim twin = weft_dim_symbol(table, "B", 0, 5, 1, WEFT_SYMBOL_ANONYMOUS), parsed;
    ck_assert_str_eq(weft_dim_symbol_get(table, weft_dim_symbol_count(table) - 1)->name, "B_1");
    weft_dim sum = add(add(odd, mul(min, 3)), twin);
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_dim_print(table, sum, &text);
    ck_assert_ptr_null(weft_dim_parse(table, text.data, text.length, &parsed));
    ck_assert_int_eq(parsed, sum);
    weft_text_deinit(&text);
}
END_TEST

static void assert_refused(const char *text) {
    weft_dim dim;
    weft_status status = weft_dim_parse(table, text, strlen(text), &dim);
    ck_assert_msg(status != NULL, "\"%s\" was accepted", text);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    ck_assert_int_eq(dim, WEFT_DIM_INVALID);
    weft_status_release(status);
}

START_TEST(refusals) {
    const char *bad[] = {"",       "B+",
                         "*",      "(B",
                         "B)",     "Q",
                         "B//0",   "B%0",
                         "B//-1",  "min(B)",
                         "min(B,", "99999999999999999999",
                         "B 2",    "9223372036854775807+1",
                         "\"B",    "B/2",
                         "--",     "max(B,H"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_refused(bad[i]);
    char deep[400];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = 0;
    assert_refused(deep);
    memset(deep, '-', sizeof deep - 1);
    assert_refused(deep);
    char wide[4096] = "1";
    for (int i = 0; i < 12; i++) strcat(wide, "*(B+H+W+C+1)"); /* thousands of monomials */
    assert_refused(wide);
    ck_assert_int_eq(number(INT64_MIN), WEFT_DIM_INVALID);
    ck_assert_int_eq(add(INT64_MAX, 1), WEFT_DIM_INVALID);
    ck_assert_int_eq(mul(INT64_MAX, 2), WEFT_DIM_INVALID);
    ck_assert_int_eq(mul(mul(B, INT64_MAX), 2), WEFT_DIM_INVALID);
    ck_assert_int_eq(add(mul(B, INT64_MAX), B), WEFT_DIM_INVALID);
    ck_assert_int_eq(quo(B, 0), WEFT_DIM_INVALID);
    ck_assert_int_eq(add(WEFT_DIM_INVALID, 1), WEFT_DIM_INVALID);
    ck_assert_int_eq(mul(WEFT_DIM_INVALID, 0), WEFT_DIM_INVALID);
    ck_assert_int_eq(weft_dim_minimum(table, WEFT_DIM_ANY, B), WEFT_DIM_INVALID);
    ck_assert_int_eq(weft_dim_symbol(table, "x", 5, 4, 1, WEFT_SYMBOL_DECLARED), WEFT_DIM_INVALID);
    int64_t huge[4] = {INT64_MAX, 1, 3, 8}, value;
    ck_assert(!weft_dim_evaluate(table, add(B, 1), huge, &value));
    ck_assert(!weft_dim_evaluate(table, mul(B, 2), huge, &value));
    ck_assert(!weft_dim_evaluate(table, quo(H, B), (int64_t[]){0, 1, 3, 8}, &value));
    ck_assert(!weft_dim_evaluate(table, WEFT_DIM_INVALID, huge, &value));
}
END_TEST

/* Texts near the grammar: every one is refused with INVALID_DATA or reads back from its own print. */
START_TEST(random_texts) {
    static const char *const tokens[] = {"B", "H", "W",  "C",  "0", "1",  "7", "64",   "9223372036854775807",
                                         "+", "-", "*",  "//", "%", "(",  ")", "min(", "max(",
                                         ",", " ", "\"", "?",  "@", "B.", "_"};
    enum { TOKENS = sizeof tokens / sizeof *tokens };
    int read = 0;
    for (int trial = 0; trial < 100000; trial++) {
        char text[512] = "";
        bool alternate = draw(4) != 0; /* operand, operator, operand ...: mostly well formed */
        for (int64_t i = 0, count = 1 + 2 * draw(10); i < count; i++)
            strcat(text, tokens[!alternate ? draw(TOKENS) : i % 2 ? 9 + draw(5) : draw(9)]);
        weft_dim dim, again;
        weft_status status = weft_dim_parse(table, text, strlen(text), &dim);
        ck_assert_int_eq(status != NULL, dim == WEFT_DIM_INVALID);
        ck_assert_msg(!status || weft_status_code(status) == WEFT_INVALID_DATA, "%s", text);
        weft_status_release(status);
        if (dim == WEFT_DIM_INVALID) continue;
        weft_text printed;
        weft_text_init(weft_allocator_system(), &printed);
        weft_dim_print(table, dim, &printed);
        ck_assert_ptr_null(weft_dim_parse(table, printed.data, printed.length, &again));
        ck_assert_msg(again == dim, "%s reads as %s, which reads as another", text, printed.data);
        weft_text_deinit(&printed);
        read++;
    }
    ck_assert_int_gt(read, 10000);
}
END_TEST

START_TEST(conditions) {
    int64_t symbols[4] = {7, 7, 3, 8};
    weft_condition equal = {B, H, WEFT_RELATION_EQ}, less = {W, B, WEFT_RELATION_LT},
                   overflow = {mul(B, B), 1, WEFT_RELATION_NE};
    ck_assert(weft_condition_holds(table, &equal, symbols));
    ck_assert(weft_condition_holds(table, &less, symbols));
    ck_assert(weft_condition_holds(table, &overflow, symbols));
    const weft_relation relations[] = {WEFT_RELATION_EQ, WEFT_RELATION_NE, WEFT_RELATION_LT, WEFT_RELATION_LE};
    const bool same[] = {true, false, false, true}, smaller[] = {false, true, true, true},
               larger[] = {false, true, false, false};
    for (int i = 0; i < 4; i++) {
        weft_condition at = {B, H, relations[i]}, below = {W, B, relations[i]}, above = {B, W, relations[i]};
        ck_assert(weft_condition_holds(table, &at, symbols) == same[i]);
        ck_assert(weft_condition_holds(table, &below, symbols) == smaller[i]);
        ck_assert(weft_condition_holds(table, &above, symbols) == larger[i]);
    }
    symbols[0] = INT64_MAX;
    ck_assert(!weft_condition_holds(table, &equal, symbols));
    ck_assert(!weft_condition_holds(table, &overflow, symbols));
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_condition_print(table, &less, &text);
    ck_assert_str_eq(weft_text_string(&text), "W < B");
    weft_text_deinit(&text);
}
END_TEST

/* Every allocation fails once: the result is INVALID or right, nothing leaks. */
START_TEST(memory_runs_out) {
    bool complete = false;
    for (long limit = 0; !complete; limit++) {
        ck_assert_int_lt(limit, 1000);
        counting_allocator counter = {limit, 0};
        weft_dim_table *small;
        weft_status status = weft_dim_table_create((weft_allocator){&counter, counting_resize}, &small);
        if (status) {
            ck_assert_int_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY);
            weft_status_release(status);
            ck_assert_int_eq(counter.live, 0);
            continue;
        }
        weft_dim a = weft_dim_symbol(small, "a", 0, INT64_MAX, 1, WEFT_SYMBOL_DECLARED), sum = a;
        weft_dim b = weft_dim_symbol(small, "b", 1, 100, 4, WEFT_SYMBOL_DECLARED);
        for (int i = 1; i < 60; i++) {
            weft_dim part = weft_dim_divide_floor(small, weft_dim_add(small, weft_dim_multiply(small, a, i), b), i + 1);
            sum = weft_dim_add(small, sum, weft_dim_maximum(small, part, weft_dim_modulo(small, b, i + 2)));
        }
        int64_t value = 0, wanted = 50, symbols[2] = {50, 8};
        for (int64_t i = 1; i < 60; i++) {
            int64_t part = (50 * i + 8) / (i + 1), other = 8 % (i + 2);
            wanted += part > other ? part : other;
        }
        if (sum != WEFT_DIM_INVALID) {
            ck_assert(weft_dim_evaluate(small, sum, symbols, &value));
            ck_assert_int_eq(value, wanted);
            complete = counter.left > 0;
        }
        weft_dim_table_release(small);
        ck_assert_int_eq(counter.live, 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dim");
    TCase *algebra = tcase_create("algebra");
    tcase_add_checked_fixture(algebra, set_up, tear_down);
    tcase_add_test(algebra, canonical_polynomials);
    tcase_add_test(algebra, divisions);
    tcase_add_test(algebra, choices);
    tcase_add_test(algebra, bounds_and_divisors);
    tcase_add_test(algebra, random_expressions);
    tcase_add_test(algebra, substitution_and_copies);
    tcase_add_test(algebra, names);
    tcase_add_test(algebra, refusals);
    tcase_add_test(algebra, random_texts);
    tcase_add_test(algebra, conditions);
    tcase_add_test(algebra, memory_runs_out);
    tcase_set_timeout(algebra, 60);
    suite_add_tcase(suite, algebra);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
