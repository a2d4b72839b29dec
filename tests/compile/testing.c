/* See testing.h. */
#include "tests/compile/testing.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"

static void *resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    test_allocator *state = self;
    if (new_bytes > old_bytes) {
        atomic_fetch_add(&state->count, 1);
        bool hit = atomic_fetch_sub(&state->left, 1) == 0;
        if (hit) atomic_store(&state->failed, true);
        if (hit || (state->sticky && atomic_load(&state->failed))) return NULL;
    }
    weft_allocator system = weft_allocator_system();
    void *result = system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
    if (result || new_bytes == 0) atomic_fetch_add(&state->live_bytes, (long)new_bytes - (long)old_bytes);
    return result;
}

weft_allocator test_allocator_make(test_allocator *state) { return (weft_allocator){state, resize}; }

static void write_log(void *self, weft_log_level level, const char *message) {
    test_log *log = self;
    size_t length = strlen(log->text);
    log->count[level]++;
    snprintf(log->text + length, sizeof log->text - length, "%s\n", message);
}

weft_status test_context(test_allocator *allocator, test_log *log, const char *cache, weft_context **out_context) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    if (allocator) options.allocator = test_allocator_make(allocator);
    if (log) options.log = write_log, options.log_self = log, options.log_level = WEFT_LOG_DEBUG;
    options.cache_folder = cache;
    options.thread_count = 1;
    return weft_context_create(&options, out_context);
}

weft_status test_sample_graph(weft_context *context, const test_sample *sample, weft_graph **out_graph) {
    WEFT_TRY(weft_graph_create(context, sample->name, out_graph), "test");
    sample->build(*out_graph);
    return weft_graph_verify(*out_graph);
}

const test_sample *test_sample_find(const char *name) {
    const test_sample *sample = test_samples;
    while (sample->name && strcmp(sample->name, name) != 0) sample++;
    ck_assert_msg(sample->name != NULL, "no sample %s", name);
    return sample;
}

weft_status test_inputs(weft_context *context, const weft_graph *graph, int64_t batch, weft_tensor **out_inputs) {
    for (int i = 0; i < weft_graph_input_count(graph); i++) {
        const weft_value *value = weft_graph_input_value(graph, i);
        weft_dtype dtype = weft_value_dtype(value);
        int64_t shape[WEFT_MAX_RANK];
        for (int d = 0; d < weft_value_rank(value); d++)
            shape[d] = weft_value_dim(value, d) < 0 ? batch : weft_value_dim(value, d);
        WEFT_TRY(weft_tensor_create(context, dtype, weft_value_rank(value), shape, &out_inputs[i]), "test");
        void *data = weft_tensor_data(out_inputs[i]);
        for (int64_t k = 0; k < weft_tensor_element_count(out_inputs[i]); k++)
            if (weft_dtype_is_float(dtype))
                weft_element_set_double(dtype, data, k, sin((double)(k * 7 + i)));
            else
                weft_element_set_i64(dtype, data, k, dtype == WEFT_BOOL ? (k + i + 1) % 2 : (k * 5 + 3) % 11);
    }
    return NULL;
}

void test_release(weft_tensor **tensors) {
    for (int i = 0; i < TEST_PORTS; i++) weft_tensor_release(tensors[i]), tensors[i] = NULL;
}

static void compare_tensor(const char *name, const weft_tensor *expected, const weft_tensor *actual) {
    weft_dtype dtype = weft_tensor_dtype(expected);
    ck_assert_int_eq(dtype, weft_tensor_dtype(actual));
    ck_assert_int_eq(weft_tensor_rank(expected), weft_tensor_rank(actual));
    for (int d = 0; d < weft_tensor_rank(expected); d++)
        ck_assert_int_eq(weft_tensor_shape(expected)[d], weft_tensor_shape(actual)[d]);
    const void *e = weft_tensor_data(expected), *a = weft_tensor_data(actual);
    for (int64_t i = 0; i < weft_tensor_element_count(expected); i++) {
        if (!weft_dtype_is_float(dtype)) {
            ck_assert_int_eq(weft_element_i64(dtype, e, i), weft_element_i64(dtype, a, i));
            continue;
        }
        double x = weft_element_double(dtype, e, i), y = weft_element_double(dtype, a, i);
        ck_assert_msg(fabs(x - y) <= 1e-4 * (1 + fabs(x)), "%s[%lld]: %g, expected %g", name, (long long)i, y, x);
    }
}

void test_compare(weft_graph *graph, weft_tensor *const *inputs, weft_tensor *const *outputs) {
    weft_tensor *expected[TEST_PORTS] = {0};
    int count = weft_graph_output_count(graph);
    assert_fine(weft_graph_interpret(graph, weft_graph_input_count(graph), inputs, count, expected));
    for (int i = 0; i < count; i++) compare_tensor(weft_graph_output_name(graph, i), expected[i], outputs[i]);
    test_release(expected);
}

void test_same_bits(int count, weft_tensor *const *a, weft_tensor *const *b) {
    for (int i = 0; i < count; i++) {
        ck_assert_uint_eq(weft_tensor_bytes(a[i]), weft_tensor_bytes(b[i]));
        ck_assert_msg(!memcmp(weft_tensor_data(a[i]), weft_tensor_data(b[i]), weft_tensor_bytes(a[i])),
                      "output %d differs", i);
    }
}

void test_folder_make(char *path, size_t capacity) {
    const char *base = getenv("TMPDIR");
    snprintf(path, capacity, "%s/weft-test-XXXXXX", base && base[0] ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static void visit(const char *path, int *count, char *first, size_t capacity, bool remove_entries) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char name[1024];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (first && !*count) snprintf(first, capacity, "%s", name);
        ++*count;
        if (remove_entries && unlink(name)) test_folder_remove(name);
    }
    if (folder) closedir(folder);
}

void test_folder_remove(const char *path) {
    int count = 0;
    visit(path, &count, NULL, 0, true);
    (void)rmdir(path);
}

int test_folder_count(const char *path) {
    int count = 0;
    visit(path, &count, NULL, 0, false);
    return count;
}

void test_folder_first(const char *path, char *out, size_t capacity) {
    int count = 0;
    visit(path, &count, out, capacity, false);
    ck_assert_int_gt(count, 0);
}
