/* weft train: a run, the same run resumed, and configuration files that are wrong in one place each. */
#include "tests/cli/cli.h"

#include "base/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char good[] =
    "[data]\ntext = 'text.txt' # a comment\ntrain = 0.5\n"
    "[model]\nlayers = 1\nheads = 2\nwidth = 1_6\ncontext = 4\nbias = true\n"
    "[train]\nsteps = 6\nbatch = 2\nfolder = \"run\"\ncheckpoint_every = 3\n"
    "[optimizer]\nname = \"lion\"\nbeta1 = 9e-1 # 0.9\n[schedule]\nkind = \"wsd\"\nwarmup = 1\nbase = 1e-3\n";

static void write_config(const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_folder, name);
    ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), path, text, strlen(text)));
}

static void write_all(void) {
    cli_set_up();
    write_config("text.txt",
                 "the quick brown fox jumps over the lazy dog, again and again and again; then it sleeps.\n");
    write_config("empty.txt", "");
    write_config("train.toml", good);
}

static bool contains(const char *name, const char *part) {
    static char text[1 << 21];
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_folder, name);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = 0;
    if (file) (void)fclose(file);
    return strstr(text, part) != NULL;
}

/* The losses of a metrics.jsonl, to four digits, in a line. */
static void read_losses(const char *name, char *out, size_t capacity) {
    char path[600], line[1024];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", cli_folder, name);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    out[0] = 0;
    while (fgets(line, sizeof line, file) && length + 16 < capacity) {
        const char *at = strstr(line, "\"loss\":");
        ck_assert_ptr_nonnull(at);
        length += (size_t)snprintf(out + length, capacity - length, "%.4f ", strtod(at + 7, NULL));
    }
    (void)fclose(file);
    ck_assert_uint_gt(length, 0);
}

START_TEST(test_run) {
    char err[4096];
    ck_assert_msg(cli_execute("train train.toml", err, sizeof err) == 0, "%s", err);
    ck_assert(contains("stdout", "6 steps") && contains("stdout", "validation loss"));
    ck_assert(contains("run/metrics.csv", "step,loss,gradient_norm,rate,validation,seconds"));
    ck_assert(contains("run/metrics.jsonl", "\"step\":6"));
    ck_assert(contains("run/report.html", "<svg"));
    ck_assert_msg(cli_execute("train train.toml", err, sizeof err) == 0, "%s", err);
    ck_assert(contains("stdout", "resumed after step 6") && contains("stdout", "nothing is left of 6 steps"));
    ck_assert(!contains("stdout", "nan"));
}
END_TEST

/* Two batches a step in parts are one of twice the size: the same pieces in the same order, the same losses. */
START_TEST(test_in_parts) {
    char err[4096], text[2048], losses[2][4096];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s", good);
        char *at = strstr(text, "batch = 2\nfolder = \"run\"");
        ck_assert_ptr_nonnull(at);
        char rest[1024];
        snprintf(rest, sizeof rest, "%s", at + strlen("batch = 2\nfolder = \"run\""));
        snprintf(at, sizeof text - (size_t)(at - text), "%s%s",
                 i ? "batch = 2\nparts = 2\nlog_every = 1\nfolder = \"b\"" : "batch = 4\nlog_every = 1\nfolder = \"a\"",
                 rest);
        write_config("parts.toml", text);
        ck_assert_msg(cli_execute("train parts.toml", err, sizeof err) == 0, "%s", err);
        read_losses(i ? "b/metrics.jsonl" : "a/metrics.jsonl", losses[i], sizeof losses[i]);
    }
    ck_assert_str_eq(losses[0], losses[1]);
    ck_assert(contains("b/metrics.csv", "step,loss,noise_scale,"));
}
END_TEST

