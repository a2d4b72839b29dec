/* PTX on this CPU: the interpreter's instructions and its faults, then kernels of every portable builder through NVRTC
   and the CUDA driver against the graph interpreter. */
#include <check.h>
#include <stdlib.h>

void add_instruction_tests(Suite *suite);
void add_program_tests(Suite *suite);
void add_builder_tests(Suite *suite);

int main(void) {
    Suite *suite = suite_create("ptx");
    add_instruction_tests(suite);
    add_program_tests(suite);
    add_builder_tests(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
