/* One artifact for every target that this build has: entries beside each other, one copy of the weights, each taken by
   its driver where there is a device (Metal: the fake; others where they are found, or must be: WEFT_TEST_DEVICES names
   those, and setup.cmake calls it with the cards in software of tests/hip and tests/ptx). What has none is looked at:
   the code of its kernels is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/artifact.h"
#include "base/context.h"
#include "base/file.h"
#include "codegen/target.h"
#include "ir/graph.h"
#include "runtime/libraries.h"
#include "tests/metal/testing.h"

enum { BATCH = 5, INNER = 40, HIDDEN = 70, CLASSES = 10 };

typedef struct target_row {
    const char *target, *arch;
    const char *compiler; /* a library that code needs; NULL: none */
    const char *sign;     /* how its code begins */
} target_row;
static const target_row rows[] = {{"cpu", "x86-64-v3", NULL, "\177ELF"},
                                  {"cpu", "x86-64-v4", NULL, "\177ELF"},
                                  {"cuda", "sm_80", "nvrtc", "WEFTCUDA"},
                                  {"amdgcn", "gfx1100", NULL, NULL},
                                  {"metal", "apple7", NULL, "#include <metal_stdlib>"},
                                  {"webgpu", "wgsl", NULL, "{\"format\": 1"},
                                  {"vulkan", "vulkan1.2", NULL, NULL}};
enum { ROWS = sizeof rows / sizeof *rows };

static weft_value *make_weights(weft_graph *g, int64_t rows_count, int64_t columns) {
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(g->context, WEFT_F32, 2, (int64_t[]){rows_count, columns}, &tensor));
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < rows_count * columns; i++) data[i] = (float)(i * 7919 % 1000) / 2000.0f - 0.25f;
    weft_value *value = weft_graph_constant(g, tensor);
    weft_tensor_release(tensor);
    return value;
}

/* A small classifier of rows: constants in it are the artifact's weights. */
static weft_graph *make_graph(weft_context *context) {
    weft_graph *g;
    assert_fine(weft_graph_create(context, "classifier", &g));
    weft_dim batch = weft_graph_symbol(g, "N", 1, 64, 1);
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){batch, INNER}),
               *w = make_weights(g, INNER, HIDDEN), *v = make_weights(g, HIDDEN, CLASSES);
    weft_graph_output(g, "y", weft_softmax(g, weft_matmul(g, weft_gelu(g, weft_matmul(g, x, w), false), v), -1));
    assert_fine(weft_graph_verify(g));
    return g;
}

static bool is_here(const target_row *row) {
    void *handle;
    if (!weft_target_find(row->target)) return false;
    if (!row->compiler) return true;
    weft_status status = weft_library_open(weft_allocator_system(), row->compiler, &handle);
    bool found = !status;
    weft_status_release(status);
    return found;
}

/* Each kernel's name stands in the code, which begins as its kind does. */
static void check_entry(const weft_artifact_entry *entry, const target_row *row) {
    const char *code = entry->code->data;
    ck_assert_str_eq(entry->target, row->target);
    ck_assert_str_eq(entry->arch, row->arch);
    if (row->sign) ck_assert_int_eq(memcmp(code, row->sign, strlen(row->sign)), 0);
    const weft_json *kernels = weft_json_find(entry->program, "kernels");
    ck_assert_ptr_nonnull(kernels);
    ck_assert_int_gt((int)kernels->length, 0);
    for (int i = 0; i < (int)kernels->length; i++) {
        const weft_json *name = weft_json_find(&kernels->children[i], "name");
        ck_assert_ptr_nonnull(name);
        /* SPIR-V modules are found by number */
        if (strcmp(row->target, "vulkan") != 0 && strcmp(row->target, "amdgcn") != 0)
            ck_assert_msg(memmem(code, entry->code->bytes, name->string, strlen(name->string)) != NULL,
                          "%s: no kernel %s", row->target, name->string);
    }
}

