/* Artifacts: round trip, choice of code, version skew, damage of every kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/artifact.h"
#include "base/file.h"
#include "tests/runtime/testing.h"

static weft_context *context;
static char path[] = "/tmp/weft-artifact-XXXXXX";

static void set_up(void) {
    assert_fine(weft_context_create(NULL, &context));
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
}

static void tear_down(void) {
    weft_context_release(context);
    unlink(path);
}

static const char graph_text[] = "graph affine\n";

static void write_affine(const char *arch) {
    maker m;
    make_affine(&m, weft_allocator_system());
    weft_binary code = test_image();
    weft_artifact_target targets[2] = {{&m.data, arch, code.data, code.bytes},
                                       {&m.data, "x86-64-v9", code.data, code.bytes}};
    weft_artifact_content content = {
        "affine", 2, targets, graph_text, strlen(graph_text), affine_weights, sizeof affine_weights, false};
    assert_fine(weft_artifact_write(weft_allocator_system(), path, &content));
    maker_deinit(&m);
}

static weft_status call_once(weft_context *owner, weft_program *program, bool *out_right) {
    weft_session *session = NULL;
    weft_tensor *x = NULL, *y = NULL;
    float expected[40];
    *out_right = false;
    weft_status status = weft_session_create(program, &session);
    if (!status) status = weft_tensor_create(owner, WEFT_F32, 2, (int64_t[]){5, 8}, &x);
    if (!status) status = weft_session_call(session, 1, &x, 1, &y);
    if (!status) {
        affine_expected(5, weft_tensor_data(x), expected);
        *out_right = !memcmp(weft_tensor_data(y), expected, sizeof expected);
    }
    weft_tensor_release(x);
    weft_tensor_release(y);
    weft_session_release(session);
    return status;
}

START_TEST(round_trip) {
    weft_program *program;
    bool right;
    write_affine("x86-64");
    for (int verify = 0; verify < 2; verify++) {
        weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
        options.verify = verify;
        assert_fine(weft_program_load(context, path, &options, &program));
        unlink(path); /* the mapping stays */
        ck_assert_str_eq(weft_program_arch(program), "x86-64");
        assert_fine(call_once(context, program, &right));
        ck_assert(right);
        weft_program_release(program);
        write_affine("x86-64");
    }
    assert_fine(weft_program_load(context, path, NULL, &program));
    weft_program_release(program);
}
END_TEST

START_TEST(layout) {
    weft_file file;
    weft_arena arena;
    weft_zip zip;
    weft_artifact artifact;
    write_affine("x86-64");
    assert_fine(weft_file_map(path, &file));
    weft_arena_init(weft_allocator_system(), &arena);
    assert_fine(weft_zip_open(&arena, file.data, file.bytes, &zip));
    const char *names[] = {"manifest.json", "graph.wir", "kernels/cpu/x86-64.elf", "kernels/cpu/x86-64-v9.elf",
                           "weights.bin"};
    ck_assert_uint_eq(zip.count, 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(zip.entries[i].name, names[i]);
        if (i >= 2)
            ck_assert_int_eq(((const char *)zip.entries[i].data - (const char *)file.data) % WEFT_ARTIFACT_ALIGN, 0);
    }
    assert_fine(weft_artifact_open(&arena, file.data, file.bytes, &artifact));
    ck_assert_str_eq(artifact.name, "affine");
    ck_assert_int_eq(artifact.target_count, 2);
    ck_assert_uint_eq(artifact.graph->bytes, strlen(graph_text));
    weft_arena_deinit(&arena);
    weft_file_unmap(&file);
}
END_TEST

START_TEST(refusals) {
    weft_program *program;
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    write_affine("x86-64-v8");
    assert_fails(weft_program_load(context, path, NULL, &program), WEFT_NOT_FOUND,
                 "code for cpu:x86-64-v8, cpu:x86-64-v9; this device is cpu:");
    write_affine("x86-64");
    options.untrusted = true;
    assert_fails(weft_program_load(context, path, &options, &program), WEFT_UNSUPPORTED, "graph.wir");
    options.untrusted = false;
    options.device = "tpu:0";
    assert_fails(weft_program_load(context, path, &options, &program), WEFT_NOT_FOUND, "tpu:0");
    assert_fails(weft_program_load(context, "/nonexistent/model.weft", NULL, &program), WEFT_NOT_FOUND,
                 "/nonexistent/model.weft");
    ck_assert_ptr_null(program);
    options.struct_bytes = 0;
    assert_fails(weft_program_load(context, path, &options, &program), WEFT_INVALID_ARGUMENT, NULL);
}
END_TEST