/* The batch grows; so does the checkpoint's record of it. */
START_TEST(test_adaptive) {
    char err[4096], text[2048];
    snprintf(text, sizeof text, "%s", good);
    char *at = strstr(text, "steps = 6\nbatch = 2"), rest[1024];
    ck_assert_ptr_nonnull(at);
    snprintf(rest, sizeof rest, "%s", at + strlen("steps = 6\nbatch = 2"));
    snprintf(at, sizeof text - (size_t)(at - text), "steps = 101\nbatch = 1\nparts = 8\nadaptive = true%s", rest);
    write_config("adaptive.toml", text);
    ck_assert_msg(cli_execute("train adaptive.toml", err, sizeof err) == 0, "%s", err);
    ck_assert(contains("run/metrics.csv", "loss,noise_scale,parts,"));
    ck_assert(contains("run/metrics.jsonl", "\"step\":10,") && contains("run/metrics.jsonl", "\"parts\":2,"));
    ck_assert(contains("run/metrics.jsonl", "\"parts\":8,"));
}
END_TEST

/* Products in 16 bits with dropout; f16 brings its loss scale along. */
START_TEST(test_precision) {
    static const char *const names[2] = {"bf16", "f16"};
    char err[4096], text[2048], folder[64];
    snprintf(text, sizeof text, "%s", good);
    char *at = strstr(text, "context = 4\nbias = true\n[train]\nsteps = 6\nbatch = 2\nfolder = \"run\""), rest[1024];
    ck_assert_ptr_nonnull(at);
    snprintf(rest, sizeof rest, "%s",
             at + strlen("context = 4\nbias = true\n[train]\nsteps = 6\nbatch = 2\nfolder = \"run\""));
    snprintf(
        at, sizeof text - (size_t)(at - text),
        "context = 4\nbias = true\ndropout = 0.1\nattention_dropout = 0.1\n[train]\nsteps = 6\nbatch = 2\ndevice = \"cpu\"\n"
        "precision = \"%s\"\nfolder = \"%s\"%s",
        names[_i], names[_i], rest);
    write_config("precision.toml", text);
    ck_assert_msg(cli_execute("train precision.toml", err, sizeof err) == 0, "%s", err);
    snprintf(folder, sizeof folder, "%s/metrics.csv", names[_i]);
    ck_assert(contains(folder, _i ? "step,loss,loss_scale,gradient_norm" : "step,loss,gradient_norm"));
    if (_i) ck_assert(contains(folder, "65536"));
}
END_TEST

/* Settings under which a step goes uphill or nowhere. */
START_TEST(test_settings) {
    static const char *const lines[] = {"[schedule]\nbase = -1.0\n", "[schedule]\nfinal = -1.0\n",
                                        "[schedule]\npower = -1.0\n", "[optimizer]\ndecay = -1.0\n",
                                        "[optimizer]\nepsilon = -1.0\n"};
    char text[2048];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(text, sizeof text, "[data]\ntext = \"text.txt\"\n%s", lines[i]);
        write_config("settings.toml", text);
        cli_refuse(1, "train settings.toml", "are at least 0");
    }
    cli_refuse(1, "profile train.toml --runs 1 --html train.toml", "is the model itself");
}
END_TEST

START_TEST(test_find_rate) {
    char err[4096];
    ck_assert_msg(cli_execute("train train.toml --find-rate", err, sizeof err) == 0, "%s", err);
    ck_assert(contains("stdout", "the loss falls fastest at a rate of "));
}
END_TEST

/* Words, events, graph and page of a training step; forward and backward are told apart and linked. */
START_TEST(test_profile) {
    char err[4096];
    ck_assert_msg(cli_execute("profile train.toml -n 5 --trace t.json --dot t.dot --html t.html", err, sizeof err) == 0,
                  "%s", err);
    ck_assert(contains("stdout", ": forward "));
    ck_assert(!contains("stdout", "backward 0 %"));
    ck_assert(contains("stdout", "Temporaries are largest in step "));
    ck_assert(contains("stdout", "Norms of gradients: largest "));
    ck_assert(contains("t.json", "\"traceEvents\"") && contains("t.json", "\"derivative_of\":"));
    ck_assert(contains("t.json", "\"parameter\":\"transformer.h.0.mlp.c_fc.weight\""));
    ck_assert(contains("t.json", "\"cat\":\"update\"") && contains("t.json", "\"name\":\"temporaries\""));
    ck_assert(contains("t.dot", "digraph profile {") && contains("t.dot", "style=dashed"));
    ck_assert(contains("t.html", "Norms of gradients") && contains("t.html", "</html>"));
}
END_TEST

