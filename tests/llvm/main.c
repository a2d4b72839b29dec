/* Code generation for CPUs: every kernel op that has an LLVM spelling is compiled, linked, loaded and compared with C.
 */
#include <stdlib.h>

#include "tests/llvm/loader.h"

const char *const arches[2] = {"x86-64-v3", "x86-64-v4"};

bool cpu_runs(const char *arch) {
    if (strcmp(arch, "x86-64-v4") == 0) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bench bench_open(const char *arch) {
    bench b = {0};
    ck_assert_ptr_null(weft_context_create(NULL, &b.context));
    weft_arena_init(weft_allocator_system(), &b.arena);
    b.capability = weft_capability_find("cpu", arch);
    ck_assert_ptr_nonnull(b.capability);
    return b;
}

void bench_close(bench *b) {
    weft_arena_deinit(&b->arena);
    weft_context_release(b->context);
}

void run_kernel(bench *b, weft_kernel *kernel, void *const *buffers, const int64_t *extents, int64_t grid) {
    weft_code_image image;
    char text[2000] = "";
    weft_status status = weft_target_find("cpu")->compile(b->context, b->capability, 1, &kernel, 1, &image);
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s", text);
    loaded l = load_image(&image);
    kernel_function function = find_kernel(&l, kernel->name);
    ck_assert_msg(function != NULL, "%s is missing", kernel->name);
    _Alignas(64) static unsigned char scratch[65536];
    function(buffers, extents, 0, grid, scratch);
    unload_image(&l);
    weft_free(b->context->allocator, image.data, image.bytes);
}

int main(void) {
    SRunner *runner = srunner_create(ops_suite());
    srunner_add_suite(runner, convert_suite());
    srunner_add_suite(runner, structure_suite());
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
