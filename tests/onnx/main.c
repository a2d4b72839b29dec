/* Tests of the ONNX importer: one suite per file. make_models.py writes the models. */
#include <check.h>
#include <stdlib.h>

Suite *import_suite(void);
Suite *hostile_suite(void);

int main(void) {
#ifdef WEFT_HAVE_ONNX
    SRunner *runner = srunner_create(import_suite());
    srunner_add_suite(runner, hostile_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
#else
    return EXIT_SUCCESS;
#endif
}
