/* What decides the order of sums, asked of the builders for cards that are not here: instruction, depth of a step,
   parts of k, keys of a block, threads of a row. With batch_invariant it is the same for every batch. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "passes/pass.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/harness.h"
#include "tests/support/status.h"

enum { BATCHES = 6, KEY_BYTES = 1000 };
static const int64_t batches[BATCHES] = {1, 7, 64, 132, 1000, 8192};

static const struct {
    const char *name;
    int count;
    int64_t most, numbers[8]; /* the first is the batch; most: more is too large for the case */
} rows[] = {{"matmul", 6, 8192, {0, 14336, 4096, 1, 0, 0}},
            {"matmul", 6, 8192, {0, 4096, 14336, 1, 0, 0}},
            {"matmul", 6, 8192, {0, 768, 3072, 1, 1, 0}},
            {"matmul", 6, 8192, {0, 523, 201, 0, 0, 1}},
            {"matmul", 6, 8192, {0, 2048, 4096, 1, 2, 3}},
            {"matmul", 6, 8192, {0, 512, 2048, 1, 0, 10}},
            {"matmul", 6, 8192, {0, 512, 512, 1, 0, 2}},
            {"attention", 8, 132, {0, 32, 8, 1, 8192, 128, 0, 0}},
            {"attention", 8, 132, {0, 16, 16, 1, 4096, 64, 0, 0}},
            {"attention", 8, 132, {0, 12, 12, 196, 196, 64, 0, 0}},
            {"attention_backward", 8, 132, {0, 12, 12, 256, 256, 64, 1, 0}},
            {"convolution_half", 8, 132, {0, 256, 256, 7, 3, 1, 1, 1}},
            {"convolution", 8, 132, {0, 32, 32, 28, 3, 1, 1, 32}},
            {"softmax", 3, 8192, {0, 50304, 0}},
            {"layer_norm", 3, 8192, {0, 768, 0}},
            {"cross_entropy", 2, 8192, {0, 50304}}};
static const char *const archs[] = {"sm_80", "sm_90a"};
enum { ROWS = sizeof rows / sizeof *rows };

static void add_key(const weft_node *fusion, const weft_schedule *s, const weft_kernel_plan *plan, char *key) {
    size_t used = strlen(key);
    const char *anchor = weft_node_string(fusion, WEFT_ATTR_anchor, "");
    if (!strcmp(anchor, "pointwise")) return;
    /* scalar products add k by k, however many a step brings */
    int deep = strstr(s->builder, "simt") ? 0 : s->tile_k;
    bool keys = !strncmp(anchor, "attention", 9), lanes = !strcmp(anchor, "reduce");
    snprintf(key + used, KEY_BYTES - used, "%s %s k %d split %d promote %d keys %d threads %d vector %d; ", anchor,
             s->builder, deep, s->split, s->promote, keys ? s->tile_n : 0, lanes ? s->threads : 0,
             lanes ? s->vector : 0);
    if (plan->launch_count > 0 && lanes) { /* pieces of rows are launches of their own */
        used = strlen(key);
        snprintf(key + used, KEY_BYTES - used, "launches %d; ", plan->launch_count);
    }
}

static void find_key(weft_context *context, int row, const char *arch, int64_t batch, bool invariant, char *key) {
    int64_t numbers[8];
    weft_graph *graph;
    weft_arena arena;
    memcpy(numbers, rows[row].numbers, sizeof numbers);
    numbers[0] = batch;
    weft_capability capability = weft_bench_capability(weft_capability_find("cuda", arch), rows[row].name, numbers);
    capability.batch_invariant = invariant;
    key[0] = '\0';
    assert_fine(weft_bench_graph(context, rows[row].name, rows[row].count, numbers, &graph));
    weft_arena_init(context->allocator, &arena);
    weft_pass_context pass = {.graph = graph, .capability = &capability, .options = "", .claims = weft_builder_claims};
    assert_fine(weft_graph_finish(graph));
    assert_fine(weft_pipeline_run(&pass, weft_pipeline_standard));
    for (const weft_node *node = graph->body->block->first; node; node = node->next) {
        if (node->op != WEFT_OP_fusion) continue;
        const char *reason = "";
        weft_schedule schedule;
        weft_kernel_plan plan;
        const weft_builder *builder =
            weft_builder_find(weft_node_string(node, WEFT_ATTR_anchor, ""), graph, node, &capability, &reason);
        ck_assert_msg(builder != NULL, "%s: %s", rows[row].name, reason);
        weft_build_request request = {.graph = graph,
                                      .fusion = node,
                                      .schedule = &schedule,
                                      .capability = &capability,
                                      .arena = &arena,
                                      .name = "key",
                                      .thread_count = 1};
        ck_assert_int_ge(builder->propose(&request, 1, &schedule), 1);
        assert_fine(builder->build(&request, &plan));
        add_key(node, &schedule, &plan, key);
    }
    weft_arena_deinit(&arena);
    weft_graph_release(graph);
}

/* Batches whose key is not that of one row. */
static int count_other_keys(weft_context *context, int row, const char *arch, bool invariant, bool tell) {
    char first[KEY_BYTES], key[KEY_BYTES];
    int others = 0;
    for (int b = 0; b < BATCHES && batches[b] <= rows[row].most; b++) {
        find_key(context, row, arch, batches[b], invariant, b ? key : first);
        bool other = b && strcmp(first, key) != 0;
        if (other && tell)
            printf("  %s on %s: 1: %s\n  %lld: %s\n", rows[row].name, arch, first, (long long)batches[b], key);
        others += other;
    }
    fflush(stdout);
    return others;
}

START_TEST(keys_are_equal) {
    weft_context *context;
    assert_fine(weft_context_create(NULL, &context));
    ck_assert_int_eq(count_other_keys(context, _i / 2, archs[_i % 2], true, true), 0);
    weft_context_release(context);
}
END_TEST

START_TEST(by_default_some_differ) {
    weft_context *context;
    int others = 0;
    assert_fine(weft_context_create(NULL, &context));
    for (int row = 0; row < ROWS; row++) others += count_other_keys(context, row, "sm_90a", false, false);
    ck_assert_int_gt(others, 3);
    weft_context_release(context);
}
END_TEST

TCase *key_tests(void) {
    TCase *tests = tcase_create("keys");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, keys_are_equal, 0, 2 * ROWS);
    tcase_add_test(tests, by_default_some_differ);
    return tests;
}
