/* Metrics of a run, a row per logged step, as CSV and as JSON lines. Written whole rows at a time; a resumed run first
   drops the rows behind its checkpoint. */
#ifndef WEFT_STDLIB_TRAIN_METRICS_H
#define WEFT_STDLIB_TRAIN_METRICS_H

#include <stdio.h>

#include "weft/train.h"

enum { WEFT_METRICS_MAX = 32 };

typedef struct weft_metrics {
    weft_context *context;
    FILE *csv, *jsonl;
    int count;
    const char *names[WEFT_METRICS_MAX]; /* of the columns behind step */
} weft_metrics;

/* last_step: rows of later steps are dropped; 0 starts anew. */
weft_status weft_metrics_open(weft_context *context, const char *folder, int64_t last_step, int count,
                              const char *const *names, weft_metrics *out_metrics) WEFT_MUST_USE;
/* NaN: no value; an empty field. */
weft_status weft_metrics_write(weft_metrics *metrics, int64_t step, const double *values) WEFT_MUST_USE;
weft_status weft_metrics_close(weft_metrics *metrics) WEFT_MUST_USE;

#endif
