/* Tests of ir/: one suite per file. */
#include <check.h>
#include <stdlib.h>

Suite *graph_suite(void);
Suite *text_suite(void);
Suite *verify_suite(void);
Suite *memory_suite(void);
Suite *decompose_suite(void);

int main(void) {
    SRunner *runner = srunner_create(graph_suite());
    srunner_add_suite(runner, text_suite());
    srunner_add_suite(runner, verify_suite());
    srunner_add_suite(runner, memory_suite());
    srunner_add_suite(runner, decompose_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
