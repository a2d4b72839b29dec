/* Artifacts of the real compiler: the same numbers as just in time, every CPU variant, damaged files, targets and paths
   that cannot be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/artifact.h"
#include "base/file.h"
#include "tests/compile/testing.h"

static char folder[512], path[600];
static weft_context *context;
static weft_graph *graph;

static void set_up(void) {
    test_folder_make(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/model.weft", folder);
    graph = NULL;
    assert_fine(test_context(NULL, NULL, "", &context));
}

static void tear_down(void) {
    weft_graph_release(graph);
    weft_context_release(context);
    test_folder_remove(folder);
}

static weft_status load_and_call(bool verify, weft_tensor *const *inputs, weft_tensor **outputs) {
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    weft_program *program = NULL;
    weft_session *session = NULL;
    options.verify = verify;
    WEFT_TRY(weft_program_load(context, path, &options, &program), "test");
    weft_status status = weft_session_create(program, &session);
    if (!status)
        status =
            weft_session_call(session, weft_graph_input_count(graph), inputs, weft_graph_output_count(graph), outputs);
    weft_session_release(session);
    weft_program_release(program);
    return status;
}

START_TEST(test_same_as_in_memory) {
    for (const test_sample *sample = test_samples; sample->name; sample++) {
        weft_function *function;
        assert_fine(test_sample_graph(context, sample, &graph));
        assert_fine(weft_compile_file(graph, NULL, path));
        assert_fine(weft_function_create(graph, NULL, &function));
        for (int64_t batch = 2; batch < 9; batch += 3) {
            weft_tensor *inputs[TEST_PORTS] = {0}, *a[TEST_PORTS] = {0}, *b[TEST_PORTS] = {0};
            assert_fine(test_inputs(context, graph, batch, inputs));
            assert_fine(load_and_call(true, inputs, a));
            test_compare(graph, inputs, a);
            if (!strcmp(sample->name, "symbolic") || !strcmp(sample->name, "scan") || batch == 2) {
                assert_fine(weft_function_call(function, weft_graph_input_count(graph), inputs,
                                               weft_graph_output_count(graph), b));
                /* A function fixes undeclared extents, which may change the order of a sum. */
                if (strcmp(sample->name, "anonymous") != 0) test_same_bits(weft_graph_output_count(graph), a, b);
            }
            test_release(inputs);
            test_release(a);
            test_release(b);
        }
        weft_function_release(function);
        weft_graph_release(graph);
        graph = NULL;
    }
}
END_TEST

static weft_status compile_again_and_call(weft_tensor *const *inputs, weft_tensor **outputs) {
    weft_program *program = NULL;
    weft_session *session = NULL;
    WEFT_TRY(weft_compile_artifact(context, path, NULL, &program), "test");
    weft_status status = weft_session_create(program, &session);
    if (!status)
        status =
            weft_session_call(session, weft_graph_input_count(graph), inputs, weft_graph_output_count(graph), outputs);
    weft_session_release(session);
    weft_program_release(program);
    return status;
}

/* The graph inside gives the same bits as the code beside it, also where the file was made batch-invariant and nobody
   says so again; without one there is nothing to compile. */
START_TEST(test_compiled_again) {
    for (const test_sample *sample = test_samples; sample->name; sample++) {
        weft_tensor *inputs[TEST_PORTS] = {0}, *a[TEST_PORTS] = {0}, *b[TEST_PORTS] = {0};
        weft_program *program;
        weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
        assert_fine(test_sample_graph(context, sample, &graph));
        options.batch_invariant = _i == 1;
        assert_fine(weft_compile_file(graph, &options, path));
        assert_fine(test_inputs(context, graph, 3, inputs));
        assert_fine(load_and_call(true, inputs, a));
        assert_fine(compile_again_and_call(inputs, b));
        test_same_bits(weft_graph_output_count(graph), a, b);
        options.no_graph = true;
        assert_fine(weft_compile_file(graph, &options, path));
        assert_fails(weft_compile_artifact(context, path, NULL, &program), WEFT_NOT_FOUND, "no graph");
        ck_assert_ptr_null(program);
        test_release(inputs);
        test_release(a);
        test_release(b);
        weft_graph_release(graph);
        graph = NULL;
    }
}
END_TEST

