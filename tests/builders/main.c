/* Tests of codegen/builders: every op and dtype, fused groups, edges of vectors and blocks. */
#include <stdlib.h>

#include "tests/builders/harness.h"

int main(void) {
    SRunner *runner = srunner_create(elementwise_suite());
    srunner_add_suite(runner, movement_suite());
    srunner_add_suite(runner, reduce_suite());
    srunner_add_suite(runner, single_suite());
    srunner_add_suite(runner, convolution_suite());
    srunner_add_suite(runner, chain_suite());
    srunner_add_suite(runner, ragged_suite());
    srunner_add_suite(runner, network_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
