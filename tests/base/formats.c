/* JSON and ZIP: right values, and that hostile input gives a status whatever byte is wrong. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/zip.h"
#include "tests/base/base.h"

START_TEST(json_values) {
    static const char text[] =
        " {\"a\": [1, -2.5e1, true, null, \"x\\n\\u00e9\\ud83d\\ude00\"], \"big\": 9223372036854775807,"
        "\"over\": 9223372036854775808, \"\": {}} ";
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_json *root;
    ck_ok(weft_json_parse(&arena, text, strlen(text), &root));
    const weft_json *a = weft_json_find(root, "a");
    ck_assert_uint_eq(a->length, 5);
    ck_assert(a->children[0].is_integer && a->children[0].integer == 1);
    ck_assert(!a->children[1].is_integer && a->children[1].number == -25.0);
    ck_assert(a->children[2].kind == WEFT_JSON_BOOL && a->children[2].boolean);
    ck_assert(a->children[3].kind == WEFT_JSON_NULL);
    ck_assert_str_eq(a->children[4].string, "x\n\xc3\xa9\xf0\x9f\x98\x80");
    ck_assert_uint_eq(a->children[4].length, 8);
    ck_assert(weft_json_find(root, "big")->integer == INT64_MAX);
    ck_assert(!weft_json_find(root, "over")->is_integer && weft_json_find(root, "over")->number == 0x1p63);
    ck_assert(weft_json_find(root, "")->kind == WEFT_JSON_OBJECT && !weft_json_find(root, "b"));
    weft_arena_deinit(&arena);
}
END_TEST

START_TEST(json_rejects) {
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,]",
                                      "[1 2]",
                                      "{\"a\":1,}",
                                      "{\"a\" 1}",
                                      "{a:1}",
                                      "01",
                                      "-",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "+1",
                                      "nul",
                                      "truex",
                                      "\"",
                                      "\"\\",
                                      "\"\\x\"",
                                      "\"\\u12g4\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\u0000\"",
                                      "\"\n\"",
                                      "\"\xff\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xe2\x82\"",
                                      "1 2",
                                      "{\"a\":1,\"a\":2}",
                                      "NaN",
                                      "[1}",
                                      "\"abc\\\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_arena arena;
        weft_arena_init(weft_allocator_system(), &arena);
        weft_json *root;
        weft_status status = weft_json_parse(&arena, bad[i], strlen(bad[i]), &root);
        ck_assert_msg(weft_status_code(status) == WEFT_INVALID_DATA && !root, "accepted %s", bad[i]);
        weft_status_release(status);
        weft_arena_deinit(&arena);
    }
    char deep[2000];
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_json *root;
    expect_code(weft_json_parse(&arena, deep, 2000, &root), WEFT_INVALID_DATA);
    ck_ok(weft_json_parse(&arena, deep + 900, 200, &root));
    weft_arena_deinit(&arena);
}
END_TEST

START_TEST(json_memory) {
    static const char text[] = "{\"key\": [[1,2,3,4,5,6,7,8,9,10], {\"b\": \"some text\"}, {\"c\": []}], \"z\": 1.5}";
    for (size_t n = 1;; n++) {
        counting_allocator counting = {.fail_at = n};
        weft_arena arena;
        weft_arena_init(counting_allocator_get(&counting), &arena);
        weft_json *root;
        weft_status status = weft_json_parse(&arena, text, strlen(text), &root);
        bool done = counting.requests < n;
        expect_code(status, done ? WEFT_OK : WEFT_OUT_OF_MEMORY);
        weft_arena_deinit(&arena);
        ck_assert_uint_eq(counting.live_bytes, 0);
        if (done) break;
    }
}
END_TEST

/* A small archive in memory; the caller frees it. */
static unsigned char *make_archive(size_t *out_bytes) {
    FILE *file = tmpfile();
    weft_zip_writer *writer;
    ck_assert_ptr_nonnull(file);
    ck_ok(weft_zip_writer_create(weft_allocator_system(), file, &writer));
    ck_ok(weft_zip_writer_add(writer, "manifest.json", "{\"a\":1}", 7, 1));
    for (uint32_t align = 1; align <= 65536; align *= 2) { /* also 65536: the field cannot hold every padding */
        char name[32];
        (void)snprintf(name, sizeof name, "aligned/%u", align);
        ck_ok(weft_zip_writer_add(writer, name, "0123456789abcdef", align % 16 + 1, align));
    }
    ck_ok(weft_zip_writer_add(writer, "empty", NULL, 0, 64));
    ck_ok(weft_zip_writer_finish(writer));
    weft_zip_writer_release(writer);
    *out_bytes = (size_t)ftell(file);
    unsigned char *data = aligned_alloc(65536, (*out_bytes + 65535) / 65536 * 65536);
    ck_assert_int_eq(fseek(file, 0, SEEK_SET), 0);
    ck_assert_uint_eq(fread(data, 1, *out_bytes, file), *out_bytes);
    fclose(file);
    return data;
}

