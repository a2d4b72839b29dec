/* What products move: sectors of 32 bytes of device memory against the fewest that their tiles need, and passes over
   the banks of shared memory against the fewest that these accesses need. Counted by the simulator, target by target.
   The table is docs/traffic.md; `test-traffic --write` writes it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "passes/pass.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/harness.h"

typedef struct traffic_row {
    const char *target, *arch;
    int64_t numbers[6]; /* m n k order epilogue dtype: cases.h */
    int multiprocessors;
    double memory, banks; /* limits; 0 = LIMIT */
} traffic_row;

static const traffic_row rows[] = {
    {"cuda", "sm_90a", {512, 512, 128, 1, 0, 0}, 2, 0, 0},
    {"cuda", "sm_90a", {512, 512, 128, 0, 0, 0}, 2, 0, 0},
    {"cuda", "sm_90a", {512, 512, 128, 2, 0, 0}, 2, 0, 0},
    {"cuda", "sm_90a", {512, 512, 128, 1, 1, 0}, 2, 0, 0},
    {"cuda", "sm_90a", {512, 512, 64, 1, 0, 10}, 2, 0, 0},
    {"cuda", "sm_90a", {512, 512, 256, 1, 2, 3}, 2, 0, 0},
    {"cuda", "sm_90a", {509, 517, 516, 1, 0, 0}, 2, 0, 0},
    {"cuda", "sm_90a", {16, 512, 1024, 1, 0, 0}, 16, 0, 0},
    {"cuda", "sm_90a", {256, 256, 64, 1, 0, 2}, 4, 0, 0},
    {"cuda", "sm_80", {256, 256, 128, 1, 0, 0}, 2, 0, 0},
    {"cuda", "sm_80", {256, 256, 128, 0, 0, 0}, 2, 0, 0},
    {"cuda", "sm_80", {256, 256, 128, 2, 1, 0}, 2, 0, 0},
    {"cuda", "sm_80", {256, 256, 64, 1, 0, 10}, 2, 0, 0},
    {"cuda", "sm_80", {253, 261, 132, 1, 0, 0}, 2, 0, 1.5},
    {"cuda", "sm_80", {256, 256, 64, 1, 0, 2}, 4, 0, 0},
    {"cuda", "sm_120a", {256, 256, 128, 1, 0, 0}, 2, 0, 0},
    {"vulkan", "vulkan1.2", {256, 256, 64, 1, 0, 2}, 4, 0, 0},
    {"vulkan", "vulkan1.2", {256, 256, 64, 0, 0, 2}, 4, 0, 0},
    {"vulkan", "vulkan1.2-coop16", {256, 256, 128, 1, 0, 1}, 4, 0, 0},
    {"vulkan", "vulkan1.2-coop16", {256, 256, 128, 0, 0, 1}, 4, 0, 1.5},
    {"vulkan", "vulkan1.2-coop16", {256, 256, 128, 2, 0, 1}, 4, 0, 1.5},
    {"webgpu", "wgsl", {256, 256, 64, 1, 0, 2}, 4, 0, 0},
    {"webgpu", "wgsl", {256, 256, 64, 0, 0, 2}, 4, 0, 0},
    {"amdgcn", "gfx942", {256, 256, 64, 1, 0, 2}, 4, 0, 0},
    {"amdgcn", "gfx942", {256, 256, 384, 1, 0, 0}, 4, 0, 0},
    {"amdgcn", "gfx942", {16, 512, 1024, 1, 0, 0}, 16, 0, 0},
    {"amdgcn", "gfx1100", {16, 512, 1024, 1, 0, 0}, 16, 0, 1.5},
    {"amdgcn", "gfx1200", {16, 512, 1024, 1, 0, 0}, 16, 0, 0},
    {"metal", "apple9", {256, 256, 64, 1, 0, 2}, 4, 0, 1.5},
};
enum { TRAFFIC_ROWS = sizeof rows / sizeof *rows };
static const double LIMIT = 1.15;

static const char heading[] =
    "# What products move\n\n"
    "Printed by `test-traffic` (tests/traffic), which fails when a figure is above 1.15: counted in the simulator, sizes small\n"
    "enough for it, few processors so that blocks compute several tiles. Bytes: sectors of 32 that warps touch in device memory\n"
    "behind a cache of 32 KB a block, tensor copies to a cluster once. Memory: these over the fewest that the tiles need, every tile\n"
    "its rows and columns of the operands. Banks: passes over the banks of shared memory over the fewest for the same accesses.\n"
    "Limit 1.5: copies of 8 bytes, which meet banks twice; Metal, whose threads along k do when they store B; few rows on\n"
    "gfx1100, whose lanes have every other sum; turned sides of cooperative matrices, whose rows lie 16 bytes apart.\n\n"
    "| target | product | builder and tiles | bytes per flop | memory | banks |\n|---|---|---|---|---|---|\n";
static char page[8192]; /* of the rows so far: tests run in one process, in order */

typedef struct moved {
    char schedule[160];
    double memory, banks; /* of the fewest */
    double bytes_per_flop;
} moved;