static void check_file(const char *path, const target_row *const *wanted, int count) {
    weft_file file;
    weft_arena arena;
    weft_artifact artifact;
    weft_arena_init(weft_allocator_system(), &arena);
    assert_fine(weft_file_map(path, &file));
    assert_fine(weft_artifact_open(&arena, file.data, file.bytes, &artifact));
    ck_assert_int_eq(artifact.target_count, count);
    ck_assert_ptr_nonnull(artifact.weights);
    ck_assert_uint_lt(artifact.weights->bytes, 2 * 4 * (INNER * HIDDEN + HIDDEN * CLASSES));
    for (int i = 0; i < count; i++) check_entry(&artifact.targets[i], wanted[i]);
    weft_file_unmap(&file);
    weft_arena_deinit(&arena);
}

/* false: there is no such device here. */
static bool check_device(weft_context *context, const char *path, const char *device, weft_tensor *x,
                         const weft_tensor *expected) {
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    weft_program *program;
    weft_session *session;
    weft_tensor *y = NULL;
    weft_device *opened;
    weft_status status = weft_device_open(context, device, &opened);
    if (status) {
        printf("  %s: %s\n", device, weft_status_message(status));
        weft_status_release(status);
        return false;
    }
    options.device = device;
    options.verify = true;
    assert_fine(weft_program_load(context, path, &options, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_session_call(session, 1, &x, 1, &y));
    const float *a = weft_tensor_data(y), *b = weft_tensor_data((weft_tensor *)(uintptr_t)expected);
    for (int i = 0; i < BATCH * CLASSES; i++)
        ck_assert_msg(a[i] - b[i] < 1e-5f && b[i] - a[i] < 1e-5f, "%s: element %d: %g instead of %g", device, i,
                      (double)a[i], (double)b[i]);
    printf("  %s (%s): right\n", device, weft_program_arch(program));
    weft_tensor_release(y);
    weft_session_release(session);
    weft_program_release(program);
    weft_device_release(opened);
    return true;
}

START_TEST(every_target_in_one_file) {
    char path[64], list[256] = "";
    const target_row *wanted[ROWS];
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!is_here(&rows[i])) {
            printf("  %s: this build makes no code for it\n", rows[i].target);
            continue;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s:%s", used ? "," : "", rows[i].target, rows[i].arch);
        wanted[count++] = &rows[i];
    }
    weft_context *context;
    weft_tensor *x, *expected;
    assert_fine(weft_context_create(NULL, &context));
    weft_graph *graph = make_graph(context);
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = list;
    snprintf(path, sizeof path, "/tmp/weft-targets-%d.weft", (int)getpid());
    assert_fine(weft_compile_file(graph, &options, path));
    check_file(path, wanted, count);
    assert_fine(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){BATCH, INNER}, &x));
    float *data = weft_tensor_data(x);
    for (int i = 0; i < BATCH * INNER; i++) data[i] = (float)(i * 613 % 100) / 50.0f - 1.0f;
    assert_fine(weft_graph_interpret(graph, 1, &x, 1, &expected));
    ck_assert(check_device(context, path, "metal", x, expected));
    if (weft_target_find("cpu")) ck_assert(check_device(context, path, "cpu", x, expected));
    static const char *const others[] = {"vulkan", "cuda", "amdgcn", "webgpu"};
    const char *must = getenv("WEFT_TEST_DEVICES") ? getenv("WEFT_TEST_DEVICES") : "";
    for (int i = 0; i < 4; i++) {
        bool has_code = false;
        for (int w = 0; w < count; w++) has_code |= strcmp(wanted[w]->target, others[i]) == 0;
        if (!has_code) continue;
        bool right = check_device(context, path, others[i], x, expected);
        ck_assert_msg(right || !strstr(must, others[i]), "no %s here", others[i]);
    }
    remove(path);
    weft_tensor_release(x);
    weft_tensor_release(expected);
    weft_graph_release(graph);
    weft_context_release(context);
}
END_TEST

TCase *case_artifact(void) {
    TCase *tests = tcase_create("artifact");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, every_target_in_one_file);
    return tests;
}
