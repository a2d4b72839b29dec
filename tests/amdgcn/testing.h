/* What the test files share: processors, a kernel file assembled and loaded for one of them. */
#ifndef WEFT_TESTS_AMDGCN_TESTING_H
#define WEFT_TESTS_AMDGCN_TESTING_H

#include "base/context.h"
#include "tests/amdgcn/assemble.h"
#include "tests/amdgcn/emulator/emulator.h"
#include "tests/support/numbers.h"
#include "tests/support/status.h"

enum { ARCHES = 5 };
extern const char *const arches[ARCHES];
int lanes_of(int arch);

typedef struct loaded {
    weft_context *context;
    amdgcn_machine *machine;
    amdgcn_code *code;
    void *data;
    size_t bytes;
} loaded;

/* Of tests/amdgcn/kernels/. */
loaded load_file(const char *file, const char *arch);
void drop(loaded *l);
/* Arguments: two or three addresses. */
weft_status launch_kernel(loaded *l, const char *name, int blocks, int threads, void *a, void *b,
                          void *c) WEFT_MUST_USE;

void add_opcode_tests(Suite *suite);
void add_matrix_tests(Suite *suite);
void add_program_tests(Suite *suite);
void add_fault_tests(Suite *suite);

#endif
