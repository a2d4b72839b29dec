/* The emulator of AMD GPUs: instructions one by one, small programs, code objects that are damaged, kernels that do
   what they must not. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdgcn/testing.h"

const char *const arches[ARCHES] = {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1200"};

int lanes_of(int arch) { return arch < 2 ? 64 : 32; }

static char *read_text(const char *file) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/amdgcn/kernels/%s", WEFT_SOURCE_DIR, file);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    enum { ROOM = 1 << 16 };
    char *text = malloc(ROOM);
    size_t length = fread(text, 1, ROOM - 1, f);
    (void)fclose(f);
    ck_assert_uint_lt(length, ROOM - 1);
    text[length] = 0;
    return text;
}

loaded load_file(const char *file, const char *arch) {
    loaded l = {0};
    char *text = read_text(file);
    assert_fine(weft_context_create(NULL, &l.context));
    assert_fine(amdgcn_assemble(l.context->allocator, arch, text, &l.data, &l.bytes));
    assert_fine(amdgcn_machine_create(arch, &l.machine));
    assert_fine(amdgcn_code_load(l.machine, l.data, l.bytes, &l.code));
    free(text);
    return l;
}

void drop(loaded *l) {
    amdgcn_code_unload(l->code);
    amdgcn_machine_release(l->machine);
    weft_free(l->context->allocator, l->data, l->bytes);
    weft_context_release(l->context);
}

weft_status launch_kernel(loaded *l, const char *name, int blocks, int threads, void *a, void *b, void *c) {
    void *arguments[] = {a, b, c};
    amdgcn_launch launch = {.kernel = name,
                            .blocks = blocks,
                            .threads = threads,
                            .arguments = arguments,
                            .argument_bytes = c ? sizeof arguments : 2 * sizeof *arguments};
    return amdgcn_machine_launch(l->code, &launch);
}

int main(void) {
    Suite *suite = suite_create("amdgcn");
    add_opcode_tests(suite);
    add_matrix_tests(suite);
    add_program_tests(suite);
    add_fault_tests(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
