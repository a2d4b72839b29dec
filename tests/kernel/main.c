/* The kernel IR: construction and folding, verifier, simulator with injected faults, elementary functions, schedules.
 */
#include "kernels.h"

int main(void) {
    SRunner *runner = srunner_create(math_suite());
    srunner_add_suite(runner, build_suite());
    srunner_add_suite(runner, verify_suite());
    srunner_add_suite(runner, simulate_suite());
    srunner_add_suite(runner, schedule_suite());
    srunner_add_suite(runner, hopper_suite());
    srunner_add_suite(runner, narrow_suite());
    srunner_add_suite(runner, units_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
