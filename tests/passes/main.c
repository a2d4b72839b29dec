/* Tests of passes/: one suite per file. */
#include <check.h>
#include <stdlib.h>

Suite *beside_suite(void);
Suite *budget_suite(void);
Suite *chain_suite(void);
Suite *golden_suite(void);
Suite *groups_suite(void);
Suite *random_suite(void);

int main(void) {
    SRunner *runner = srunner_create(golden_suite());
    srunner_add_suite(runner, beside_suite());
    srunner_add_suite(runner, budget_suite());
    srunner_add_suite(runner, random_suite());
    srunner_add_suite(runner, chain_suite());
    srunner_add_suite(runner, groups_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
