/* Training: whole steps of a model; runs interrupted and resumed. One suite per file. */
#include <check.h>
#include <stdlib.h>

Suite *steps_suite(void);
Suite *dropout_suite(void);
Suite *resume_suite(void);
Suite *crash_suite(void);
Suite *images_suite(void);
Suite *buckets_suite(void);
Suite *mixed_suite(void);

int main(void) {
    SRunner *runner = srunner_create(steps_suite());
    srunner_add_suite(runner, resume_suite());
    srunner_add_suite(runner, images_suite());
    srunner_add_suite(runner, buckets_suite());
    srunner_add_suite(runner, crash_suite());
    srunner_add_suite(runner, dropout_suite());
    srunner_add_suite(runner, mixed_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
