/* WGSL that runs: every case is compiled for webgpu and executed in headless Chromium on SwiftShader by the module of
   runtime/web; results are compared with the interpreter. Without Chromium the test says so and counts as skipped.
   `test-webgpu browser` runs, `test-webgpu` only prints the kernels.
   WEFT_TEST_WEBGPU=all: every op at every dtype. WEFT_TEST_WEBGPU_ONLY=text: cases whose name contains it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/webgpu/cases.h"

enum { SKIPPED = 77, SECONDS = 600 };

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
static int prepare_all(web_list *list, browser_case *out, int *numbers) {
    int ready = 0;
    for (int i = 0; i < list->count; i++) {
        browser_case prepared;
        web_case_prepare(&list->cases[i], &prepared);
        if (list->cases[i].refusal) {
            printf("  refused: %s: %s\n", list->cases[i].name, list->cases[i].refusal);
            continue;
        }
        numbers[ready] = i;
        out[ready++] = prepared;
    }
    return ready;
}

START_TEST(kernels_run_in_a_browser) {
    const char *mode = getenv("WEFT_TEST_WEBGPU"), *program = browser_find();
    ck_assert_ptr_nonnull(program);
    web_list list = {0};
    ck_assert_ptr_null(weft_context_create(NULL, &list.context));
    web_list_fill(&list, mode && !strcmp(mode, "all"));
    list.count = keep_matching(&list, getenv("WEFT_TEST_WEBGPU_ONLY"));
    browser_case *cases = calloc((size_t)list.count + 1, sizeof *cases);
    int *numbers = calloc((size_t)list.count + 1, sizeof *numbers);
    int ready = prepare_all(&list, cases, numbers), wrong = 0;
    char *log, room[512];
    bool finished = browser_run(program, ready, cases, SECONDS, &log);
    printf("  adapter: %s\n", log ? log : "nothing was heard of the browser");
    double load_ms = 0, run_ms = 0;
    for (int i = 0; i < ready; i++) {
        const char *difference = web_case_compare(&list.cases[numbers[i]], &cases[i], room, sizeof room);
        load_ms += cases[i].load_ms, run_ms += cases[i].run_ms;
        if (getenv("WEFT_TEST_WEBGPU_TIMES"))
            printf("  %8.1f ms load %8.1f ms run  %s\n", cases[i].load_ms, cases[i].run_ms, cases[i].name);
        if (difference && wrong++ < 100) printf("  WRONG %s: %s\n", cases[i].name, difference);
    }
    printf("  %d cases: %d ran, %d wrong, %d refused; loading %.1f s, running %.1f s\n", list.count, ready, wrong,
           list.count - ready, load_ms / 1000, run_ms / 1000);
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
    ck_assert_int_eq(wrong, 0);
}
END_TEST

/* Every case prints as WGSL or says why not; no browser. */
START_TEST(kernels_print) {
    web_list list = {0};
    ck_assert_ptr_null(weft_context_create(NULL, &list.context));
    web_list_fill(&list, false);
    browser_case *cases = calloc((size_t)list.count + 1, sizeof *cases);
    int *numbers = calloc((size_t)list.count + 1, sizeof *numbers);
    int ready = prepare_all(&list, cases, numbers);
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

int main(int count, char **arguments) {
    bool browser = count > 1 && !strcmp(arguments[1], "browser");
    if (browser && !browser_find()) {
        printf("skipped: no Chromium (package chromium; WEFT_TEST_BROWSER names another)\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("webgpu");
    TCase *tests = tcase_create("browser");
    tcase_set_timeout(tests, SECONDS + 60);
    if (browser)
        tcase_add_test(tests, kernels_run_in_a_browser);
    else
        tcase_add_test(tests, kernels_print);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
