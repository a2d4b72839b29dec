/* Tests of compile/: one suite per file. */
#include <check.h>
#include <stdlib.h>

Suite *memory_suite(void);
Suite *states_suite(void);
Suite *samples_suite(void);
Suite *join_suite(void);
Suite *jit_suite(void);
Suite *cache_suite(void);
Suite *artifact_suite(void);
Suite *outlives_suite(void);

int main(void) {
    SRunner *runner = srunner_create(samples_suite());
    srunner_add_suite(runner, states_suite());
    srunner_add_suite(runner, join_suite());
    srunner_add_suite(runner, jit_suite());
    srunner_add_suite(runner, cache_suite());
    srunner_add_suite(runner, artifact_suite());
    srunner_add_suite(runner, outlives_suite());
    srunner_add_suite(runner, memory_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
