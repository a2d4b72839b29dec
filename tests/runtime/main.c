/* Tests of runtime/: drivers, executor, artifacts, JIT cache. */
#include <stdlib.h>

#include "tests/runtime/testing.h"

int main(void) {
    SRunner *runner = srunner_create(suite_driver());
    srunner_add_suite(runner, suite_executor());
    srunner_add_suite(runner, suite_artifact());
    srunner_add_suite(runner, suite_jit());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
