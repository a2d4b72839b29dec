/* The weft command with wrong input: exit code 1 (it failed) or 2 (wrong usage), a first line on stderr that names what
   is wrong, nothing on stdout, no file left behind. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/cli/cli.h"
#include "weft/npy.h"

char cli_folder[512];

static void write_text(const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_folder, name);
    ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), path, text, strlen(text)));
}

static void write_array(const char *name, weft_dtype dtype, int rank, const int64_t *shape) {
    char path[600];
    weft_context *context;
    weft_tensor *tensor;
    snprintf(path, sizeof path, "%s/%s", cli_folder, name);
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_tensor_create(context, dtype, rank, shape, &tensor));
    ck_assert_ptr_null(weft_npy_write(context, path, tensor));
    weft_tensor_release(tensor);
    weft_context_release(context);
}

static int read_some(const char *name, char *out, size_t capacity) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_folder, name);
    FILE *file = fopen(path, "rb");
    size_t count = file ? fread(out, 1, capacity - 1, file) : 0;
    out[count] = 0;
    if (file) fclose(file);
    return (int)count;
}

/* Runs `weft <arguments>` in the folder; the arguments are a shell's. */
int cli_execute(const char *arguments, char *err, size_t capacity) {
    char line[2048];
    snprintf(line, sizeof line, "cd '%s' && WEFT_CACHE=\"$WEFT_TEST_CACHE\" '%s' %s > stdout 2> stderr", cli_folder,
             WEFT_COMMAND, arguments);
    int code = system(line);
    read_some("stderr", err, capacity);
    ck_assert_msg(WIFEXITED(code), "weft %s: ended by a signal", arguments);
    return WEXITSTATUS(code);
}

void cli_refuse(int code, const char *arguments, const char *part) {
    char err[8192], out[64];
    int found = cli_execute(arguments, err, sizeof err);
    ck_assert_msg(found == code, "weft %s: exit code %d, not %d\n%s", arguments, found, code, err);
    char *end = strchr(err, '\n');
    ck_assert_msg(end != NULL, "weft %s: no message", arguments);
    ck_assert_msg(strstr(err, part) != NULL, "weft %s: \"%s\" is not in: %s", arguments, part, err);
    ck_assert_msg(strstr(err, "internal error") == NULL, "weft %s: %s", arguments, err);
    ck_assert_msg(read_some("stdout", out, sizeof out) == 0, "weft %s: failed and printed %s", arguments, out);
}

void cli_accept(const char *arguments) {
    char err[8192];
    int code = cli_execute(arguments, err, sizeof err);
    ck_assert_msg(code == 0, "weft %s: exit code %d: %s", arguments, code, err);
}

/* Succeeds, and prints `part` (wanted) or does not. */
static void shows(const char *arguments, bool wanted, const char *part) {
    static char out[65536];
    cli_accept(arguments);
    read_some("stdout", out, sizeof out);
    ck_assert_msg((strstr(out, part) != NULL) == wanted, "weft %s: \"%s\" is %s: %s", arguments, part,
                  wanted ? "not in" : "in", out);
}

