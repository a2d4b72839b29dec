/* What the programs that time a device share: seconds of a clock that only goes forward, and a median. */
#ifndef WEFT_BENCH_CLOCK_H
#define WEFT_BENCH_CLOCK_H

#include <stdlib.h>
#include <time.h>

static inline double clock_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int clock_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the samples; count > 0. */
static inline double clock_median(double *samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, clock_compare);
    return samples[count / 2];
}

#endif
