/* Arenas, arrays, texts, maps: contents, growth, and survival of every single allocation failure. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/text.h"
#include "tests/base/base.h"

/* Returns false when an allocation failed. */
static bool fill_arena(weft_allocator allocator) {
    weft_arena arena;
    weft_arena_init(allocator, &arena);
    bool fine = true;
    for (size_t i = 0; i < 300 && fine; i++) {
        size_t bytes = i % 50 == 49 ? 100000 : i * 3;
        unsigned char *p = weft_arena_allocate(&arena, bytes);
        fine = p != NULL;
        if (!p) break;
        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        for (size_t k = 0; k < bytes; k++)
            if (p[k]) ck_abort_msg("memory of an arena is not zero");
        memset(p, 0xee, bytes);
    }
    if (fine) {
        char *text = weft_arena_format(&arena, "%s %d", "n", 5);
        fine = text != NULL;
        if (text) ck_assert_str_eq(text, "n 5");
    }
    weft_arena_deinit(&arena);
    return fine;
}

static bool fill_map(weft_allocator allocator) {
    weft_map map;
    weft_map_init(allocator, &map);
    bool fine = true;
    char key[64];
    for (int i = 0; i < 500 && fine; i++) {
        int n = snprintf(key, sizeof key, i % 2 ? "k%d" : "a key longer than sixteen bytes %d", i);
        fine = weft_map_put(&map, key, (size_t)n, (void *)(intptr_t)(i + 1));
        if (fine && i % 3 == 0) weft_map_remove(&map, key, (size_t)n);
    }
    if (fine) {
        ck_assert_uint_eq(map.count, 333);
        int previous = 0, seen = 0;
        size_t cursor = 0;
        void *value;
        while (weft_map_next(&map, &cursor, NULL, NULL, &value)) {
            ck_assert_int_gt((int)(intptr_t)value, previous); /* insertion order */
            previous = (int)(intptr_t)value;
            ck_assert_int_ne((previous - 1) % 3, 0);
            seen++;
        }
        ck_assert_int_eq(seen, 333);
        ck_assert_ptr_eq(weft_map_find(&map, "k499", 4), (void *)(intptr_t)500);
        ck_assert_ptr_null(weft_map_find(&map, "k3", 2));
        ck_assert(weft_map_put(&map, "k499", 4, NULL) && weft_map_has(&map, "k499", 4));
        ck_assert(!weft_map_has(&map, "", 0));
    }
    weft_map_deinit(&map);
    return fine;
}

static bool fill_text(weft_allocator allocator) {
    weft_text text;
    weft_text_init(allocator, &text);
    ck_assert_str_eq(weft_text_string(&text), "");
    for (int i = 0; i < 100; i++) weft_text_append(&text, "%d,", i);
    weft_text_append_quoted(&text, "a\"\\\n\x01z", 6);
    bool fine = !text.failed;
    expect_code(weft_text_status(&text), fine ? WEFT_OK : WEFT_OUT_OF_MEMORY);
    if (fine) ck_assert_ptr_nonnull(strstr(weft_text_string(&text), "98,99,\"a\\\"\\\\\\n\\u0001z\""));
    weft_text_deinit(&text);
    return fine;
}

START_TEST(failures) {
    bool (*const fill[])(weft_allocator) = {fill_arena, fill_map, fill_text};
    for (size_t f = 0; f < 3; f++) {
        for (size_t n = 1;; n++) {
            counting_allocator counting = {.fail_at = n};
            bool fine = fill[f](counting_allocator_get(&counting));
            ck_assert_uint_eq(counting.live_bytes, 0);
            ck_assert_int_eq(fine, counting.requests < n);
            if (fine) break;
        }
    }
}
END_TEST

START_TEST(doubles) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {1, "1"},
                 {-2.5, "-2.5"},
                 {0.1, "0.1"},
                 {1e-5, "0.00001"},
                 {1e-6, "1e-6"},
                 {1234567, "1234567"},
                 {1e17, "1e17"},
                 {1e16, "10000000000000000"},
                 {1.5e300, "1.5e300"},
                 {5e-324, "5e-324"},
                 {0.30000000000000004, "0.30000000000000004"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        weft_text_append_double(&text, cases[i].value);
        ck_assert_str_eq(weft_text_string(&text), cases[i].text);
        double back;
        ck_assert(weft_text_parse_double(text.data, text.length, &back));
        ck_assert(!memcmp(&back, &cases[i].value, sizeof back));
        weft_text_deinit(&text);
    }
    double value;
    ck_assert(!weft_text_parse_double("1.5x", 4, &value) && !weft_text_parse_double("", 0, &value));
    ck_assert(weft_text_parse_double("1.5x", 3, &value) && value == 1.5);
}
END_TEST

START_TEST(hash) {
    uint64_t seen[64];
    unsigned char zeros[64] = {0};
    for (size_t n = 0; n < 64; n++) { /* equal bytes, different lengths */
        seen[n] = weft_hash(zeros, n, 0);
        for (size_t k = 0; k < n; k++) ck_assert_uint_ne(seen[k], seen[n]);
    }
    int flipped = 0;
    for (int bit = 0; bit < 512; bit++) {
        zeros[bit / 8] ^= (unsigned char)(1 << bit % 8);
        flipped += __builtin_popcountll(weft_hash(zeros, 64, 0) ^ weft_hash((unsigned char[64]){0}, 64, 0));
        zeros[bit / 8] = 0;
    }
    ck_assert_int_gt(flipped, 512 * 30); /* of 64: half of them on average */
    ck_assert_int_lt(flipped, 512 * 34);
    ck_assert_uint_ne(weft_hash("a", 1, 0), weft_hash("a", 1, 1));
}
END_TEST

Suite *memory_suite(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_add_test(tests, failures);
    tcase_add_test(tests, doubles);
    tcase_add_test(tests, hash);
    suite_add_tcase(suite, tests);
    return suite;
}
