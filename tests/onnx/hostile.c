/* Damaged models: truncated, mutated, cyclic, absurdly nested. Each gives a status or a verified graph, never a crash.
   The number of mutations per model is WEFT_MUTATIONS (default 400). */
#include <check.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/failing.h"
#include "weft/onnx.h"

#ifdef WEFT_HAVE_ONNX
#define MODELS WEFT_SOURCE_DIR "/tests/onnx/models/"

static const char *const models[] = {"mlp",       "external",  "shapes", "control", "stops",  "functions",
                                     "old_forms", "encodings", "resize", "needs",   "unknown"};

static weft_context *context;
static void setup(void) { ck_assert_ptr_null(weft_context_create(NULL, &context)); }
static void teardown(void) { weft_context_release(context); }

static void import_bytes(const void *data, size_t bytes) {
    weft_graph *graph = NULL;
    weft_status status = weft_onnx_import_memory(context, data, bytes, MODELS, NULL, &graph);
    ck_assert_msg((status == NULL) == (graph != NULL), "a status without or beside a graph");
    weft_status_release(status);
    weft_graph_release(graph);
}

static unsigned char *load(const char *name, size_t *out_bytes) {
    char path[500];
    weft_file file;
    snprintf(path, sizeof path, MODELS "%s.onnx", name);
    ck_assert_ptr_null(weft_file_map(path, &file));
    unsigned char *copy = malloc(file.bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, file.data, file.bytes);
    *out_bytes = file.bytes;
    weft_file_unmap(&file);
    return copy;
}

START_TEST(truncated) {
    size_t bytes;
    unsigned char *data = load(models[_i], &bytes);
    for (size_t length = 0; length < bytes; length += 1 + length / 200) {
        unsigned char *exact = malloc(length + 1); /* a heap block of its own: a read past the end is seen */
        memcpy(exact, data, length);
        import_bytes(exact, length);
        free(exact);
    }
    free(data);
}
END_TEST

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

START_TEST(mutated) {
    size_t bytes;
    unsigned char *data = load(models[_i], &bytes), *copy = malloc(bytes);
    const char *wanted = getenv("WEFT_MUTATIONS");
    int count = wanted ? atoi(wanted) : 400;
    unsigned seed = 12345u + (unsigned)_i;
    for (int k = 0; k < count; k++) {
        memcpy(copy, data, bytes);
        for (unsigned flips = 1 + next_random(&seed) % 3; flips > 0; flips--) {
            size_t at = next_random(&seed) % bytes;
            unsigned how = next_random(&seed) % 4;
            copy[at] = (unsigned char)(how == 0   ? 0xff
                                       : how == 1 ? 0
                                       : how == 2 ? copy[at] ^ (1u << (next_random(&seed) % 8))
                                                  : next_random(&seed));
        }
        import_bytes(copy, bytes);
    }
    free(copy);
    free(data);
}
END_TEST

/* Message in message in message: field 7 (graph) and then node, attribute, graph ... of a ModelProto. */
START_TEST(nested) {
    enum { LEVELS = 20000 };
    size_t capacity = (size_t)LEVELS * 8, length = 0;
    unsigned char *text = malloc(capacity), *at = text + capacity;
    static const unsigned char tags[3] = {0x0a /* graph.node */, 0x2a /* node.attribute */, 0x32 /* attribute.g */};
    for (int level = LEVELS; level > 0; level--) {
        unsigned char size[5];
        int n = 0;
        for (size_t rest = length;; rest >>= 7) {
            size[n++] = (unsigned char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
            if (rest <= 0x7f) break;
        }
        if (at - text < n + 1) break;
        at -= n;
        memcpy(at, size, (size_t)n);
        *--at = level == 1 ? 0x3a : tags[(level + 1) % 3];
        length += (size_t)n + 1;
    }
    import_bytes(at, length);
    free(text);
}
END_TEST

START_TEST(nothing_at_all) {
    import_bytes("", 0);
    import_bytes("\x3a\x00", 2);
    import_bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11);
    weft_graph *graph;
    weft_status status = weft_onnx_import(context, MODELS "missing.onnx", NULL, &graph);
    ck_assert_ptr_nonnull(status);
    weft_status_release(status);
}
END_TEST

START_TEST(cycle_and_missing_names) {
    weft_graph *graph;
    weft_status status = weft_onnx_import(context, MODELS "cycle.onnx", NULL, &graph);
    ck_assert_ptr_nonnull(status);
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "is not defined before this node"));
    weft_status_release(status);
    status = weft_onnx_import(context, MODELS "recursion.onnx", NULL, &graph);
    ck_assert_ptr_nonnull(status);
    weft_status_release(status);
}
END_TEST