/* What is put behind the good configuration or instead of a piece of it, and what the message says. */
static const struct {
    const char *from, *to, *message;
} wrong[] = {
    {"steps = 6", "steps = 6\nspeed = 3", "wrong.toml:12: nothing is called train.speed"},
    {"steps = 6", "stpes = 6", "wrong.toml:11: nothing is called train.stpes here; did you mean train.steps?"},
    {"steps = 6", "steps = 6\nlayers = 3", "nothing is called train.layers here; did you mean model.layers?"},
    {"steps = 6", "steps = 6\nxyzzyxyzzy = 3", "nothing is called train.xyzzyxyzzy here ("},
    {"steps = 6", "steps = 6\nevaluation = \"some\"", "train.evaluation is \"in order\" or \"random\""},
    {"steps = 6", "steps = 6.5", "train.steps is not a whole number"},
    {"steps = 6", "steps = many", "wrong.toml:11: Error while parsing value"},
    {"steps = 6", "steps = 6 7", "wrong.toml:11: Error while parsing key-value pair"},
    {"steps = 6", "steps = 6\nsteps = 7", "wrong.toml:12: Error while parsing key-value pair: cannot redefine"},
    {"steps = 6", "steps = 99999999999999999999", "wrong.toml:11: Error while parsing decimal integer"},
    {"steps = 6", "steps = [6]", "wrong.toml:11: train.steps is not a whole number"},
    {"steps = 6", "steps = 6\nclip = inf", "wrong.toml:12: train.clip is not finite"},
    {"steps = 6", "steps = 6\ncut.off = 1979-05-27", "wrong.toml:12: nothing is called train.cut.off here"},
    {"steps = 6", "steps = 6\n\"clip\\u0000\" = 2", "wrong.toml:12: nothing is called train.\"clip\\u0000\" here"},
    {"steps = 6", "steps = 6\n\"cl\\nip\" = 2", "nothing is called train.\"cl\\u000aip\" here"},
    {"[data]", "\"train.clip\" = 2\n[data]", "nothing is called \"train.clip\" here; did you mean train.clip?"},
    {"[optimizer]", "[trian]\n[optimizer]", "wrong.toml:15: nothing is called trian here"},
    {"steps = 6", "steps = 6\nclip = {}", "wrong.toml:12: train.clip is not a number"},
    {"'text.txt'", "\"text\\u0000.txt\"", "wrong.toml:2: there is a zero byte in the string"},
    {"'text.txt'", "'text.txt", "wrong.toml:2: Error while parsing literal string"},
    {"'text.txt'", "'missing.txt'", "missing.txt"},
    {"text = 'text.txt'", "", "data.text names no file"},
    {"heads = 2", "heads = 3", "3 heads"},
    {"layers = 1", "layers = 2147483647", "a model of 2147483647 layers"},
    {"warmup = 1", "warmup = 0\ndecay_steps = 1\npower = 1e39", "1e+39 is beyond f32"},
    {"'text.txt'", "'empty.txt'", "empty.txt is empty"},
    {"[optimizer]\nname = \"lion\"", "evaluate_every = 1\n[optimizer]\nname = \"lion\"\ndecay = 3e38",
     "the validation loss after step 2 is "},
    {"layers = 1", "layers = 4294967297", "model.layers is not from 1 to 2147483647"},
    {"steps = 6", "steps = 0", "train.steps is not from 1"},
    {"steps = 6", "steps = 6\nlog_every = -1", "train.log_every is not from 0"},
    {"steps = 6", "steps = 6\nclip = -1", "train.clip is at least 0"},
    {"\"lion\"", "\"tiger\"", "no optimizer \"tiger\""},
    {"\"wsd\"", "\"wds\"", "no schedule \"wds\""},
    {"[schedule]", "[schedule", "wrong.toml:18: Error while parsing table header"},
    {"context = 4", "context = 400", "no piece of 400 tokens"},
    {"width = 1_6", "width = 1_6\ndropout = 1.0", "model.dropout lies in [0, 1)"},
    {"width = 1_6", "width = 1_6\nattention_dropout = 1.0", "model.attention_dropout lies in [0, 1)"},
    {"batch = 2", "batch = 2\nprecision = \"f64\"", "train.precision is"},
    {"batch = 2", "batch = 2\nparts = 2\nprecision = \"f16\"", "train.parts = 1"},
    {"batch = 2", "batch = 2\ndevice = \"abacus\"", "abacus"},
};

