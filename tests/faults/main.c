/* Every fault of the list on every target: kernels of the target's own record in the verifier and the simulator, and on
   a device where there is one: Metal's is the fake of tests/metal, Vulkan's whatever the loader shows (lavapipe),
   AMD's an emulator or a card; WebGPU's is Chromium (chromium.c). `test-faults TARGET` runs one, `test-faults chromium`
   the browser, `test-faults adapters` what may be wrong with devices. */
#include "tests/faults/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/target.h"
#include "tests/webgpu/browser.h"

enum { PLACES_MAX = 400, TRIES_MAX = 6 };

typedef struct row {
    const char *target, *arch;
    bool device; /* a driver has the target's name */
} row;
static const row rows[] = {{"metal", "apple7", true},
                           {"vulkan", "vulkan1.2", true},
                           {"amdgcn", "gfx90a", true},
                           {"webgpu", "wgsl", true},
                           {"cuda", "sm_80", true}};

verdict look(weft_context *context, const fault *f, int place, const weft_capability *capability, bool *out_more,
             char *why) {
    subject s;
    subject_make(context, f->model, capability, &s);
    *out_more = f->apply(&s, place);
    verdict v = RIGHT;
    if (*out_more) v = subject_verify(&s, why);
    if (*out_more && v == RIGHT && !f->unseen) v = subject_simulate(&s, true, why);
    subject_drop(&s);
    return v;
}

/* Whether a device notices; *present: there is one. */
static bool check_fault(weft_context *context, const fault *f, const row *r, bool *present) {
    const weft_capability *capability = weft_capability_find(r->target, r->arch);
    char seen[WORDS] = "", why[WORDS] = "";
    int tries = 0;
    bool more = true, simulated = f->unseen;
    for (int place = 0; place < PLACES_MAX && tries < TRIES_MAX && more; place++) {
        verdict v = look(context, f, place, capability, &more, seen);
        if (!more || (v == RIGHT && !f->unseen)) continue;
        simulated = true;
        char text[WORDS];
        subject s;
        subject_make(context, f->model, capability, &s);
        (void)f->apply(&s, place);
        verdict verified = subject_verify(&s, text);
        subject_drop(&s);
        if (verified == REFUSED) {
            printf("  %-42s the verifier: %.90s\n", f->name, text);
            return true;
        }
        if (!*present) {
            printf("  %-42s simulator: %.90s\n", f->name, seen);
            return true;
        }
        int ran = subject_run(context, f, place, capability, r->target, why);
        tries++;
        if (ran == ABSENT) *present = false, place--, printf("  no device: %s\n", why);
        if (ran == WRONG || ran == REFUSED) {
            printf("  %-42s %s: %.110s\n", f->name, ran == WRONG ? "numbers" : "status", why);
            return true;
        }
    }
    if (!simulated || tries) printf("  %-42s MISSED at %d places (simulator: %s)\n", f->name, tries, seen);
    return f->unseen && !*present;
}

START_TEST(noticed) {
    const row *r = &rows[_i];
    const char *only = getenv("WEFT_TEST_FAULTS");
    int wrong = 0, count = 0;
    weft_context *context;
    if (!weft_target_find(r->target)) return;
    assert_fine(weft_context_create(NULL, &context));
    printf("%s:%s\n", r->target, r->arch);
    bool present = r->device;
    for (const fault *f = faults; f->name; f++) {
        if (only && !strstr(f->name, only)) continue;
        if (f->apply == faults[0].apply) { /* the control: nothing is wrong, and nobody says so */
            char why[WORDS] = "";
            bool more;
            verdict v = look(context, f, 0, weft_capability_find(r->target, r->arch), &more, why);
            int ran =
                !present ? RIGHT : subject_run(context, f, 0, weft_capability_find(r->target, r->arch), r->target, why);
            if (ran == ABSENT) present = false, printf("  no device: %s\n", why);
            ck_assert_msg(v == RIGHT && (ran == RIGHT || ran == ABSENT), "%s, model %d, without a fault: %s", r->target,
                          f->model, why);
            continue;
        }
        count++;
        wrong += !check_fault(context, f, r, &present);
        fflush(stdout);
    }
    weft_context_release(context);
    printf("  %d of %d faults noticed%s\n", count - wrong, count, present || !r->device ? "" : " without a device");
    fflush(stdout);
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(noticed_in_a_browser) {
    weft_context *context;
    int wrong = 0, count = 0;
    assert_fine(weft_context_create(NULL, &context));
    browser_check(context, &wrong, &count);
    weft_context_release(context);
    printf("  %d of %d faults noticed\n", count - wrong, count);
    fflush(stdout);
    ck_assert_int_eq(wrong, 0);
}
END_TEST

static int start_again(char **arguments) {
    char path[1000];
    const char *before = getenv("LD_LIBRARY_PATH");
    snprintf(path, sizeof path, "%s:%s%s%s", FAKE_METAL, FAKE_VULKAN, before ? ":" : "", before ? before : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("WEFT_TEST_METAL", "1", 1);
    execv("/proc/self/exe", arguments);
    return 1;
}

int main(int count, char **arguments) {
    if (!getenv("WEFT_TEST_METAL")) return start_again(arguments);
    if (count > 1 && !strcmp(arguments[1], "chromium") && !browser_find()) {
        printf("skipped: no Chromium (package chromium; WEFT_TEST_BROWSER names another)\n");
        return 77;
    }
    Suite *suite = suite_create("faults");
    TCase *tests = tcase_create("devices");
    tcase_set_timeout(tests, 900);
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (count < 2 || !strcmp(arguments[1], rows[i].target)) tcase_add_loop_test(tests, noticed, i, i + 1);
    if (count > 1 && !strcmp(arguments[1], "chromium")) tcase_add_test(tests, noticed_in_a_browser);
    suite_add_tcase(suite, tests);
    if (count < 2 || !strcmp(arguments[1], "adapters")) suite_add_tcase(suite, case_adapters());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