void cli_set_up(void) {
    snprintf(cli_folder, sizeof cli_folder, "/tmp/weft-cli-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cli_folder));
    char path[600];
    snprintf(path, sizeof path, "%s/folder.wir", cli_folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_text(
        "good.wir",
        "graph @g {\n  symbol B in [1, 64] divisor 1\n  input %0 \"x\" : f32[B, 4]\n  %1 = exp %0 : f32[B, 4]\n  output \"y\" %1\n}\n");
    write_text("escapes.wir", "graph @g {\n  input %0 \"x\\u001b[31m\" : f32[2, 4]\n  %1 = exp %0 : f32[2, 4]\n"
                              "  output \"y\\u001b[31m\" %1\n}\n");
    write_text(
        "attention.wir",
        "graph @a {\n  input %0 \"q\" : f16[1, 2, 32, 64]\n"
        "  %1 = attention %0, %0, %0 {scale = 0.125, causal = 1, soft_cap = 0, window_left = -1, window_right = -1}"
        " : f16[1, 2, 32, 64]\n  output \"y\" %1\n}\n");
    write_text("text.wir", "hello\n");
    write_text("text.weft", "hello\n");
    write_text("empty.wir", "");
    write_text("empty.weft", "");
    write_text("model.txt", "hello\n");
    write_array("x.npy", WEFT_F32, 2, (int64_t[]){2, 4});
    write_array("shape.npy", WEFT_F32, 2, (int64_t[]){2, 5});
    write_array("rank.npy", WEFT_F32, 1, (int64_t[]){4});
    write_array("dtype.npy", WEFT_F64, 2, (int64_t[]){2, 4});
    write_array("many.npy", WEFT_F32, 2, (int64_t[]){65, 4});
}

void cli_tear_down(void) {
    char line[600];
    snprintf(line, sizeof line, "rm -rf '%s'", cli_folder);
    ck_assert_int_eq(system(line), 0);
}

static const char *const commands[] = {"compile", "run", "inspect", "bench", "bisect"};

/* A full disk behind stdout is a failure of every command, help among them. */
START_TEST(test_full_output) {
    static const char *const printers[] = {"help", "help run", "run --help", "--version", "inspect good.wir"};
    char line[1200];
    for (size_t i = 0; i < sizeof printers / sizeof *printers; i++) {
        (void)snprintf(line, sizeof line,
                       "cd '%s' && '%s' %s > /dev/full 2> stderr && exit 9; grep -q 'No space left' stderr", cli_folder,
                       WEFT_COMMAND, printers[i]);
        ck_assert_msg(system(line) == 0, "weft %s", printers[i]);
    }
    cli_refuse(2, "help nothing", "there is no command \"nothing\"");
}
END_TEST

/* Names of a model write to the terminal as text. */
START_TEST(test_escapes) {
    shows("run escapes.wir", true, "y\\x1b[31m: f32[2, 4]");
    shows("run escapes.wir", false, "\x1b");
    shows("inspect escapes.wir", true, "input x\\x1b[31m: f32[2, 4]");
    shows("inspect escapes.wir", false, "\x1b");
    shows("profile escapes.wir", false, "\x1b");
}
END_TEST

START_TEST(test_models) {
    static const char *const models[][2] = {
        {"missing.wir", "missing.wir"},  {"folder.wir", "not a regular file"},        {"text.wir", "expected graph"},
        {"empty.wir", "expected graph"}, {"model.txt", "expected a model ending in"}, {"missing.onnx", "missing.onnx"}};
    char line[256];
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++)
        for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
            snprintf(line, sizeof line, "%s %s", commands[c], models[m][0]);
            cli_refuse(1, line, models[m][1]);
        }
    cli_refuse(1, "compile text.weft", "compiled already");
    static const char *const artifacts[] = {"run", "inspect", "bench"};
    for (size_t c = 0; c < sizeof artifacts / sizeof *artifacts; c++) {
        snprintf(line, sizeof line, "%s text.weft", artifacts[c]);
        cli_refuse(1, line, "text.weft");
        snprintf(line, sizeof line, "%s empty.weft", artifacts[c]);
        cli_refuse(1, line, "empty.weft");
    }
    cli_refuse(1, "audit missing.onnx", "missing.onnx");
}
END_TEST

