/* Code for adapters with f16: which artifacts hold it, how it reads and writes, that browsers and the native driver ask
   the same of a device. That it computes what the interpreter does: `weft selftest webgpu --dtype f16` on a Mesa whose
   lavapipe has f16 (tests/vulkan/mesa.sh). */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/artifact.h"
#include "base/file.h"
#include "compile/unit.h"
#include "runtime/drivers/webgpu/probe.h"
#include "tests/webgpu/cases.h"
#include "weft/compile.h"
#include "weft/ops.h"

/* y = relu(x) + 1 over [rows, columns], or a transposition of it. */
static weft_graph *make_graph(weft_context *context, weft_dtype dtype, int64_t columns, bool turned) {
    weft_graph *graph;
    weft_dim shape[2] = {3, columns};
    int64_t order[2] = {1, 0};
    ck_assert_ptr_null(weft_graph_create(context, "halves", &graph));
    weft_value *x = weft_graph_input(graph, "x", dtype, 2, shape);
    weft_graph_output(graph, "y", turned ? weft_transpose(graph, x, order) : weft_exp(graph, weft_relu(graph, x)));
    ck_assert_ptr_null(weft_graph_verify(graph));
    return graph;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    long bytes = ftell(file);
    char *text = calloc((size_t)bytes + 1, 1);
    ck_assert_ptr_nonnull(text);
    rewind(file);
    ck_assert_uint_eq(fread(text, 1, (size_t)bytes, file), (size_t)bytes);
    fclose(file);
    return text;
}

START_TEST(probes_are_one) {
    char *module = read_text(WEFT_SOURCE_DIR "/runtime/web/weft.js");
    ck_assert_ptr_nonnull(strstr(module, weft_webgpu_half_probe));
    free(module);
}
END_TEST

/* The architectures of an artifact, comma-separated. */
static void list_archs(weft_dtype dtype, const char *targets, char *text, size_t room) {
    char path[] = "/tmp/weft-halves-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    weft_context *context;
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    weft_graph *graph = make_graph(context, dtype, 64, false);
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = targets;
    ck_assert_ptr_null(weft_compile_file(graph, &options, path));
    weft_file file;
    weft_arena arena;
    weft_artifact artifact;
    weft_arena_init(weft_allocator_system(), &arena);
    ck_assert_ptr_null(weft_file_map(path, &file));
    ck_assert_ptr_null(weft_artifact_open(&arena, file.data, file.bytes, &artifact));
    text[0] = '\0';
    for (int i = 0; i < artifact.target_count; i++)
        snprintf(text + strlen(text), room - strlen(text), "%s%s", i ? "," : "", artifact.targets[i].arch);
    weft_arena_deinit(&arena);
    weft_file_unmap(&file);
    remove(path);
    weft_graph_release(graph);
    weft_context_release(context);
}

START_TEST(artifacts_hold_what_differs) {
    char text[200];
    list_archs(WEFT_F32, "webgpu", text, sizeof text);
    ck_assert_str_eq(text, "wgsl,wgsl-subgroups32");
    list_archs(WEFT_F16, "webgpu", text, sizeof text);
    ck_assert_str_eq(text, "wgsl,wgsl-f16,wgsl-subgroups32,wgsl-f16-subgroups32");
    list_archs(WEFT_F32, "webgpu:wgsl-f16", text, sizeof text); /* named: compiled all the same */
    ck_assert_str_eq(text, "wgsl-f16");
}
END_TEST

/* What the code image of one graph has to say and must not. An odd number of columns: stores of single elements, which
   are two atomics each where f16 is half a word. */
static const struct {
    const char *arch;
    weft_dtype dtype;
    int64_t columns;
    bool turned;
    const char *said[3], *unsaid[3];
} texts[] = {
    {"wgsl", WEFT_F16, 5, true, {"array<u32>", "atomicAnd"}, {"f16;", "array<f16>"}},
    {"wgsl", WEFT_F16, 64, false, {"array<u32>", "f16_of_f32("}, {"atomic"}}, /* a thread owns its word */
    {"wgsl-f16", WEFT_F16, 5, true, {"enable f16;", "array<f16>"}, {"atomic", "array<u32>", "round_f16"}},
    {"wgsl-f16", WEFT_F16, 64, false, {"enable f16;", "vec2<f16>", "f16(round_f16("}, {"atomic", "f16_of_f32"}},
    {"wgsl-f16-subgroups32", WEFT_F16, 64, false, {"enable f16;", "vec2<f16>"}, {"atomic"}},
    {"wgsl-f16", WEFT_F32, 64, false, {"array<f32>"}, {"f16"}},
    {"wgsl-f16", WEFT_BF16, 64, false, {"array<u32>", "bf16_of_f32("}, {"enable"}},
};
enum { TEXTS = sizeof texts / sizeof *texts };

START_TEST(memory_is_f16) {
    weft_context *context;
    weft_unit *unit;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    weft_graph *graph = make_graph(context, texts[_i].dtype, texts[_i].columns, texts[_i].turned);
    const weft_capability *capability = weft_capability_find("webgpu", texts[_i].arch);
    ck_assert_ptr_null(weft_unit_compile(graph, NULL, capability, &options, &unit));
    char *image = calloc(unit->image_bytes + 1, 1);
    ck_assert_ptr_nonnull(image);
    memcpy(image, unit->image, unit->image_bytes);
    for (int i = 0; i < 3; i++) {
        if (texts[_i].said[i]) ck_assert_msg(strstr(image, texts[_i].said[i]) != NULL, "no %s", texts[_i].said[i]);
        if (texts[_i].unsaid[i])
            ck_assert_msg(strstr(image, texts[_i].unsaid[i]) == NULL, "%s is there", texts[_i].unsaid[i]);
    }
    free(image);
    weft_unit_release(unit);
    weft_graph_release(graph);
    weft_context_release(context);
}
END_TEST

TCase *case_halves(void) {
    TCase *tests = tcase_create("halves");
    tcase_add_test(tests, probes_are_one);
    tcase_add_test(tests, artifacts_hold_what_differs);
    tcase_add_loop_test(tests, memory_is_f16, 0, TEXTS);
    return tests;
}