/* A file with one entry, manifest.json, of this text. */
static void write_manifest(const char *text) {
    weft_file_writer file;
    weft_zip_writer *zip;
    assert_fine(weft_file_writer_open(weft_allocator_system(), path, &file));
    assert_fine(weft_zip_writer_create(weft_allocator_system(), file.file, &zip));
    assert_fine(weft_zip_writer_add(zip, "manifest.json", text, strlen(text), 0));
    assert_fine(weft_zip_writer_finish(zip));
    weft_zip_writer_release(zip);
    assert_fine(weft_file_writer_commit(&file));
}

START_TEST(manifests) {
    static const struct {
        const char *text;
        weft_code code;
        const char *part;
    } rows[] = {
        {"{\"format\":\"weft-artifact\",\"version\":2,\"producer\":\"9.1\"}", WEFT_UNSUPPORTED,
         "artifact format 2, written by Weft 9.1"},
        {"{\"format\":\"other\",\"version\":1,\"producer\":\"x\"}", WEFT_INVALID_DATA, "not one of Weft"},
        {"{\"format\":\"weft-artifact\",\"version\":\"1\",\"producer\":\"x\"}", WEFT_INVALID_DATA, "version"},
        {"{\"version\":1}", WEFT_INVALID_DATA, "producer"},
        {"[]", WEFT_INVALID_DATA, "no object"},
        {"{", WEFT_INVALID_DATA, NULL},
        {"{\"format\":\"weft-artifact\",\"version\":1,\"producer\":\"x\",\"name\":\"n\",\"graph\":\"g\"}",
         WEFT_INVALID_DATA, "entry g"},
        {"{\"format\":\"weft-artifact\",\"version\":1,\"producer\":\"x\",\"name\":\"n\",\"graph\":null,\"weights\":null,\"weights_bytes\":5}",
         WEFT_INVALID_DATA, "disagree"},
        {"{\"format\":\"weft-artifact\",\"version\":1,\"producer\":\"x\",\"name\":\"n\",\"graph\":null,\"weights\":null,\"weights_bytes\":0,"
         "\"targets\":[{\"target\":\"cpu\",\"arch\":\"x86-64\",\"code\":\"manifest.json\"}]}",
         WEFT_INVALID_DATA, "no program"},
        {"{\"format\":\"weft-artifact\",\"version\":1,\"producer\":\"x\",\"name\":\"n\",\"graph\":null,\"weights\":null,\"weights_bytes\":0,"
         "\"targets\":[{\"target\":\"cpu\",\"arch\":\"x86-64\",\"code\":\"manifest.json\",\"program\":{\"format\":7}}]}",
         WEFT_UNSUPPORTED, "program format 7"},
        {"{\"format\":\"weft-artifact\",\"version\":1,\"producer\":\"x\",\"name\":\"n\",\"graph\":null,\"weights\":null,\"weights_bytes\":0,"
         "\"targets\":[]}",
         WEFT_NOT_FOUND, "code for nothing"},
    };
    weft_program *program;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_manifest(rows[i].text);
        assert_fails(weft_program_load(context, path, NULL, &program), rows[i].code, rows[i].part);
    }
}
END_TEST

static void write_bytes(const unsigned char *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

static unsigned char *read_all(size_t *out_count) {
    weft_file file;
    assert_fine(weft_file_map(path, &file));
    unsigned char *copy = malloc(file.bytes);
    memcpy(copy, file.data, file.bytes);
    *out_count = file.bytes;
    weft_file_unmap(&file);
    return copy;
}

START_TEST(truncation) {
    size_t count;
    weft_program *program;
    write_affine("x86-64");
    free(read_all(&count));
    for (size_t length = (count - 1) / 64 * 64;; length -= 64) {
        ck_assert_int_eq(truncate(path, (off_t)length), 0);
        weft_status status = weft_program_load(context, path, NULL, &program);
        ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
        ck_assert_ptr_null(program);
        weft_status_release(status);
        if (!length) break;
    }
}
END_TEST

/* Changes one byte of the file. */
static void poke(size_t at, unsigned char byte) {
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, (long)at, SEEK_SET), 0);
    ck_assert_int_eq(fputc(byte, file), byte);
    ck_assert_int_eq(fclose(file), 0);
}

/* A flipped bit is either found, or it lies where it changes nothing (padding, time stamps): then the result is right.
 */
START_TEST(bit_flips) {
    size_t count;
    weft_program *program;
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    options.verify = true;
    write_affine("x86-64");
    unsigned char *bytes = read_all(&count);
    int found = 0, harmless = 0;
    uint64_t state = 12345;
    for (int trial = 0; trial < 3000; trial++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(state >> 33) % count;
        if (!bytes[at] && trial % 8) continue; /* most of the file is padding */
        unsigned char bit = (unsigned char)(1 << (state >> 60 & 7));
        poke(at, bytes[at] ^ bit);
        weft_status status = weft_program_load(context, path, &options, &program);
        if (status) {
            found++;
            weft_status_release(status);
        } else {
            bool right;
            assert_fine(call_once(context, program, &right));
            ck_assert_msg(right, "bit %d of byte %zu changes the result unnoticed", bit, at);
            harmless++;
        }
        weft_program_release(program);
        poke(at, bytes[at]);
    }
    ck_assert_int_gt(found, 50);
    ck_assert_int_gt(harmless, 20);
    free(bytes);
}
END_TEST

