/* Every loss and its gradient by its first input against tests/golden/loss.py, compiled, in f64 and f32. */
#include "weft/loss.h"
#include "tests/support/golden.h"
#include "weft/transform.h"

enum { INPUTS_MAX = 4 };

typedef struct loss_case {
    const char *name;
    const char *inputs[INPUTS_MAX];
    weft_value *(*build)(weft_graph *g, weft_value **in);
} loss_case;

static weft_value *cross_entropy(weft_graph *g, weft_value **in) {
    return weft_loss_cross_entropy(g, in[0], in[1], NULL);
}
/* The same through leading axes. */
static weft_value *cross_entropy_axes(weft_graph *g, weft_value **in) {
    weft_value *logits = weft_reshape(g, in[0], 3, (weft_dim[]){3, 4, 7});
    return weft_loss_cross_entropy(g, logits, weft_reshape(g, in[1], 2, (weft_dim[]){3, 4}), NULL);
}
static weft_value *smoothing(weft_graph *g, weft_value **in) {
    weft_cross_entropy_options o = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    o.smoothing = 0.1;
    return weft_loss_cross_entropy(g, in[0], in[1], &o);
}
static weft_value *ignore(weft_graph *g, weft_value **in) {
    weft_cross_entropy_options o = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    o.smoothing = 0.1, o.ignore = true, o.ignore_label = 3;
    return weft_loss_cross_entropy(g, in[0], in[1], &o);
}
static weft_value *z(weft_graph *g, weft_value **in) {
    weft_cross_entropy_options o = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    o.z = 0.01;
    return weft_loss_cross_entropy(g, in[0], in[1], &o);
}
static weft_value *binary(weft_graph *g, weft_value **in) { return weft_loss_binary_cross_entropy(g, in[0], in[1]); }
static weft_value *focal(weft_graph *g, weft_value **in) { return weft_loss_focal(g, in[0], in[1], 0.25, 2); }
static weft_value *focal_plain(weft_graph *g, weft_value **in) { return weft_loss_focal(g, in[0], in[1], -1, 1.5); }
static weft_value *mse(weft_graph *g, weft_value **in) { return weft_loss_mse(g, in[0], in[1]); }
static weft_value *l1(weft_graph *g, weft_value **in) { return weft_loss_l1(g, in[0], in[1]); }
static weft_value *huber(weft_graph *g, weft_value **in) { return weft_loss_huber(g, in[0], in[1], 0.7); }
static weft_value *kl(weft_graph *g, weft_value **in) { return weft_loss_kl(g, in[0], in[1]); }
static weft_value *distillation(weft_graph *g, weft_value **in) {
    return weft_loss_distillation(g, in[0], in[1], in[2], 3, 0.7);
}
static weft_value *nt_xent(weft_graph *g, weft_value **in) { return weft_loss_nt_xent(g, in[0], in[1], 0.3); }
static weft_value *info_nce(weft_graph *g, weft_value **in) { return weft_loss_info_nce(g, in[0], in[1], 0.3); }
static weft_value *sup_con(weft_graph *g, weft_value **in) { return weft_loss_sup_con(g, in[0], in[1], 0.2); }
static weft_value *vicreg(weft_graph *g, weft_value **in) { return weft_loss_vicreg(g, in[0], in[1], 25, 25, 1); }
static weft_value *barlow(weft_graph *g, weft_value **in) { return weft_loss_barlow_twins(g, in[0], in[1], 0.0051); }
static weft_value *hint(weft_graph *g, weft_value **in) { return weft_loss_hint(g, in[0], in[1], in[2]); }
static weft_value *attention_transfer(weft_graph *g, weft_value **in) {
    return weft_loss_attention_transfer(g, in[0], in[1]);
}
static weft_value *rkd_distance(weft_graph *g, weft_value **in) { return weft_loss_rkd_distance(g, in[0], in[1]); }
static weft_value *rkd_angle(weft_graph *g, weft_value **in) { return weft_loss_rkd_angle(g, in[0], in[1]); }
static weft_value *balance(weft_graph *g, weft_value **in) { return weft_loss_expert_balance(g, in[0], in[1]); }
static weft_value *router_z(weft_graph *g, weft_value **in) { return weft_loss_router_z(g, in[0]); }
static weft_value *dpo(weft_graph *g, weft_value **in) {
    return weft_loss_preference(g, WEFT_PREFERENCE_DPO, in[0], in[1], in[2], in[3], 0.1, 0);
}
static weft_value *cdpo(weft_graph *g, weft_value **in) {
    return weft_loss_preference(g, WEFT_PREFERENCE_DPO, in[0], in[1], in[2], in[3], 0.1, 0.2);
}
static weft_value *robust(weft_graph *g, weft_value **in) {
    return weft_loss_preference(g, WEFT_PREFERENCE_ROBUST, in[0], in[1], in[2], in[3], 0.1, 0.2);
}
static weft_value *ipo(weft_graph *g, weft_value **in) {
    return weft_loss_preference(g, WEFT_PREFERENCE_IPO, in[0], in[1], in[2], in[3], 0.1, 0);
}