START_TEST(test_wrong) {
    char text[4096];
    const char *at = strstr(good, wrong[_i].from);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, wrong[_i].to, at + strlen(wrong[_i].from));
    write_config("wrong.toml", text);
    char err[4096];
    int code = cli_execute("train wrong.toml", err, sizeof err);
    ck_assert_msg(code == 1, "exit code %d", code);
    ck_assert_msg(strstr(err, wrong[_i].message), "expected \"%s\" in:\n%s", wrong[_i].message, err);
}
END_TEST

/* Keys of many dots: a table each, one inside the other. As many as are read at all, and more. */
START_TEST(test_deep) {
    static const struct {
        size_t dots;
        const char *message;
    } cases[] = {{16000, "wrong.toml:1: a key is too long"}, {400000, "a configuration of "}};
    char *text = malloc(2 * cases[_i].dots + 3), err[4096];
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < cases[_i].dots; i++) memcpy(text + 2 * i, "a.", 2);
    memcpy(text + 2 * cases[_i].dots, "a", 2);
    for (int header = 0; header < 2; header++) {
        char *file = malloc(2 * cases[_i].dots + 8);
        ck_assert_ptr_nonnull(file);
        (void)snprintf(file, 2 * cases[_i].dots + 8, header ? "[%s]\n" : "%s = 1\n", text);
        write_config("wrong.toml", file);
        free(file);
        ck_assert_int_eq(cli_execute("train wrong.toml", err, sizeof err), 1);
        ck_assert_msg(strstr(err, cases[_i].message), "expected \"%s\" in:\n%.200s", cases[_i].message, err);
    }
    free(text);
}
END_TEST

/* Tables that are there and empty take all their defaults. */
START_TEST(test_empty_table) {
    char err[4096], text[2048];
    char *at = NULL;
    snprintf(text, sizeof text, "%s", good);
    at = strstr(text, "[optimizer]");
    ck_assert_ptr_nonnull(at);
    strcpy(at, "[optimizer]\n[schedule]\n");
    write_config("empty.toml", text);
    ck_assert_msg(cli_execute("train empty.toml", err, sizeof err) == 0, "%s", err);
}
END_TEST

/* -- images */

static const char images[] =
    "[data]\nimages = \"images\"\nmargin = 2\nmirror = true\n[model]\nkind = \"vit\"\nlayers = 1\n"
    "heads = 2\nwidth = 16\npatch = 8\n[train]\nsteps = 6\nbatch = 4\nsmoothing = 0.1\nfolder = "
    "\"images/run\"\n[optimizer]\nname = \"muon\"\n[schedule]\nwarmup = 2\nbase = 1e-2\n";

/* Images of CIFAR-10's layout, of two classes that a mean tells apart. */
static void write_images(void) {
    static unsigned char records[16][3073];
    char path[600];
    snprintf(path, sizeof path, "%s/images", cli_folder);
    (void)mkdir(path, 0700);
    for (int i = 0; i < 16; i++)
        memset(records[i], i % 2 ? 200 : 40, sizeof *records), records[i][0] = (unsigned char)(i % 2);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/images/%s", cli_folder, i ? "test_batch.bin" : "data_batch_1.bin");
        ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), path, records, sizeof records));
    }
}

