/* Graphs and helpers for the tests of compile/. */
#ifndef WEFT_TESTS_COMPILE_TESTING_H
#define WEFT_TESTS_COMPILE_TESTING_H

#include <check.h>
#include <stdatomic.h>

#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/ops.h"

/* Fails allocation `left` (0 = the next; negative = none), and with `sticky` every later one; counts live bytes. */
typedef struct test_allocator {
    atomic_long left, live_bytes, count;
    atomic_bool failed;
    bool sticky;
} test_allocator;
weft_allocator test_allocator_make(test_allocator *state);

typedef struct test_log {
    int count[5];
    char text[1 << 14];
} test_log;

/* A context on this allocator (NULL = system), log (may be NULL), cache folder ("" = none). */
weft_status test_context(test_allocator *allocator, test_log *log, const char *cache, weft_context **out_context);

/* A sample: records its problems in the graph; `batch` is what its symbols are called with. */
typedef struct test_sample {
    const char *name;
    void (*build)(weft_graph *graph);
} test_sample;
extern const test_sample test_samples[]; /* ends with a NULL name */
const test_sample *test_sample_find(const char *name);
weft_status test_sample_graph(weft_context *context, const test_sample *sample, weft_graph **out_graph);

enum { TEST_PORTS = 8 };
/* Small numbers for every input, symbolic extents at `batch`. */
weft_status test_inputs(weft_context *context, const weft_graph *graph, int64_t batch, weft_tensor **out_inputs);
void test_release(weft_tensor **tensors); /* TEST_PORTS of them; leaves NULL */
/* The interpreter's results against others: dtype, shape, and values within 1e-4 (integers exactly). */
void test_compare(weft_graph *graph, weft_tensor *const *inputs, weft_tensor *const *outputs);
void test_same_bits(int count, weft_tensor *const *a, weft_tensor *const *b);

/* A fresh folder below TMPDIR, removed with what it holds. */
void test_folder_make(char *path, size_t capacity);
void test_folder_remove(const char *path);
int test_folder_count(const char *path);                              /* of entries */
void test_folder_first(const char *path, char *out, size_t capacity); /* some entry's path */

#endif