START_TEST(test_usage) {
    char line[256];
    cli_refuse(2, "", "compiles and runs models");
    cli_refuse(2, "nothing", "there is no command");
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        snprintf(line, sizeof line, "%s", commands[c]);
        cli_refuse(2, line, "is missing");
        snprintf(line, sizeof line, "%s --nonsense good.wir", commands[c]);
        cli_refuse(2, line, "is no option");
        snprintf(line, sizeof line, "%s good.wir good.wir", commands[c]);
        cli_refuse(2, line, "one argument too many");
        snprintf(line, sizeof line, "%s good.wir --dim", commands[c]);
        cli_refuse(2, line, "needs a value");
        snprintf(line, sizeof line, "%s good.wir --dim ''", commands[c]);
        cli_refuse(2, line, "is missing");
    }
    cli_refuse(2, "doctor extra", "one argument too many");
    cli_refuse(1, "selftest tpu", "tpu");
    cli_refuse(2, "bench good.wir --runs x", "is not a number");
    cli_refuse(2, "bench good.wir --runs -5", "is not a number");
    cli_refuse(2, "bench good.wir --threads 99999999999", "is not a number");
    cli_refuse(2, "fuzz --count -1", "is not a number");
    cli_refuse(2, "run good.wir --interpret=yes", "takes no value");
    cli_refuse(2, "conformance onnx", "onnx FOLDER");
    cli_refuse(1, "conformance onnx missing", "missing");
    cli_refuse(1, "conformance onnx .", "no folder test_");
    cli_refuse(1, "selftest --op nonsense", "no op \"nonsense\"");
    cli_refuse(2, "fuzz --count 1 --second", "--second goes with --gradients");
    cli_refuse(2, "fuzz --count 1 --batches --gradients", "exclude each other");
    cli_refuse(2, "fuzz --count 1 --batches --device cpu", "no --device");
    cli_refuse(2, "fuzz --count 1 --gradients --statistics", "--statistics");
}
END_TEST

/* An option that would have no effect is refused, and the model is not overwritten. */
START_TEST(test_no_effect) {
    cli_accept("compile good.wir -o good.weft");
    cli_refuse(1, "run good.wir --dim Q=3", "no extent of that name");
    cli_refuse(1, "run good.wir --dim nonsense", "no extent of that name");
    static const char *const values[] = {"0", "65", "3..2", "1..x", "-1", "99999999999999999999", "4/0", ""};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char line[80];
        snprintf(line, sizeof line, "compile good.wir --dim B=%s", values[i]);
        cli_refuse(1, line, "within [1, 64]");
    }
    shows("run good.wir --dim B=3", true, "f32[3, 4]");
    shows("run good.wir --dim B=2..5", true, "f32[5, 4]");
    cli_accept("compile good.wir --dim B=5 -o five.weft");
    shows("run five.weft", true, "f32[5, 4]");
    cli_refuse(1, "run good.weft --dim B=3", "--input");
    cli_refuse(1, "run good.weft --interpret", "--interpret takes a model");
    cli_refuse(1, "run good.wir --recompile", "--recompile takes an artifact");
    cli_refuse(1, "run good.weft --relax sum-order", "--recompile");
    cli_accept("run good.weft --recompile --relax sum-order");
    cli_refuse(1, "run good.weft --batch-invariant", "--recompile");
    cli_accept("run good.weft --recompile --batch-invariant");
    cli_accept("compile good.wir -o alike.weft --batch-invariant");
    cli_refuse(1, "run good.wir --output y=a.npy --output y=b.npy", "no call 2");
    cli_accept("run good.wir --input x=x.npy --input x=x.npy --output y=a.npy --output y=b.npy");
    cli_refuse(1, "compile good.wir --input x=x.npy", "--input x");
    cli_refuse(1, "compile good.wir --output ./good.wir", "is the model itself");
    cli_refuse(1, "run good.wir --output y=./good.wir", "is the model itself");
    cli_refuse(1, "inspect good.wir --html good.wir", "is the model itself");
    cli_refuse(1, "profile good.wir --runs 1 --trace good.wir", "is the model itself");
    cli_refuse(1, "profile good.wir --runs 1 --dot a.dot --html a.dot", "two outputs go to a.dot");
    cli_refuse(1, "run good.wir --input x=x.npy --input x=x.npy --output y=a.npy --output y=./a.npy", "two outputs");
    cli_accept("run good.wir");
}
END_TEST

