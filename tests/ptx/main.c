/* PTX on this CPU: the interpreter's instructions and its faults, damaged code images, then kernels of every portable
   builder through NVRTC and the CUDA driver against the graph interpreter. */
#include <check.h>
#include <stdlib.h>

void add_instruction_tests(Suite *suite);
void add_program_tests(Suite *suite);
void add_builder_tests(Suite *suite);
void add_image_tests(Suite *suite);
void add_loop_tests(Suite *suite);
void add_device_tests(Suite *suite);
void add_mail_tests(Suite *suite);

int main(void) {
    Suite *suite = suite_create("ptx");
    add_instruction_tests(suite);
    add_program_tests(suite);
    add_image_tests(suite);
    add_builder_tests(suite);
    add_loop_tests(suite);
    add_device_tests(suite);
    add_mail_tests(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
