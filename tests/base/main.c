/* Runner of the base tests: one suite per file. */
#include "tests/base/base.h"

int main(void) {
    SRunner *runner = srunner_create(status_suite());
    srunner_add_suite(runner, memory_suite());
    srunner_add_suite(runner, floats_suite());
    srunner_add_suite(runner, formats_suite());
    srunner_add_suite(runner, system_suite());
    srunner_add_suite(runner, exchange_suite());
    srunner_add_suite(runner, process_suite());
    srunner_add_suite(runner, env_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
