/* Text of schedules. */
#include "codegen/schedule/schedule.h"

#include "kernels.h"

START_TEST(test_round_trip) {
    weft_schedule schedule = {
        .builder = "matmul-cpu", .tile_m = 9, .tile_n = 32, .tile_k = 256, .unroll = -1, .numerics = 7};
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_schedule_print(&schedule, &text);
    ck_assert_str_eq(weft_text_string(&text), "matmul-cpu{tile_m=9,tile_n=32,tile_k=256,unroll=-1,numerics=7}");
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_schedule back;
    expect_ok(weft_schedule_parse(&arena, text.data, text.length, &back));
    ck_assert_str_eq(back.builder, schedule.builder);
    back.builder = schedule.builder;
    ck_assert_int_eq(memcmp(&back, &schedule, sizeof back), 0);
    weft_text_deinit(&text);
    weft_arena_deinit(&arena);
}
END_TEST

START_TEST(test_bad_text) {
    static const char *const bad[][2] = {{"", "name of a builder"},
                                         {"x", "expected {"},
                                         {"x{", "expected }"},
                                         {"x{tile_q=1}", "no such field"},
                                         {"x{tile_m}", "=number"},
                                         {"x{tile_m=}", "=number"},
                                         {"x{tile_m=99999999999}", "=number"},
                                         {"x{tile_m=1,tile_m=1}", "twice"},
                                         {"x{tile_m=1 tile_n=1}", "expected ,"},
                                         {"x{}y", "after"}};
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        weft_schedule schedule;
        expect_fault(weft_schedule_parse(&arena, bad[n][0], strlen(bad[n][0]), &schedule), bad[n][1]);
    }
    weft_arena_deinit(&arena);
}
END_TEST

Suite *schedule_suite(void) {
    Suite *suite = suite_create("schedule");
    TCase *tests = tcase_create("text");
    tcase_add_test(tests, test_round_trip);
    tcase_add_test(tests, test_bad_text);
    suite_add_tcase(suite, tests);
    return suite;
}