START_TEST(test_each_cpu_variant) {
    static const char *const variants[] = {"x86-64-v3", "x86-64-v4"};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(setenv("WEFT_CPU", variants[i], 1), 0);
        weft_context_release(context); /* a context keeps the devices it opened */
        assert_fine(test_context(NULL, NULL, "", &context));
        for (const test_sample *sample = test_samples; sample->name; sample++) {
            weft_program *program;
            weft_tensor *inputs[TEST_PORTS] = {0}, *outputs[TEST_PORTS] = {0};
            assert_fine(test_sample_graph(context, sample, &graph));
            assert_fine(weft_compile_file(graph, NULL, path));
            weft_status status = weft_program_load(context, path, NULL, &program);
            if (weft_status_code(status) == WEFT_UNAVAILABLE || weft_status_code(status) == WEFT_UNSUPPORTED) {
                printf("%s: not tested: %s\n", variants[i], weft_status_message(status));
                weft_status_release(status);
                weft_graph_release(graph);
                graph = NULL;
                break;
            }
            assert_fine(status);
            ck_assert_str_eq(weft_program_arch(program), variants[i]);
            weft_program_release(program);
            assert_fine(test_inputs(context, graph, 4, inputs));
            assert_fine(load_and_call(false, inputs, outputs));
            test_compare(graph, inputs, outputs);
            test_release(inputs);
            test_release(outputs);
            weft_graph_release(graph);
            graph = NULL;
        }
    }
    unsetenv("WEFT_CPU");
}
END_TEST

