/* Random inputs, the reference, the fusion, the simulated plan, the comparison. */
#include "tests/builders/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "codegen/kernel/simulate.h"
#include "ir/interpret.h"
#include "ir/verify.h"
#include "tests/llvm/loader.h"

const char *const harness_targets[3][2] = {{"cpu", "x86-64-v3"}, {"cpu", "x86-64-v4"}, {"cuda", "sm_80"}};

static void require(weft_status status, const harness *h, const char *what) {
    if (!status) return;
    char text[4096];
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_abort_msg("%s: %s: %s", h->note ? h->note : "", what, text);
}

void harness_open(harness *h, const char *anchor) {
    *h = (harness){
        .anchor = anchor, .class = WEFT_TOLERANCE_EXACT, .terms = 1, .scale = 0, .threads = 2, .native = true};
    require(weft_context_create(NULL, &h->context), h, "context");
    require(weft_graph_create(h->context, "test", &h->graph), h, "graph");
}

void harness_close(harness *h) {
    weft_graph_release(h->graph);
    weft_context_release(h->context);
}

static uint64_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double random_float(uint64_t *state, bool special) {
    static const double specials[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 1e30, -1e-30, 0.5, 65504, 448};
    if (special && random_next(state) % 4 == 0)
        return specials[random_next(state) % (sizeof specials / sizeof *specials)];
    return (double)(int64_t)(random_next(state) % 6001) / 1000 - 3;
}

static int64_t random_integer(uint64_t *state, weft_dtype dtype, bool special) {
    int bits = weft_dtype_bits(dtype);
    if (special && bits >= 8 && random_next(state) % 4 == 0) {
        uint64_t top = (uint64_t)1 << (bits - 1), values[] = {0, top, top - 1, ~(uint64_t)0, top + 1};
        return (int64_t)values[random_next(state) % 5];
    }
    return (int64_t)(random_next(state) % 19) - (weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED ? 9 : 0);
}

static void fill(weft_tensor *tensor, uint64_t seed, bool special) {
    weft_dtype dtype = tensor->dtype, part = dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype;
    int64_t count = tensor->element_count * (part == dtype ? 1 : 2);
    uint64_t state = seed * 77 + 5;
    for (int64_t i = 0; i < count; i++) {
        if (weft_dtype_is_float(part)) {
            double value = random_float(&state, special);
            if (part == WEFT_F8E8M0FNU) value = fabs(value) + 0.01;
            weft_element_set_double(part, tensor->data, i, value);
        } else if (part == WEFT_BOOL) {
            weft_element_set_i64(part, tensor->data, i, (int64_t)(random_next(&state) & 1));
        } else {
            weft_element_set_i64(part, tensor->data, i, random_integer(&state, part, special));
        }
    }
}

static void shape_of(const harness *h, const weft_type *type, int64_t *out) {
    for (int i = 0; i < type->rank; i++)
        ck_assert(weft_dim_evaluate(h->graph->dims, type->dims[i], h->symbols, &out[i]));
}

/* The body as one fusion; its results are what the graph outputs. */
static weft_node *wrap(harness *h) {
    weft_graph *g = h->graph;
    weft_block *body = g->body->block;
    weft_region *region = weft_region_create(g);
    weft_value_map map;
    weft_value_map_init(g->context->allocator, &map);
    for (int i = 0; i < body->argument_count; i++) {
        weft_value *argument = weft_block_add_argument(region->block, &body->arguments[i]->type, NULL);
        ck_assert(weft_value_map_put(&map, body->arguments[i], argument));
    }
    weft_node *last = body->last;
    weft_place outside = weft_graph_place_end(g, region->block);
    weft_value **yields = calloc(g->output_count + 1, sizeof *yields);
    for (weft_node *node = body->first; node; node = node->next) {
        if (node->op != WEFT_OP_yield) {
            weft_node *copy = weft_node_clone(g, node, &map);
            ck_assert_ptr_nonnull(copy);
            for (int r = 0; r < node->result_count; r++)
                ck_assert(weft_value_map_put(&map, &node->results[r], &copy->results[r]));
        }
        if (node == last) break;
    }
    for (size_t i = 0; i < g->output_count; i++) yields[i] = weft_value_map_find(&map, g->outputs[i]);
    weft_node_create(g, WEFT_OP_yield, (int)g->output_count, yields, 0, NULL, 0, NULL);
    weft_graph_place(g, outside);
    weft_attribute anchor = weft_attr_string(WEFT_ATTR_anchor, h->anchor);
    weft_node *fusion =
        weft_node_create(g, WEFT_OP_fusion, body->argument_count, body->arguments, 1, &anchor, 1, &region);
    weft_value_map_deinit(&map);
    free(yields);
    ck_assert_msg(g->problem_count == 0, "%s", g->problem_count ? g->problems[0].text : "");
    return fusion;
}