START_TEST(damaged_weights) {
    size_t count;
    weft_program *program;
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    write_affine("x86-64");
    unsigned char *bytes = read_all(&count);
    size_t at = 0;
    while (memcmp(bytes + at, affine_weights, sizeof affine_weights) != 0) at++;
    bytes[at + 40] ^= 1;
    write_bytes(bytes, count);
    assert_fine(weft_program_load(context, path, &options, &program)); /* as documented */
    weft_program_release(program);
    options.verify = true;
    assert_fails(weft_program_load(context, path, &options, &program), WEFT_INVALID_DATA, "weights");
    free(bytes);
}
END_TEST

START_TEST(contents_that_do_not_fit) {
    maker m;
    make_affine(&m, weft_allocator_system());
    weft_binary code = test_image();
    weft_artifact_target targets[2] = {{&m.data, "x86-64", code.data, code.bytes},
                                       {&m.data, "x86-64", code.data, code.bytes}};
    weft_artifact_content content = {"affine", 1, targets, NULL, 0, affine_weights, 8, false};
    assert_fails(weft_artifact_write(weft_allocator_system(), path, &content), WEFT_INVALID_ARGUMENT,
                 "bytes of weights");
    content.weights_bytes = sizeof affine_weights;
    content.target_count = 2;
    assert_fails(weft_artifact_write(weft_allocator_system(), path, &content), WEFT_INVALID_ARGUMENT, "twice");
    content.target_count = 1;
    targets[0].arch = "../x";
    assert_fails(weft_artifact_write(weft_allocator_system(), path, &content), WEFT_INVALID_ARGUMENT, "architecture");
    targets[0].arch = "x86-64";
    m.regions[1].count = -1;
    assert_fails(weft_artifact_write(weft_allocator_system(), path, &content), WEFT_INVALID_DATA, NULL);
    maker_deinit(&m);
}
END_TEST

START_TEST(memory_runs_out) {
    write_affine("x86-64");
    bool done = false;
    for (long limit = 0; !done; limit++) {
        test_allocator counter = {limit, 0, 0};
        weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
        options.allocator = test_allocator_make(&counter);
        options.cache_folder = "";
        options.thread_count = 1;
        weft_context *small = NULL;
        weft_program *program = NULL;
        bool right = false;
        weft_status status = weft_context_create(&options, &small);
        if (!status) status = weft_program_load(small, path, NULL, &program);
        if (!status) status = call_once(small, program, &right);
        if (status) /* an expression without memory cannot tell from one that overflows */
            ck_assert(weft_status_code(status) == WEFT_OUT_OF_MEMORY || weft_status_code(status) == WEFT_INVALID_DATA);
        done = !status;
        ck_assert(right == done);
        weft_status_release(status);
        weft_program_release(program);
        weft_context_release(small);
        ck_assert_int_eq(atomic_load(&counter.live), 0);
        ck_assert_int_lt(limit, 2000);
    }
}
END_TEST

/* A program that links libweft-rt only runs the file, and is small. */
START_TEST(served_alone) {
    char line[64] = "";
    weft_text command;
    write_affine("x86-64");
    weft_text_init(weft_allocator_system(), &command);
    weft_text_append(&command, "%s %s", ALONE_PROGRAM, path);
    FILE *pipe = popen(weft_text_string(&command), "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, pipe));
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_str_eq(line, "4\n"); /* (0 + 2 * 1)^2 */
    weft_text_deinit(&command);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct stat facts;
    ck_assert_int_eq(stat(ALONE_PROGRAM ".stripped", &facts), 0);
    ck_assert_msg(facts.st_size < 300 * 1024, "%lld bytes", (long long)facts.st_size);
#endif
}
END_TEST

Suite *suite_artifact(void) {
    Suite *suite = suite_create("artifact");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, set_up, tear_down);
    tcase_add_test(files, round_trip);
    tcase_add_test(files, layout);
    tcase_add_test(files, refusals);
    tcase_add_test(files, manifests);
    tcase_add_test(files, truncation);
    tcase_add_test(files, bit_flips);
    tcase_add_test(files, damaged_weights);
    tcase_add_test(files, contents_that_do_not_fit);
    tcase_add_test(files, memory_runs_out);
    tcase_add_test(files, served_alone);
    tcase_set_timeout(files, 120);
    suite_add_tcase(suite, files);
    return suite;
}