/* A model of each kind; each tells two grey tones apart in the end. */
START_TEST(test_image_models) {
    static const char *const models[] = {"kind = \"vit\"\nlayers = 1\nheads = 2\nwidth = 16\npatch = 8",
                                         "kind = \"mlp\"\nlayers = 1\nwidth = 8",
                                         "kind = \"resnet\"\ndepth = 10\nwidth = 4"};
    char text[2048], err[4096];
    const char *from = strstr(images, "kind"), *to = strstr(images, "\n[train]");
    write_images();
    snprintf(text, sizeof text, "%.*s%s%s", (int)(from - images), images, models[_i], to);
    write_config("images.toml", text);
    ck_assert_msg(cli_execute("train images.toml", err, sizeof err) == 0, "%s", err);
    ck_assert(contains("stdout", "% of the images held back right"));
    ck_assert(contains("images/run/metrics.csv",
                       "step,loss,accuracy,gradient_norm,rate,validation,validation_accuracy,seconds"));
    if (_i == 2) return;
    char *at = strstr(text, "steps = 6\nbatch = 4"), rest[1024];
    snprintf(rest, sizeof rest, "%s", at + strlen("steps = 6\nbatch = 4"));
    snprintf(at, (size_t)(text + sizeof text - at),
             "steps = 40\nresume = false\nbatch = 2\nparts = 2\nevaluation_batches = 8%s", rest);
    write_config("parts.toml", text);
    ck_assert_msg(cli_execute("train parts.toml", err, sizeof err) == 0, "%s", err);
    ck_assert(contains("stdout", "100.00 % of the images held back right"));
}
END_TEST

static const struct {
    const char *from, *to, *message;
} wrong_images[] = {
    {"\"vit\"", "\"cnn\"", "there is no model \"cnn\""},
    {"\"images\"", "\"nowhere\"", "nowhere has neither data_batch_1.bin nor train-images-idx3-ubyte"},
    {"images = \"images\"\n", "", "data.images names no folder"},
    {"patch = 8", "patch = 5", "images of 32 by 32 do not divide into patches of 5"},
    {"heads = 2", "heads = 3", "a width of 16 does not divide into 3 heads"},
    {"heads = 2", "heads = 2\ncontext = 4", "nothing is called model.context here"},
    {"smoothing = 0.1", "smoothing = 1.0", "train.smoothing lies in [0, 1)"},
    {"margin = 2", "margin = -1", "data.margin is not from 0"},
    {"margin = 2", "deviation = 0.0", "data.deviation is more than 0"},
    {"kind = \"vit\"\nlayers = 1\nheads = 2\nwidth = 16\npatch = 8", "kind = \"resnet\"\ndepth = 19",
     "model.depth is 10, 18, 34, 50 or 101"},
    {"kind = \"vit\"\nlayers = 1\nheads = 2\nwidth = 16\npatch = 8\n[train]",
     "kind = \"resnet\"\n[train]\nprecision = \"bf16\"", "trains in f32"},
    {"batch = 4", "batch = 40", "16 images do not fill a batch of 40"},
};

START_TEST(test_wrong_images) {
    char text[2048], err[4096];
    const char *at = strstr(images, wrong_images[_i].from);
    ck_assert_ptr_nonnull(at);
    write_images();
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - images), images, wrong_images[_i].to,
             at + strlen(wrong_images[_i].from));
    write_config("wrong.toml", text);
    ck_assert_int_eq(cli_execute("train wrong.toml", err, sizeof err), 1);
    ck_assert_msg(strstr(err, wrong_images[_i].message), "expected \"%s\" in:\n%s", wrong_images[_i].message, err);
}
END_TEST

TCase *cli_train_tests(void) {
    TCase *group = tcase_create("train");
    tcase_set_timeout(group, 100);
    tcase_add_checked_fixture(group, write_all, cli_tear_down);
    tcase_add_test(group, test_run);
    tcase_add_test(group, test_in_parts);
    tcase_add_test(group, test_adaptive);
    tcase_add_loop_test(group, test_precision, 0, 2);
    tcase_add_test(group, test_settings);
    tcase_add_test(group, test_find_rate);
    tcase_add_test(group, test_profile);
    tcase_add_loop_test(group, test_deep, 0, 2);
    tcase_add_test(group, test_empty_table);
    tcase_add_loop_test(group, test_wrong, 0, sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(group, test_image_models, 0, 3);
    tcase_add_loop_test(group, test_wrong_images, 0, sizeof wrong_images / sizeof *wrong_images);
    return group;
}