/* Faults that a reader of fields would not notice: the model would run and give other numbers than its author meant. */
static const char *const misread[][2] = {
    {"twice", "\"y\" is defined twice"},
    {"inputs", "two inputs are called \"x\""},
    {"type", "attribute axis has type 3, wanted INT"},
    {"list", "attribute axis has type 7, wanted INT"},
    {"wide", "attribute axis is 4294967296"},
    {"softmax", "attribute axis is 4294967296"},
    {"log_softmax", "attribute axis is -9223372036854775808"},
    {"hardmax", "attribute axis is 4294967296"},
    {"cumulative", "axis 4294967296"},
    {"split", "num_outputs is 3, the node has 2"},
    {"norm", "p is 3, neither 1 nor 2"},
    {"axis", "attribute axis is missing"},
    {"cast", "attribute to is missing"},
    {"group", "group is 0"},
    {"kernel", "kernel_shape says 3 at axis 0, the weights have 2"},
    {"pads", "pads 2 and 0 of spatial axis 1: a window of 2 lies in the padding alone"},
    {"average", "pads 0 and 3 of spatial axis 0: a window of 3 lies in the padding alone"},
    {"often", "cannot broadcast extents 3 and 7 of axis 1: they differ and neither is 1 (10 times)"},
    {"output", "output \"y\" is declared i64 and computed as f32"},
};

START_TEST(misread_models) {
    char path[500], text[1000];
    weft_graph *graph;
    snprintf(path, sizeof path, MODELS "misread_%s.onnx", misread[_i][0]);
    weft_status status = weft_onnx_import(context, path, NULL, &graph);
    ck_assert_msg(status != NULL, "%s: imported", path);
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, misread[_i][1]) != NULL, "%s: %s", path, text);
    weft_status_release(status);
}
END_TEST

/* External data behind links: what leads out of the model's folder is not read, the folder that the model itself is a
   link into is one of its own. */
START_TEST(links) {
    static const struct {
        const char *model, *data; /* what x/external.onnx and x/external.data point at */
        bool fine;
    } cases[] = {{"../real/external.onnx", "../real/external.data", true},
                 {"../real/external.onnx", "../else/external.data", false},
                 {"../else/../real/external.onnx", "inner/../kept.data", true},
                 {NULL, "../real/external.data", false},
                 {NULL, "kept.data", true},
                 {NULL, "../x2/kept.data", false},
                 {NULL, "/etc/passwd", false}};
    char folder[] = "/tmp/weft-links-XXXXXX", command[2000];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(command, sizeof command,
                   "cd %s && mkdir x x/inner x2 real else && cp %sexternal.onnx real && cp %sexternal.data real && "
                   "cp real/* else && cp else/external.data x/kept.data && cp else/external.data x2/kept.data",
                   folder, MODELS, MODELS);
    ck_assert_int_eq(system(command), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[500], text[2000] = "";
        (void)snprintf(command, sizeof command,
                       "cd %s/x && rm -f external.onnx external.data && ln -s %s external.data && %s %s external.onnx",
                       folder, cases[i].data, cases[i].model ? "ln -s" : "cp",
                       cases[i].model ? cases[i].model : "../real/external.onnx");
        ck_assert_int_eq(system(command), 0);
        (void)snprintf(path, sizeof path, "%s/x/external.onnx", folder);
        weft_graph *graph;
        weft_status status = weft_onnx_import(context, path, NULL, &graph);
        if (status) weft_status_format(status, text, sizeof text);
        ck_assert_msg((status == NULL) == cases[i].fine, "%zu: %s", i, text);
        ck_assert_msg(cases[i].fine || strstr(text, "which is not inside the model's folder"), "%zu: %s", i, text);
        weft_status_release(status);
        weft_graph_release(graph);
    }
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* -- memory: allocation number `left` and all after it fail */

START_TEST(every_allocation_may_fail) {
    size_t bytes;
    unsigned char *data = load(models[_i], &bytes);
    for (long n = 0;; n += 1 + n / 100) {
        failing state = {.left = LONG_MAX};
        weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
        options.allocator = (weft_allocator){&state, failing_resize};
        weft_context *own;
        ck_assert_ptr_null(weft_context_create(&options, &own));
        state.left = n;
        weft_graph *graph = NULL;
        weft_status status = weft_onnx_import_memory(own, data, bytes, MODELS, NULL, &graph);
        bool failed = state.failed;
        ck_assert_msg(!failed || status != NULL || graph != NULL, "allocation %ld", n);
        ck_assert_msg((status == NULL) == (graph != NULL), "allocation %ld: a status without or beside a graph", n);
        weft_status_release(status);
        weft_graph_release(graph);
        weft_context_release(own);
        ck_assert_msg(state.live_bytes == 0, "allocation %ld: %ld bytes are left", n, state.live_bytes);
        if (!failed) break;
    }
    free(data);
}
END_TEST

Suite *hostile_suite(void) {
    Suite *suite = suite_create("onnx hostile");
    TCase *tcase = tcase_create("hostile");
    int count = (int)(sizeof models / sizeof *models);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 240);
    tcase_add_loop_test(tcase, truncated, 0, count);
    tcase_add_loop_test(tcase, mutated, 0, count);
    tcase_add_loop_test(tcase, every_allocation_may_fail, 0, count);
    tcase_add_test(tcase, nested);
    tcase_add_test(tcase, links);
    tcase_add_test(tcase, nothing_at_all);
    tcase_add_test(tcase, cycle_and_missing_names);
    tcase_add_loop_test(tcase, misread_models, 0, sizeof misread / sizeof *misread);
    suite_add_tcase(suite, tcase);
    return suite;
}
#endif