START_TEST(test_inputs) {
    cli_accept("compile good.wir -o good.weft");
    static const char *const models[] = {"good.wir", "good.weft"};
    static const char *const inputs[][2] = {{"x", "expected NAME=FILE.npy"},
                                            {"x=", "expected NAME=FILE.npy"},
                                            {"=x.npy", "expected NAME=FILE.npy"},
                                            {"x=missing.npy", "missing.npy"},
                                            {"x=folder.wir", "folder.wir"},
                                            {"x=text.wir", "not a .npy file"},
                                            {"nope=x.npy", "the inputs are: x"},
                                            {"x=shape.npy", "axis 1 is 5, not 4"},
                                            {"x=rank.npy", "rank 1, not 2"},
                                            {"x=dtype.npy", "f64, not f32"},
                                            {"x=many.npy", "65"}};
    static const char *const outputs[][2] = {{"y", "expected NAME=FILE.npy"},
                                             {"nope=f.npy", "there is no output"},
                                             {"y=/proc/f.npy", "/proc/f.npy"},
                                             {"y=missing/f.npy", "missing/f.npy"},
                                             {"y=folder.wir", "folder.wir"}};
    char line[256];
    for (size_t m = 0; m < 2; m++) {
        snprintf(line, sizeof line, "run %s --input x=x.npy --output y=y.npy", models[m]);
        cli_accept(line);
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            snprintf(line, sizeof line, "run %s --input %s", models[m], inputs[i][0]);
            cli_refuse(1, line, inputs[i][1]);
        }
        for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
            snprintf(line, sizeof line, "run %s --input x=x.npy --output %s", models[m], outputs[i][0]);
            cli_refuse(1, line, outputs[i][1]);
        }
        snprintf(line, sizeof line, "run %s --device tpu", models[m]);
        cli_refuse(1, line, "tpu");
    }
    cli_refuse(1, "bench good.wir --dim-sweep nope=1..3", "nope");
    cli_refuse(1, "bench good.wir --dim-sweep B=3..1", "expected NAME=LO..HI");
}
END_TEST

START_TEST(test_outputs) {
    static const char *const paths[] = {"/proc/x", "missing/x", "folder.wir", "''"};
    char line[256];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(line, sizeof line, "compile good.wir -o %s", paths[i]);
        cli_refuse(1, line, i == 3 ? "is empty" : paths[i]);
        snprintf(line, sizeof line, "inspect good.wir --html %s", paths[i]);
        cli_refuse(1, line, i == 3 ? "is empty" : paths[i]);
    }
    cli_refuse(1, "compile good.wir -o d.weft -t tpu", "there is no target");
    cli_refuse(1, "compile good.wir -o d.weft -t ''", "no target");
    cli_refuse(1, "compile good.wir -o d.weft -t cpu,cpu", "twice");
    cli_refuse(1, "compile good.wir -o d.weft --pipeline nonsense", "nonsense");
    cli_refuse(1, "inspect good.wir --after nonsense", "nonsense");
    cli_refuse(1, "inspect good.wir --kernel nonsense", "nonsense");
    char path[600];
    snprintf(path, sizeof path, "%s/d.weft", cli_folder);
    ck_assert_msg(access(path, F_OK) != 0, "a failed compile left its file");
}
END_TEST

/* inspect and bisect run the passes as the compiler does for that target: what its builders claim stays whole. */
START_TEST(test_targets) {
    static const char after[] = "inspect attention.wir --after simplify,decompose,fuse --target";
    char line[256];
    snprintf(line, sizeof line, "%s cuda:sm_90a", after);
    shows(line, true, "= attention");
    snprintf(line, sizeof line, "%s cpu:x86-64-v3", after);
    shows(line, false, "= attention");
    shows("inspect attention.wir --target cuda:sm_90a", true, "1 kernels");
    shows("bisect attention.wir --target cuda:sm_90a", true, "no pass changes");
    shows("bisect attention.wir", true, "no pass and no group changes");
    cli_refuse(1, "bisect attention.wir --target tpu:x", "there is no target");
    cli_refuse(1, "compile attention.wir -o relaxed.weft --relax f32-products,f9", "f9");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cli");
    TCase *tests = tcase_create("wrong input");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, cli_set_up, cli_tear_down);
    tcase_add_test(tests, test_escapes);
    tcase_add_test(tests, test_full_output);
    tcase_add_test(tests, test_models);
    tcase_add_test(tests, test_usage);
    tcase_add_test(tests, test_no_effect);
    tcase_add_test(tests, test_inputs);
    tcase_add_test(tests, test_outputs);
    tcase_add_test(tests, test_targets);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, cli_damage_tests());
    suite_add_tcase(suite, cli_train_tests());
    suite_add_tcase(suite, cli_vendor_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
