/* WGSL that runs: every case is compiled for webgpu and executed in headless Chromium on SwiftShader by the module of
   runtime/web; results are compared with the interpreter. Without Chromium the test says so and counts as skipped.
   `test-webgpu browser` runs all, `test-webgpu builders` a case for each kind of kernel, `test-webgpu` only prints
   them. WEFT_TEST_WEBGPU=all: every op at every dtype. WEFT_TEST_WEBGPU_ONLY=text: cases whose name contains it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/webgpu/cases.h"
#include "weft/compile.h"

enum { SKIPPED = 77 };
enum { CASE_SECONDS = 60, SECONDS = 600 };

/* Kinds of kernels: their names without the number, "matmul" of "k3_matmul". */
typedef struct kinds {
    int count;
    char names[64][64];
} kinds;

static bool kind_is_new(kinds *known, const char *name) {
    for (int i = 0; i < known->count; i++)
        if (!strcmp(known->names[i], name)) return false;
    ck_assert_int_lt(known->count, (int)(sizeof known->names / sizeof *known->names));
    strcpy(known->names[known->count++], name);
    return true;
}

/* Has the case a kernel of a kind that none before it had? */
static bool has_new_kind(kinds *known, const char *text) {
    static const char mark[] = "{\"name\": \"k";
    bool found = false;
    for (const char *at = strstr(text, mark); at; at = strstr(at + 1, mark)) {
        char name[64];
        if (sscanf(at + sizeof mark - 1, "%*d_%63[a-z_0-9]", name) == 1) found |= kind_is_new(known, name);
    }
    return found;
}

static int keep_matching(web_list *list, const char *part) {
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        if (part && !strstr(list->cases[i].name, part))
            weft_graph_release(list->cases[i].graph);
        else
            list->cases[kept++] = list->cases[i];
    }
    return kept;
}

/* Cases that WGSL cannot express do not count as passed; which they are is printed. */
static int prepare_all(web_list *list, bool few, browser_case *out, int *numbers) {
    int ready = 0;
    kinds known = {0};
    for (int i = 0; i < list->count; i++) {
        browser_case prepared;
        web_case_prepare(&list->cases[i], &prepared);
        if (list->cases[i].refusal) {
            printf("  refused: %s: %s\n", list->cases[i].name, list->cases[i].refusal);
            continue;
        }
        if (few && !has_new_kind(&known, prepared.text) && !strstr(list->cases[i].name, "softmax f32 [")) {
            free(prepared.text);
            free(prepared.data);
            continue;
        }
        numbers[ready] = i;
        out[ready++] = prepared;
    }
    return ready;
}

static void run_in_a_browser(bool few) {
    const char *mode = getenv("WEFT_TEST_WEBGPU"), *program = browser_find();
    ck_assert_ptr_nonnull(program);
    web_list list = {0};
    ck_assert_ptr_null(weft_context_create(NULL, &list.context));
    web_list_fill(&list, mode && !strcmp(mode, "all"));
    list.count = keep_matching(&list, getenv("WEFT_TEST_WEBGPU_ONLY"));
    browser_case *cases = calloc((size_t)list.count + 1, sizeof *cases);
    int *numbers = calloc((size_t)list.count + 1, sizeof *numbers);
    int ready = prepare_all(&list, few, cases, numbers), wrong = 0, shuffled = 0;
    for (int i = 0; i < ready; i++) shuffled += strstr(cases[i].text, "subgroupShuffleXor") != NULL;
    char *log, room[512];
    browser_job job = {program, "page.html", NULL, CASE_SECONDS, SECONDS, ready, cases};
    bool finished = browser_run(&job, &log);
    printf("  adapter: %s\n", log ? log : "nothing was heard of the browser");
    double load_ms = 0, run_ms = 0;
    for (int i = 0; i < ready; i++) {
        const char *difference = web_case_compare(&list.cases[numbers[i]], &cases[i], room, sizeof room);
        load_ms += cases[i].load_ms, run_ms += cases[i].run_ms;
        if (getenv("WEFT_TEST_WEBGPU_TIMES"))
            printf("  %8.1f ms load %8.1f ms run  %s\n", cases[i].load_ms, cases[i].run_ms, cases[i].name);
        if (difference && wrong++ < 100) printf("  WRONG %s: %s\n", cases[i].name, difference);
    }
    printf("  %d cases: %d ran, %d wrong; loading %.1f s, running %.1f s\n", list.count, ready, wrong, load_ms / 1000,
           run_ms / 1000);
    fflush(stdout);
    ck_assert_msg(finished, "the browser did not finish in %d seconds", SECONDS);
    ck_assert_msg(log && strstr(log, "swiftshader"), "results of another adapter than the one asked for");
    for (int i = 0; i < ready; i++) {
        free(cases[i].text);
        free(cases[i].data);
        free(cases[i].result);
        free(cases[i].error);
    }
    free(log);
    free(cases);
    free(numbers);
    web_list_clear(&list);
    weft_context_release(list.context);
    fflush(stdout);
    ck_assert_int_gt(ready, 0);
    if (!getenv("WEFT_TEST_WEBGPU_ONLY")) ck_assert_int_gt(shuffled, 0);
    ck_assert_int_eq(wrong, 0);
}

START_TEST(kernels_run_in_a_browser) { run_in_a_browser(false); }
END_TEST
START_TEST(builders_run_in_a_browser) { run_in_a_browser(true); }
END_TEST

