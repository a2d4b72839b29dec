/* The emulator of AMD GPUs: instructions one by one, code objects that are damaged, kernels that do what they must not.
 */
#include <check.h>
#include <stdlib.h>

void add_opcode_tests(Suite *suite);

int main(void) {
    Suite *suite = suite_create("amdgcn");
    add_opcode_tests(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