static int64_t tiles_of(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

/* Bytes that tiles of the schedule need: every tile its rows and columns of the operands, blocks of a cluster B once;
   the parts of a split k written and read as f32; copies in front; operands of the epilogue and results once. */
static double fewest_bytes(const compiled *c, const traffic_row *row, weft_tensor *const *inputs, int input_count,
                           const weft_tensor *result) {
    const weft_schedule *s = &c->schedule;
    int64_t m = row->numbers[0], n = row->numbers[1], k = row->numbers[2];
    int cluster = s->cluster > 1 ? s->cluster : 1, split = s->split > 1 ? s->split : 1;
    bool parts = split > 1 && !strcmp(s->builder, "matmul-hopper");
    double element = (double)weft_dtype_bits(inputs[0]->dtype) / 8;
    double bytes =
        (double)(tiles_of(n, s->tile_n) * m + tiles_of(m, (int64_t)s->tile_m * cluster) * n) * (double)k * element +
        (double)result->bytes;
    for (int i = 0; i < c->plan.temp_count; i++) /* copies in front: read and written */
        if (c->plan.temps[i].persistent) bytes += 2.0 * (double)c->plan.temps[i].bytes;
    for (int i = 2; i < input_count; i++) bytes += (double)inputs[i]->bytes;
    return parts ? bytes + 8.0 * (double)(split * m * n) : bytes;
}

static moved measure(const traffic_row *row) {
    moved out = {0};
    weft_capability card = weft_bench_capability(weft_capability_find(row->target, row->arch), "matmul", row->numbers);
    card.multiprocessors = row->multiprocessors;
    weft_context *context;
    cuda_check(weft_context_create(NULL, &context));
    compiled c = {0};
    cuda_check(weft_bench_graph(context, "matmul", 6, row->numbers, &c.graph));
    weft_arena_init(context->allocator, &c.arena);
    weft_tensor *inputs[8], *result;
    uint64_t state = 1;
    int count = weft_graph_input_count(c.graph);
    for (int i = 0; i < count; i++) inputs[i] = cuda_random_tensor(context, weft_graph_input_value(c.graph, i), &state);
    result = cuda_random_tensor(context, weft_graph_output_value(c.graph, 0), &state);
    weft_pass_context pass = {.graph = c.graph, .capability = &card, .options = "", .claims = weft_builder_claims};
    cuda_check(weft_graph_finish(c.graph));
    cuda_check(weft_pipeline_run(&pass, weft_pipeline_standard));
    bool more;
    ck_assert(cuda_build_choice(&c, &card, 0, &more));
    weft_sim_counts counts = {0};
    cuda_simulate_plan(&c, inputs, count, &result, 1, context, &counts);
    double moved_bytes = 32.0 * (double)(counts.loaded_sectors + counts.stored_sectors);
    out.memory = moved_bytes / fewest_bytes(&c, row, inputs, count, result);
    out.banks = counts.shared_fewest ? (double)counts.shared_passes / (double)counts.shared_fewest : 1;
    out.bytes_per_flop = moved_bytes / 2 / (double)(row->numbers[0] * row->numbers[1] * row->numbers[2]);
    const weft_schedule *s = &c.schedule;
    snprintf(out.schedule, sizeof out.schedule, "%s %dx%d%s%s", s->builder, s->tile_m, s->tile_n,
             s->cluster > 1 ? ", cluster" : "", s->split > 1 ? ", k split" : "");
    for (int i = 0; i < count; i++) weft_tensor_release(inputs[i]);
    weft_tensor_release(result);
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
    weft_context_release(context);
    return out;
}

START_TEST(products_move_little_more_than_their_tiles_need) {
    static const char *const dtypes[] = {"bf16", "f16", "f32", "f8"}, *const orders[] = {"nn", "nt", "tn"};
    const traffic_row *row = &rows[_i];
    moved got = measure(row);
    size_t used = strlen(page);
    snprintf(page + used, sizeof page - used, "| %s %s | %s %lldx%lldx%lld %s%s | %s | %.3f | %.2f | %.2f |\n",
             row->target, row->arch, row->numbers[5] & 8 ? "tf32" : dtypes[row->numbers[5] & 7],
             (long long)row->numbers[0], (long long)row->numbers[1], (long long)row->numbers[2],
             orders[row->numbers[3]], row->numbers[4] == 1 ? ", GELU" : "", got.schedule, got.bytes_per_flop,
             got.memory, got.banks);
    ck_assert_msg(got.memory <= (row->memory > 0 ? row->memory : LIMIT) &&
                      got.banks <= (row->banks > 0 ? row->banks : LIMIT),
                  "%s", page + used);
    ck_assert_double_ge(got.memory, 0.85); /* the count misses nothing large */
}
END_TEST

/* Is docs/traffic.md what was counted? */
static bool page_is_current(bool write) {
    char path[512], old[sizeof page + sizeof heading] = "", new[sizeof old];
    snprintf(path, sizeof path, "%s/docs/traffic.md", WEFT_SOURCE_DIR);
    snprintf(new, sizeof new, "%s%s", heading, page);
    FILE *file = fopen(path, write ? "w" : "r");
    if (!file) return false;
    if (write)
        fputs(new, file);
    else
        old[fread(old, 1, sizeof old - 1, file)] = 0;
    fclose(file);
    if (!write && strcmp(old, new) != 0) printf("docs/traffic.md is not current: test-traffic --write\n%s", new);
    return write || !strcmp(old, new);
}

/* test-traffic [--write | FIRST LAST] */
int main(int argc, char **argv) {
    bool some = argc == 3, write = argc == 2 && !strcmp(argv[1], "--write");
    int first = some ? atoi(argv[1]) : 0, last = some ? atoi(argv[2]) : TRAFFIC_ROWS;
    Suite *suite = suite_create("traffic");
    TCase *counted = tcase_create("counted");
    tcase_add_loop_test(counted, products_move_little_more_than_their_tiles_need, first,
                        last < TRAFFIC_ROWS ? last : TRAFFIC_ROWS);
    suite_add_tcase(suite, counted);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    bool good = srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    if (some)
        fputs(page, stdout);
    else if (good)
        good = page_is_current(write);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