/* Every case prints as WGSL or says why not; no browser. */
START_TEST(kernels_print) {
    web_list list = {0};
    ck_assert_ptr_null(weft_context_create(NULL, &list.context));
    web_list_fill(&list, false);
    browser_case *cases = calloc((size_t)list.count + 1, sizeof *cases);
    int *numbers = calloc((size_t)list.count + 1, sizeof *numbers);
    int ready = prepare_all(&list, false, cases, numbers);
    printf("  %d of %d cases print\n", ready, list.count);
    for (int i = 0; i < ready; i++) {
        free(cases[i].text);
        free(cases[i].data);
    }
    ck_assert_int_ge(ready, list.count - 12);
    free(cases);
    free(numbers);
    web_list_clear(&list);
    weft_context_release(list.context);
}
END_TEST

/* The page must find its entry among those of other targets. */
static void put_other_targets(weft_graph *graph, const char *folder) {
    char file[64];
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "metal:apple7,webgpu,metal:apple9";
    snprintf(file, sizeof file, "%s/model.weft", folder);
    ck_assert_ptr_null(weft_compile_file(graph, &options, file));
}

/* What weft_compile_web writes: a picture is dropped on the page; what it fed the model and what came out is compared
   with the interpreter; once as written, once with other targets in the file. The posted bytes: rank and shape of the
   input as i32, its elements, the output's. */
START_TEST(page_reads_a_picture) {
    char folder[] = "/tmp/weft-site-XXXXXX", file[64], room[512];
    browser_case answer = {.name = "page"};
    web_case c = {.name = "page", .terms = 200, .scale = 600, .output_count = 1, .class = {WEFT_TOLERANCE_CHAIN}};
    browser_job job = {browser_find(), "drive.html", folder, CASE_SECONDS, CASE_SECONDS, 1, &answer};
    ck_assert_ptr_nonnull(job.program);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_null(weft_context_create(NULL, &c.context));
    ck_assert_ptr_null(weft_graph_create(c.context, "stripes", &c.graph));
    web_page_graph(c.graph);
    ck_assert_ptr_null(weft_compile_web(c.graph, NULL, folder));
    if (_i) put_other_targets(c.graph, folder);
    char *log;
    bool finished = browser_run(&job, &log);
    static const char *const names[] = {"index.html", "weft.js", "model.weft"};
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        ck_assert_int_eq(remove(file), 0);
    }
    ck_assert_int_eq(remove(folder), 0);
    ck_assert_msg(finished && !answer.error, "%s; %s", answer.error ? answer.error : "no answer", log ? log : "");
    const char *difference = web_page_compare(&c, &answer, room, sizeof room);
    ck_assert_msg(!difference, "%s", difference);
    weft_tensor_release(c.expected[0]);
    weft_graph_release(c.graph);
    weft_context_release(c.context);
    free(answer.result);
    free(log);
}
END_TEST

/* What a browser may lack or lose, and in which words the module and the page say so. */
static const char *const said[] = {"this browser has no WebGPU", "this browser offers no WebGPU adapter",
                                   "an adapter in software",     "the device was lost",
                                   "load the program again",     "the same numbers",
                                   "this device allows 64",      "WebGPU",
                                   "wgsl-subgroups4,wgsl"};
enum { SAID = sizeof said / sizeof *said };

START_TEST(faults_are_said_in_words) {
    char folder[] = "/tmp/weft-site-XXXXXX", file[64], answer[1000], *log;
    web_list list = {0};
    browser_case cases[SAID] = {0};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_null(weft_context_create(NULL, &list.context));
    web_list_fill(&list, false);
    list.count = keep_matching(&list, "softmax f32 [3, 257]");
    ck_assert_int_gt(list.count, 0);
    web_case_prepare(&list.cases[0], &cases[0]);
    ck_assert_ptr_null(weft_compile_web(list.cases[0].graph, NULL, folder));
    browser_job job = {browser_find(), "faults.html", folder, CASE_SECONDS, CASE_SECONDS, SAID, cases};
    bool finished = browser_run(&job, &log);
    static const char *const names[] = {"index.html", "weft.js", "model.weft"};
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        ck_assert_int_eq(remove(file), 0);
    }
    ck_assert_int_eq(remove(folder), 0);
    ck_assert_msg(finished && !cases[0].error, "%s", cases[0].error ? cases[0].error : "no answer");
    for (int i = 0; i < SAID; i++) {
        ck_assert_ptr_nonnull(cases[i].result);
        snprintf(answer, sizeof answer, "%.*s", (int)cases[i].result_bytes, (const char *)cases[i].result);
        printf("  %s\n", answer);
        ck_assert_msg(strstr(answer, said[i]) != NULL, "\"%s\" is not in: %s", said[i], answer);
        free(cases[i].result);
    }
    free(cases[0].text), free(cases[0].data);
    free(log);
    web_list_clear(&list);
    weft_context_release(list.context);
}
END_TEST

int main(int count, char **arguments) {
    bool all = count > 1 && !strcmp(arguments[1], "browser"), few = count > 1 && !strcmp(arguments[1], "builders");
    if ((all || few) && !browser_find()) {
        printf("skipped: no Chromium (package chromium; WEFT_TEST_BROWSER names another)\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("webgpu");
    TCase *tests = tcase_create("browser");
    tcase_set_timeout(tests, SECONDS + 60);
    if (all)
        tcase_add_test(tests, kernels_run_in_a_browser);
    else if (few)
        tcase_add_test(tests, builders_run_in_a_browser);
    if (few)
        tcase_add_loop_test(tests, page_reads_a_picture, 0, 2), tcase_add_test(tests, faults_are_said_in_words);
    else if (!all)
        tcase_add_test(tests, kernels_print);
    suite_add_tcase(suite, tests);
    if (!all && !few) suite_add_tcase(suite, case_halves());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