typedef struct memory {
    void *operands[64], *results[64], *temps[32];
    size_t operand_bytes[64], result_bytes[64], temp_bytes[32];
} memory;

/* One launch as machine code. Buffers and extents in the order of the arguments. */
static void run_native(harness *h, weft_kernel *k, const weft_sim_buffer *buffers) {
    const weft_target *target = weft_target_find("cpu");
    weft_code_image image;
    require(target->compile(h->context, k->capability, 1, &k, 1, &image), h, "compile");
    loaded l = load_image(&image);
    kernel_function function = find_kernel(&l, k->name);
    ck_assert_msg(function != NULL, "%s is missing", k->name);
    void *pointers[128];
    int64_t extents[128], grid, scratch_bytes;
    int pointer_count = 0, extent_count = 0;
    for (size_t a = 0; a < k->argument_count; a++) {
        if (k->arguments[a].source == WEFT_ARGUMENT_EXTENT)
            ck_assert(weft_dim_evaluate(h->graph->dims, k->arguments[a].extent, h->symbols, &extents[extent_count++]));
        else
            pointers[pointer_count++] = buffers[a].data;
    }
    ck_assert(weft_dim_evaluate(h->graph->dims, k->grid, h->symbols, &grid));
    ck_assert(weft_dim_evaluate(h->graph->dims, target->scratch_bytes(k), h->symbols, &scratch_bytes));
    void *scratch = aligned_alloc(64, ((size_t)scratch_bytes + 127) / 64 * 64);
    function(pointers, extents, 0, grid, scratch);
    free(scratch);
    unload_image(&l);
    weft_free(h->context->allocator, image.data, image.bytes);
}

bool harness_native(weft_dtype dtype) {
    const char *all = getenv("WEFT_TEST_NATIVE");
    return dtype == WEFT_BF16 || dtype == WEFT_I4 || (all && !strcmp(all, "all"));
}