START_TEST(zip_round_trip) {
    size_t bytes;
    unsigned char *data = make_archive(&bytes);
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_zip zip;
    ck_ok(weft_zip_open(&arena, data, bytes, &zip));
    ck_assert_uint_eq(zip.count, 19);
    const weft_zip_entry *entry = weft_zip_find(&zip, "manifest.json");
    ck_assert(entry && entry->bytes == 7 && !memcmp(entry->data, "{\"a\":1}", 7));
    for (uint32_t align = 1; align <= 65536; align *= 2) {
        char name[32];
        (void)snprintf(name, sizeof name, "aligned/%u", align);
        entry = weft_zip_find(&zip, name);
        ck_assert(entry && entry->bytes == align % 16 + 1);
        ck_assert_uint_eq((uintptr_t)entry->data % align, 0);
        ck_ok(weft_zip_check(entry));
    }
    entry = weft_zip_find(&zip, "aligned/65536");
    data[(const unsigned char *)entry->data - data] ^= 1;
    expect_code(weft_zip_check(entry), WEFT_INVALID_DATA);
    ck_assert_ptr_null(weft_zip_find(&zip, "missing"));
    weft_arena_deinit(&arena);
    free(data);
}
END_TEST

/* Every byte of the headers changed to several values, and every length: a status or a consistent directory. */
START_TEST(zip_hostile) {
    size_t bytes;
    unsigned char *data = make_archive(&bytes);
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < bytes; at++) {
        if (at > 1200 && at + 3000 < bytes) continue; /* padding */
        for (size_t v = 0; v < 5; v++) {
            unsigned char kept = data[at];
            data[at] = values[v];
            weft_arena arena;
            weft_arena_init(weft_allocator_system(), &arena);
            weft_zip zip;
            weft_status status = weft_zip_open(&arena, data, bytes, &zip);
            for (size_t i = 0; !status && i < zip.count; i++) {
                const unsigned char *begin = zip.entries[i].data;
                ck_assert(begin >= data && zip.entries[i].bytes <= (size_t)(data + bytes - begin));
            }
            weft_status_release(status);
            weft_arena_deinit(&arena);
            data[at] = kept;
        }
    }
    for (size_t length = 0; length < bytes; length += length < 1200 || length + 3000 > bytes ? 1 : 997) {
        weft_arena arena;
        weft_arena_init(weft_allocator_system(), &arena);
        weft_zip zip;
        expect_code(weft_zip_open(&arena, data, length, &zip), WEFT_INVALID_DATA);
        weft_arena_deinit(&arena);
    }
    free(data);
}
END_TEST

START_TEST(crc) {
    ck_assert_uint_eq(weft_crc32(0, "123456789", 9), 0xcbf43926);
    ck_assert_uint_eq(weft_crc32(weft_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
    unsigned char *data = malloc(100003); /* the two methods agree */
    for (size_t i = 0; i < 100003; i++) data[i] = (unsigned char)(i * i >> 3);
    uint32_t pieces = 0;
    for (size_t i = 0; i < 100003; i += 1000)
        pieces = weft_crc32(pieces, data + i, 100003 - i < 1000 ? 100003 - i : 1000);
    ck_assert_uint_eq(weft_crc32(0, data, 100003), pieces);
    free(data);
}
END_TEST

Suite *formats_suite(void) {
    Suite *suite = suite_create("formats");
    TCase *tests = tcase_create("formats");
    tcase_add_test(tests, json_values);
    tcase_add_test(tests, json_rejects);
    tcase_add_test(tests, json_memory);
    tcase_add_test(tests, zip_round_trip);
    tcase_add_test(tests, zip_hostile);
    tcase_add_test(tests, crc);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
