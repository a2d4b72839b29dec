/* Optimizers, schedules and losses: one suite per file. */
#include <check.h>
#include <stdlib.h>

Suite *optim_suite(void);
Suite *more_suite(void);
Suite *schedule_suite(void);
Suite *loss_suite(void);
Suite *head_suite(void);

int main(void) {
    SRunner *runner = srunner_create(optim_suite());
    srunner_add_suite(runner, more_suite());
    srunner_add_suite(runner, schedule_suite());
    srunner_add_suite(runner, loss_suite());
    srunner_add_suite(runner, head_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