static bool cpu_can(const weft_capability *capability) {
    if (strcmp(capability->target, "cpu") || !weft_target_find("cpu")) return false;
    if (!strcmp(capability->arch, "x86-64-v3")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

static void launch(harness *h, const weft_plan_launch *launch, const memory *m, bool native) {
    for (int v = 0; v < launch->variant_count; v++) {
        const weft_plan_variant *variant = &launch->variants[v];
        bool holds = true;
        for (int i = 0; i < variant->condition_count; i++)
            holds &= weft_condition_holds(h->graph->dims, &variant->conditions[i], h->symbols);
        if (!holds) continue;
        weft_kernel *k = variant->kernel;
        weft_sim_buffer buffers[128] = {0};
        ck_assert_uint_le(k->argument_count, 128);
        for (size_t a = 0; a < k->argument_count; a++) {
            int i = k->arguments[a].index;
            switch (k->arguments[a].source) {
            case WEFT_ARGUMENT_OPERAND: buffers[a] = (weft_sim_buffer){m->operands[i], m->operand_bytes[i]}; break;
            case WEFT_ARGUMENT_RESULT: buffers[a] = (weft_sim_buffer){m->results[i], m->result_bytes[i]}; break;
            case WEFT_ARGUMENT_TEMP: buffers[a] = (weft_sim_buffer){m->temps[i], m->temp_bytes[i]}; break;
            case WEFT_ARGUMENT_EXTENT:
            case WEFT_ARGUMENT_TENSOR_MAP: break;
            }
        }
        if (native) {
            run_native(h, k, buffers);
            return;
        }
        weft_status status = weft_kernel_simulate(k, h->symbols, buffers, NULL, h->context->allocator);
        if (status && getenv("WEFT_TEST_DUMP")) {
            weft_text text;
            weft_text_init(h->context->allocator, &text);
            weft_kernel_print(k, &text);
            fprintf(stderr, "%s\n", weft_text_string(&text));
            weft_text_deinit(&text);
        }
        require(status, h, k->name);
        return;
    }
    ck_abort_msg("no variant of a launch holds");
}

static void compare(const harness *h, const weft_capability *capability, const char *how, int result,
                    const weft_tensor *expected, const void *actual) {
    weft_dtype dtype = expected->dtype, part = dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype;
    int64_t count = expected->element_count * (part == dtype ? 1 : 2);
    weft_tolerance tolerance = weft_tolerance_get(h->class, part, capability->target);
    for (int64_t i = 0; i < count; i++) {
        if (weft_dtype_is_float(part)) {
            double a = weft_element_double(part, expected->data, i), b = weft_element_double(part, actual, i);
            ck_assert_msg(weft_tolerance_close(tolerance, part, a, b, h->terms, h->scale),
                          "%s on %s %s, %s: result %d element %lld: expected %.17g, got %.17g", h->note ? h->note : "",
                          capability->target, capability->arch, how, result, (long long)i, a, b);
        } else {
            int64_t a = weft_element_i64(part, expected->data, i), b = weft_element_i64(part, actual, i);
            ck_assert_msg(a == b, "%s on %s %s, %s: result %d element %lld: expected %lld, got %lld",
                          h->note ? h->note : "", capability->target, capability->arch, how, result, (long long)i,
                          (long long)a, (long long)b);
        }
    }
}

static void check_target(harness *h, const weft_node *fusion, const weft_capability *capability,
                         weft_tensor *const *inputs, weft_tensor *const *expected) {
    const char *reason = "";
    const weft_builder *builder = weft_builder_find(h->anchor, h->graph, fusion, capability, &reason);
    bool must = h->gpu_builder && strcmp(capability->target, "cpu");
    if (!builder && h->may_refuse && !must) return;
    if (h->launches && !strcmp(capability->target, "cpu")) return;
    ck_assert_msg(builder != NULL, "%s: no builder for %s on %s: %s", h->note ? h->note : "", h->anchor,
                  capability->target, reason);
    weft_arena arena;
    weft_arena_init(h->context->allocator, &arena);
    weft_schedule schedule = {0};
    weft_build_request request = {h->graph, fusion, &schedule, capability, &arena, "kernel", h->threads};
    ck_assert_int_ge(builder->propose(&request, 1, &schedule), 1);
    if (must) ck_assert_str_eq(schedule.builder ? schedule.builder : "", h->gpu_builder);
    weft_kernel_plan plan;
    require(builder->build(&request, &plan), h, "build");
    if (h->launches) ck_assert_int_eq(plan.launch_count, h->launches);
    memory m = {0};
    for (int i = 0; i < fusion->operand_count; i++) {
        m.operands[i] = inputs[i]->data;
        m.operand_bytes[i] = inputs[i]->bytes;
    }
    for (int i = 0; i < fusion->result_count; i++) {
        m.result_bytes[i] = expected[i]->bytes;
        m.results[i] = malloc(expected[i]->bytes + 1);
    }
    for (int i = 0; i < plan.temp_count; i++) {
        int64_t bytes;
        ck_assert(weft_dim_evaluate(h->graph->dims, plan.temps[i].bytes, h->symbols, &bytes));
        m.temp_bytes[i] = (size_t)bytes;
        m.temps[i] = malloc((size_t)bytes + 1);
    }
    for (int native = 0; native < 1 + (h->native && cpu_can(capability)); native++) {
        for (int i = 0; i < fusion->result_count; i++) memset(m.results[i], 0xA5, m.result_bytes[i]);
        for (int i = 0; i < plan.temp_count; i++) memset(m.temps[i], 0xA5, m.temp_bytes[i]);
        for (int i = 0; i < plan.launch_count; i++) launch(h, &plan.launches[i], &m, native);
        for (int i = 0; i < fusion->result_count; i++)
            compare(h, capability, native ? "native" : "simulated", i, expected[i], m.results[i]);
    }
    for (int i = 0; i < fusion->result_count; i++) free(m.results[i]);
    for (int i = 0; i < plan.temp_count; i++) free(m.temps[i]);
    weft_arena_deinit(&arena);
}

void harness_check(harness *h) {
    weft_graph *g = h->graph;
    require(weft_graph_verify(g), h, "verify");
    int count = weft_graph_input_count(g);
    ck_assert_int_le(count, 64);
    weft_tensor *inputs[64], *expected[64] = {0};
    for (int i = 0; i < count; i++) {
        const weft_type *type = &g->body->block->arguments[i]->type;
        int64_t shape[WEFT_MAX_RANK];
        shape_of(h, type, shape);
        require(weft_tensor_create(h->context, type->dtype, type->rank, shape, &inputs[i]), h, "input");
        fill(inputs[i], (uint64_t)i + 1, h->special);
        const char *name = g->body->block->arguments[i]->name;
        for (int64_t e = 0; h->offsets && name && !strcmp(name, "offsets") && e < inputs[i]->element_count; e++)
            weft_element_set_i64(type->dtype, inputs[i]->data, e, h->offsets[e]);
    }
    require(weft_interpret(g, WEFT_INTERPRET_EXACT, count, inputs, (int)g->output_count, expected), h, "reference");
    weft_node *fusion = wrap(h);
    for (int t = 0; t < 3; t++) {
        const weft_capability *capability = weft_capability_find(harness_targets[t][0], harness_targets[t][1]);
        if (h->gpu && strcmp(capability->target, "cpu") != 0) capability = h->gpu;
        check_target(h, fusion, capability, inputs, expected);
    }
    for (int i = 0; i < count; i++) weft_tensor_release(inputs[i]);
    for (size_t i = 0; i < g->output_count; i++) weft_tensor_release(expected[i]);
}
