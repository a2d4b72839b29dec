/* Models of stdlib against PyTorch's numbers in tests/golden/data: interpreted and compiled. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weft/compile.h"
#include "weft/nn.h"

TCase *models_case(void);
TCase *narrow_case(void);
TCase *positions_case(void);

enum { LAYERS = 2, HEADS = 2 };

static void require(weft_status status) {
    char text[2048] = "";
    if (status) (void)weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(!text[0], "%s", text);
}

static weft_safetensors *open_golden(weft_context *context, const char *name) {
    char path[512];
    weft_safetensors *file;
    snprintf(path, sizeof path, "%s/tests/golden/data/%s", WEFT_SOURCE_DIR, name);
    require(weft_safetensors_open(context, path, &file));
    return file;
}

static weft_tensor *tensor_of(weft_safetensors *file, const char *name) {
    weft_tensor *tensor;
    int index = weft_safetensors_find(file, name);
    ck_assert_msg(index >= 0, "no %s", name);
    require(weft_safetensors_get(file, index, &tensor));
    return tensor;
}

/* Largest difference over largest value; want is f64. */
static double error(const weft_tensor *got, const weft_tensor *want) {
    const float *a = weft_tensor_data(got);
    const double *b = weft_tensor_data(want);
    double worst = 0, largest = 0;
    ck_assert_int_eq(weft_tensor_dtype(got), WEFT_F32);
    ck_assert_int_eq(weft_tensor_element_count(got), weft_tensor_element_count(want));
    for (int64_t i = 0; i < weft_tensor_element_count(got); i++)
        worst = fmax(worst, fabs((double)a[i] - b[i])), largest = fmax(largest, fabs(b[i]));
    return worst / largest;
}

static void check_vit(const char *name, bool mean_pool, bool symbolic) {
    weft_context *context;
    weft_graph *g;
    weft_program *program;
    weft_session *session;
    require(weft_context_create(NULL, &context));
    weft_safetensors *file = open_golden(context, name);
    weft_tensor *images = tensor_of(file, "golden.images"),
                *want = tensor_of(file, mean_pool ? "golden.mean" : "golden.first"), *interpreted = NULL, *got = NULL;
    require(weft_graph_create(context, "vit", &g));
    weft_dim shape[4] = {symbolic ? weft_graph_symbol(g, "B", 1, 64, 1) : weft_tensor_shape(images)[0], 3,
                         weft_tensor_shape(images)[2], weft_tensor_shape(images)[3]};
    weft_nn_vit_options options = WEFT_NN_VIT_OPTIONS_INIT;
    options.layers = LAYERS, options.heads = HEADS, options.mean_pool = mean_pool;
    weft_graph_output(g, "y", weft_nn_vit(g, file, &options, weft_graph_input(g, "images", WEFT_F32, 4, shape)));
    require(weft_graph_verify(g));
    require(weft_graph_interpret(g, 1, &images, 1, &interpreted));
    ck_assert_double_lt(error(interpreted, want), 2e-5);
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, 1, &images, 1, &got));
    ck_assert_double_lt(error(got, want), 2e-5);
    weft_session_release(session);
    weft_program_release(program);
    weft_tensor_release(images), weft_tensor_release(want), weft_tensor_release(interpreted), weft_tensor_release(got);
    weft_graph_release(g);
    weft_safetensors_release(file);
    weft_context_release(context);
}

START_TEST(vision_transformers) {
    check_vit("vit_classifier.safetensors", false, false);
    check_vit("vit_classifier.safetensors", true, true);
    check_vit("vit_tokens.safetensors", false, true);
}
END_TEST

/* A layer that the file has not is named. */
START_TEST(a_missing_weight_is_named) {
    weft_context *context;
    weft_graph *g;
    char text[4096];
    require(weft_context_create(NULL, &context));
    weft_safetensors *file = open_golden(context, "vit_tokens.safetensors");
    require(weft_graph_create(context, "vit", &g));
    weft_nn_vit_options options = WEFT_NN_VIT_OPTIONS_INIT;
    options.layers = LAYERS + 1, options.heads = HEADS;
    weft_dim shape[4] = {1, 3, 12, 12};
    weft_graph_output(g, "y", weft_nn_vit(g, file, &options, weft_graph_input(g, "images", WEFT_F32, 4, shape)));
    weft_status status = weft_graph_verify(g);
    ck_assert_ptr_nonnull(status);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, "blocks.2.norm1.weight") != NULL, "%s", text);
    weft_status_release(status);
    weft_graph_release(g);
    weft_safetensors_release(file);
    weft_context_release(context);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("nn");
    TCase *tests = tcase_create("nn");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, vision_transformers);
    tcase_add_test(tests, a_missing_weight_is_named);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, models_case());
    suite_add_tcase(suite, narrow_case());
    suite_add_tcase(suite, positions_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
