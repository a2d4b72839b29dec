/* Kernels of the runtime's tests, in the calling convention of runtime/driver.h. */
#include <stdint.h>

#define KERNEL(name)                                                                                                   \
    __attribute__((visibility("default"))) void name(void *const *buffers, const int64_t *extents, int64_t lo,         \
                                                     int64_t hi, void *scratch)

enum { BLOCK = 16 };

/* y[i] = a[i] + b[i % period]; extents: count, period; blocks of 16 elements */
KERNEL(add) {
    const float *a = buffers[0], *b = buffers[1];
    float *y = buffers[2];
    (void)scratch;
    for (int64_t i = lo * BLOCK; i < hi * BLOCK && i < extents[0]; i++) y[i] = a[i] + b[i % extents[1]];
}

/* y[i] = a[i] * a[i]; extents: count */
KERNEL(square) {
    const float *a = buffers[0];
    float *y = buffers[1];
    (void)scratch;
    for (int64_t i = lo * BLOCK; i < hi * BLOCK && i < extents[0]; i++) y[i] = a[i] * a[i];
}

/* y[i] = 2 * a[i]; one block */
KERNEL(twice) {
    const float *a = buffers[0];
    float *y = buffers[1];
    (void)lo;
    (void)hi;
    (void)scratch;
    for (int64_t i = 0; i < extents[0]; i++) y[i] = 2 * a[i];
}

/* go_on[0] = counter[0] < limit[0] */
KERNEL(less) {
    const int64_t *counter = buffers[0], *limit = buffers[1];
    (void)extents;
    (void)lo;
    (void)hi;
    (void)scratch;
    *(unsigned char *)buffers[2] = *counter < *limit;
}

/* counter[0] += extents[0] */
KERNEL(increase) {
    (void)lo;
    (void)hi;
    (void)scratch;
    *(int64_t *)buffers[0] += extents[0];
}

/* The positive elements of a, packed, and their number; extents: count */
KERNEL(positive) {
    const float *a = buffers[0];
    float *y = buffers[1];
    int64_t found = 0;
    (void)lo;
    (void)hi;
    (void)scratch;
    for (int64_t i = 0; i < extents[0]; i++)
        if (a[i] > 0) y[found++] = a[i];
    *(int64_t *)buffers[2] = found;
}

/* y[block] = sum over the block's elements, through the thread's scratch; extents: count, scratch floats */
KERNEL(block_sums) {
    const float *a = buffers[0];
    float *y = buffers[1], *mine = scratch;
    for (int64_t block = lo; block < hi; block++) {
        for (int64_t i = 0; i < extents[1]; i++) mine[i] = 0;
        for (int64_t i = block * BLOCK; i < (block + 1) * BLOCK && i < extents[0]; i++) mine[i % extents[1]] += a[i];
        float sum = 0;
        for (int64_t i = 0; i < extents[1]; i++) sum += mine[i];
        y[block] = sum;
    }
}
