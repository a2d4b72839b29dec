/* A program holds nothing of the graph that it was compiled from: memory is overwritten when it is freed, and the
   program still names every step. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "compile/unit.h"
#include "weft/graph.h"

/* On malloc, but what is freed is overwritten first. */
static void *resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    weft_allocator system = weft_allocator_system();
    (void)self;
    if (pointer && new_bytes == 0) memset(pointer, 0xdd, old_bytes);
    return system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
}

static void ok(weft_status status) {
    char text[2000] = "";
    if (status) (void)weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(!text[0], "%s", text);
}

/* Nodes without a location are known by the anchor of their group. */
START_TEST(names_of_steps) {
    static const char text[] = "graph @\"t\" {\n  input %0 \"x\" : f32[8, 4]\n"
                               "  %1 = dot_general %0, %0 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], "
                               "rhs_contract = [1], dtype = f32} : f32[8, 8]\n"
                               "  %2 = softmax %1 {axis = 1} : f32[8, 8]\n  output \"y\" %2\n}\n";
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_compile_options compile = WEFT_COMPILE_OPTIONS_INIT;
    weft_context *context;
    weft_graph *graph;
    weft_unit *unit;
    options.allocator = (weft_allocator){NULL, resize};
    ok(weft_context_create(&options, &context));
    ok(weft_graph_parse(context, text, strlen(text), &graph));
    weft_status status = weft_unit_compile(graph, NULL, weft_capability_find("cpu", "x86-64-v3"), &compile, &unit);
    weft_graph_release(graph);
    if (weft_status_code(status) == WEFT_UNSUPPORTED) { /* a build without LLVM */
        weft_status_release(status);
        weft_context_release(context);
        return;
    }
    ok(status);
    const weft_step_list *main = &unit->program->regions[WEFT_REGION_MAIN];
    int named[2] = {0};
    for (int i = 0; i < main->count; i++) {
        named[0] += !strcmp(main->steps[i].location, "matmul");
        named[1] += !strcmp(main->steps[i].location, "reduce");
    }
    ck_assert_int_ge(named[0], 1);
    ck_assert_int_ge(named[1], 1);
    ck_assert_int_eq(named[0] + named[1], main->count);
    weft_unit_release(unit);
    weft_context_release(context);
}
END_TEST

Suite *outlives_suite(void) {
    Suite *suite = suite_create("outlives");
    TCase *tests = tcase_create("outlives");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, names_of_steps);
    suite_add_tcase(suite, tests);
    return suite;
}