static unsigned long long next_random(unsigned long long *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    unsigned long long z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static void write_damaged(const unsigned char *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

/* A status, or with every CRC checked the same bits. Without, damaged weights may change numbers, nothing else. */
static void call_damaged(weft_tensor *const *inputs, weft_tensor *const *expected) {
    for (int verify = 0; verify < 2; verify++) {
        weft_tensor *outputs[TEST_PORTS] = {0};
        weft_status status = load_and_call(verify, inputs, outputs);
        if (!status && verify) test_same_bits(weft_graph_output_count(graph), expected, outputs);
        ck_assert_int_ne(weft_status_code(status), WEFT_INTERNAL);
        weft_status_release(status);
        test_release(outputs);
    }
}

START_TEST(test_damaged) {
    weft_file whole;
    weft_tensor *inputs[TEST_PORTS] = {0}, *expected[TEST_PORTS] = {0};
    unsigned long long seed = 1;
    assert_fine(test_sample_graph(context, test_sample_find("symbolic"), &graph));
    assert_fine(weft_compile_file(graph, NULL, path));
    assert_fine(test_inputs(context, graph, 4, inputs));
    assert_fine(load_and_call(true, inputs, expected));
    assert_fine(weft_file_map(path, &whole));
    size_t total = whole.bytes;
    unsigned char *copy = malloc(total);
    memcpy(copy, whole.data, total);
    weft_file_unmap(&whole);
    for (size_t bytes = 0; bytes < total; bytes += 4096) {
        write_damaged(copy, bytes);
        call_damaged(inputs, expected);
    }
    for (int i = 0; i < 300;
         i++) { /* one half in the directory and manifest at the end, which are a small part of the file */
        size_t range = i % 2 ? total : total < 16384 ? total : 16384, at = total - 1 - next_random(&seed) % range;
        unsigned char bit = (unsigned char)(1u << next_random(&seed) % 8);
        copy[at] ^= bit;
        write_damaged(copy, total);
        call_damaged(inputs, expected);
        copy[at] ^= bit;
    }
    free(copy);
    test_release(inputs);
    test_release(expected);
}
END_TEST

static void assert_file_fails(const char *targets, const char *to, weft_code code) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = targets;
    int before = test_folder_count(folder);
    assert_fails(weft_compile_file(graph, &options, to), code, NULL);
    ck_assert_int_eq(test_folder_count(folder), before);
}

START_TEST(test_bad_paths) {
    char name[5000];
    assert_fine(test_sample_graph(context, test_sample_find("mlp"), &graph));
    assert_file_fails("cpu", "/proc/model.weft", WEFT_NOT_FOUND);
    snprintf(name, sizeof name, "%s/missing/model.weft", folder);
    assert_file_fails("cpu", name, WEFT_NOT_FOUND);
    assert_file_fails("cpu", folder, WEFT_IO); /* a folder */
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_file_fails("cpu", name, WEFT_IO);
    assert_file_fails("cpu", "", WEFT_INVALID_ARGUMENT);
    assert_file_fails("", path, WEFT_INVALID_ARGUMENT);
    assert_file_fails("cpu:x86-64-v9", path, WEFT_INVALID_ARGUMENT);
    assert_file_fails("cpu,,cpu", path, WEFT_INVALID_ARGUMENT);
    assert_file_fails("cpu,cpu:x86-64-v3", path, WEFT_INVALID_ARGUMENT);
}
END_TEST

/* What was there stays when the new file cannot be written. */
START_TEST(test_full_disk) {
    char disk[600], kept[700];
    snprintf(disk, sizeof disk, "%s/disk", folder);
    snprintf(kept, sizeof kept, "%s/model.weft", disk);
    ck_assert_int_eq(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=64k")) {
        printf("full disk: not tested, mounting a tmpfs failed: %s\n", strerror(errno));
        return;
    }
    assert_fine(weft_file_write_all(weft_allocator_system(), kept, "old", 3));
    assert_fine(test_sample_graph(context, test_sample_find("mlp"), &graph));
    weft_status status = weft_compile_file(graph, NULL, kept);
    struct stat info;
    int found = stat(kept, &info), count = test_folder_count(disk);
    ck_assert_int_eq(umount(disk), 0);
    assert_fails(status, WEFT_IO, "the disk is full");
    ck_assert_int_eq(found, 0);
    ck_assert_int_eq(info.st_size, 3);
    ck_assert_int_eq(count, 1);
}
END_TEST

/* A convolution whose factors go into its weights, for targets of two kinds, with a graph that can be compiled again:
   the weights are in the file once, as they are used. */
START_TEST(test_weights_once) {
    enum { CHANNELS = 64, WEIGHTS = CHANNELS * CHANNELS * 9 };
    weft_tensor *tensors[2], *inputs[TEST_PORTS] = {0}, *a[TEST_PORTS] = {0}, *b[TEST_PORTS] = {0};
    weft_dim shape[4] = {1, CHANNELS, 5, 5}, axis[1] = {1};
    assert_fine(weft_graph_create(context, "folded", &graph));
    for (int i = 0; i < 2; i++) {
        assert_fine(
            weft_tensor_create(context, WEFT_F32, i ? 1 : 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, &tensors[i]));
        float *numbers = weft_tensor_data(tensors[i]);
        for (int k = 0; k < (i ? CHANNELS : WEIGHTS); k++) numbers[k] = (float)(k % 23) / 16 - 0.5f;
    }
    weft_convolution_options convolution = WEFT_CONVOLUTION_OPTIONS_INIT;
    convolution.low = convolution.high = (weft_dim[]){1, 1};
    weft_value *y = weft_convolution(graph, weft_graph_input(graph, "x", WEFT_F32, 4, shape),
                                     weft_graph_parameter(graph, "w", tensors[0]), &convolution),
               *scale = weft_broadcast(graph, weft_graph_parameter(graph, "scale", tensors[1]), 4, shape, axis);
    weft_graph_output(graph, "y", weft_mul(graph, y, scale));
    for (int i = 0; i < 2; i++) weft_tensor_release(tensors[i]);

    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "cpu,webgpu";
    assert_fine(weft_compile_file(graph, &options, path));
    weft_file file;
    weft_arena arena;
    weft_artifact artifact;
    weft_arena_init(weft_allocator_system(), &arena);
    assert_fine(weft_file_map(path, &file));
    assert_fine(weft_artifact_open(&arena, file.data, file.bytes, &artifact));
    ck_assert_int_ge(artifact.target_count, 3); /* two of CPUs and those of WebGPU */
    ck_assert_ptr_nonnull(artifact.graph);
    ck_assert_uint_ge(artifact.weights->bytes, WEIGHTS * 4);
    ck_assert_uint_lt(artifact.weights->bytes, WEIGHTS * 4 + 1024);
    weft_arena_deinit(&arena);
    weft_file_unmap(&file);

    assert_fine(test_inputs(context, graph, 1, inputs));
    assert_fine(load_and_call(true, inputs, a));
    test_compare(graph, inputs, a);
    assert_fine(compile_again_and_call(inputs, b));
    test_same_bits(1, a, b);
    test_release(inputs);
    test_release(a);
    test_release(b);
}
END_TEST

Suite *artifact_suite(void) {
    Suite *suite = suite_create("artifact");
    TCase *tests = tcase_create("artifact");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_same_as_in_memory);
    tcase_add_loop_test(tests, test_compiled_again, 0, 2);
    tcase_add_test(tests, test_each_cpu_variant);
    tcase_add_test(tests, test_damaged);
    tcase_add_test(tests, test_bad_paths);
    tcase_add_test(tests, test_weights_once);
    tcase_add_test(tests, test_full_disk);
    suite_add_tcase(suite, tests);
    return suite;
}