#define PAIRS {"chosen", "rejected", "reference_chosen", "reference_rejected"}
static const loss_case cases[] = {
    {"cross_entropy", {"logits", "labels"}, cross_entropy},
    {"cross_entropy", {"logits", "labels"}, cross_entropy_axes},
    {"smoothing", {"logits", "labels"}, smoothing},
    {"ignore", {"logits", "labels"}, ignore},
    {"z", {"logits", "labels"}, z},
    {"binary", {"x", "targets"}, binary},
    {"focal", {"x", "targets"}, focal},
    {"focal_plain", {"x", "targets"}, focal_plain},
    {"mse", {"x", "y"}, mse},
    {"l1", {"x", "y"}, l1},
    {"huber", {"x", "y"}, huber},
    {"kl", {"logits", "teacher"}, kl},
    {"distillation", {"logits", "teacher", "labels"}, distillation},
    {"nt_xent", {"x", "y"}, nt_xent},
    {"info_nce", {"x", "y"}, info_nce},
    {"sup_con", {"x", "classes"}, sup_con},
    {"vicreg", {"x", "y"}, vicreg},
    {"barlow_twins", {"x", "y"}, barlow},
    {"hint", {"x", "logits", "regressor"}, hint},
    {"attention_transfer", {"maps", "other_maps"}, attention_transfer},
    {"rkd_distance", {"x", "logits"}, rkd_distance},
    {"rkd_angle", {"x", "logits"}, rkd_angle},
    {"expert_balance", {"logits", "chosen_experts"}, balance},
    {"router_z", {"logits"}, router_z},
    {"dpo", PAIRS, dpo},
    {"cdpo", PAIRS, cdpo},
    {"robust_dpo", PAIRS, robust},
    {"ipo", PAIRS, ipo},
};

static void compare(const loss_case *c, weft_dtype dtype) {
    weft_context *context;
    weft_graph *g;
    weft_program *program;
    weft_session *session;
    weft_tensor *in[INPUTS_MAX], *out[2] = {0};
    weft_value *values[INPUTS_MAX], *gradient;
    int count = 0;
    require(weft_context_create(NULL, &context));
    weft_safetensors *file = golden_open(context, "loss.safetensors");
    require(weft_graph_create(context, c->name, &g));
    for (; count < INPUTS_MAX && c->inputs[count]; count++) {
        in[count] = golden_tensor(context, file, c->inputs[count], WEFT_INVALID);
        if (weft_tensor_dtype(in[count]) == WEFT_F64) {
            weft_tensor_release(in[count]);
            in[count] = golden_tensor(context, file, c->inputs[count], dtype);
        }
        values[count] = weft_graph_input(g, c->inputs[count], weft_tensor_dtype(in[count]), weft_tensor_rank(in[count]),
                                         weft_tensor_shape(in[count]));
    }
    weft_value *loss = c->build(g, values);
    weft_gradient(g, loss, NULL, 1, values, &gradient);
    weft_graph_output(g, "loss", loss);
    weft_graph_output(g, "gradient", gradient);
    require(weft_graph_verify(g));
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, count, in, 2, out));
    static const char *const parts[2] = {"loss", "gradient"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%s", c->name, parts[i]);
        weft_tensor *want = golden_tensor(context, file, name, WEFT_F64);
        double off = distance(out[i], want);
        ck_assert_msg(off <= (dtype == WEFT_F64 ? 1e-9 : 1e-5), "%s is off by %.3g in %s", name, off,
                      weft_dtype_name(dtype));
        weft_tensor_release(want);
        weft_tensor_release(out[i]);
    }
    for (int i = 0; i < count; i++) weft_tensor_release(in[i]);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(g);
    weft_safetensors_release(file);
    weft_context_release(context);
}

START_TEST(test_loss) {
    compare(&cases[_i], WEFT_F64);
    compare(&cases[_i], WEFT_F32);
}
END_TEST

Suite *loss_suite(void) {
    Suite *suite = suite_create("loss");
    TCase *group = tcase_create("values");
    tcase_set_timeout(group, 60);
    tcase_add_loop_test(group, test_loss, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, group);
    return suite;
}
