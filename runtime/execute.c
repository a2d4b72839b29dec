/* Running the steps of a frame. The loop over launches is the hot path: no evaluation, no allocation. Read next:
 * record.c. */
#include <string.h>

#include "runtime/frame.h"

/* A scalar that decides control flow: the device is waited for. */
static weft_status read_scalar(weft_frame *frame, const void *from, void *to, size_t bytes) {
    const weft_driver *driver = frame->device->driver;
    WEFT_TRY(driver->synchronise(frame->device), "waiting for a value");
    if (!driver->host_memory) return driver->download(frame->device, to, from, bytes);
    memcpy(to, from, bytes);
    return NULL;
}

static weft_status run_while(weft_frame *frame, weft_resolved_step *resolved) {
    for (;;) {
        unsigned char go_on = 0;
        WEFT_TRY(weft_frame_run(frame, resolved->step->regions[0]), "predicate");
        if (resolved->dynamic) WEFT_TRY(weft_frame_resolve_step(frame, resolved, false), "predicate");
        WEFT_TRY(read_scalar(frame, resolved->buffers[0], &go_on, 1), "predicate");
        if (!go_on) return NULL;
        WEFT_TRY(weft_frame_run(frame, resolved->step->regions[1]), "body");
    }
}

static weft_status run_cond(weft_frame *frame, const weft_resolved_step *resolved) {
    unsigned char chosen = 0;
    WEFT_TRY(read_scalar(frame, resolved->buffers[0], &chosen, 1), "predicate");
    return weft_frame_run(frame, resolved->step->regions[chosen ? 0 : 1]);
}

static weft_status run_read_dim(weft_frame *frame, const weft_resolved_step *resolved) {
    const weft_symbol *symbol = weft_dim_symbol_get(frame->data->dims, resolved->step->symbol);
    int64_t value = 0;
    WEFT_TRY(read_scalar(frame, resolved->buffers[0], &value, sizeof value), "extent %s", symbol->name);
    if (value < symbol->minimum || value > symbol->maximum || value % symbol->divisor)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "extent %s is %lld: not a multiple of %lld in [%lld, %lld]", symbol->name,
                           (long long)value, (long long)symbol->divisor, (long long)symbol->minimum,
                           (long long)symbol->maximum);
    frame->symbols[resolved->step->symbol] = value;
    return NULL;
}

static weft_status run_loop(weft_frame *frame, const weft_resolved_step *resolved) {
    int64_t *trip = &frame->symbols[resolved->step->symbol], before = *trip, count = resolved->count;
    weft_status status = NULL;
    for (int64_t i = 0; i < count && !status; i++) {
        *trip = i;
        status = weft_frame_run(frame, resolved->step->regions[0]);
        if (status)
            status =
                weft_status_annotate(status, __FILE__, __LINE__, "trip %lld of %lld", (long long)i, (long long)count);
    }
    *trip = before;
    return status;
}

static weft_status run_step(weft_frame *frame, weft_resolved_step *resolved) {
    weft_device *device = frame->device;
    switch (resolved->step->kind) {
    case WEFT_STEP_LAUNCH:
        return resolved->idle ? NULL : device->driver->launch(device, frame->module, &resolved->launch);
    case WEFT_STEP_COPY:
        return resolved->idle
                   ? NULL
                   : device->driver->copy(device, resolved->buffers[1], resolved->buffers[0], (size_t)resolved->count);
    case WEFT_STEP_WHILE: return run_while(frame, resolved);
    case WEFT_STEP_COND: return run_cond(frame, resolved);
    case WEFT_STEP_READ_DIM: return run_read_dim(frame, resolved);
    case WEFT_STEP_LOOP: return run_loop(frame, resolved);
    }
    return WEFT_STATUS(WEFT_INTERNAL, "step kind %d", (int)resolved->step->kind);
}

static weft_status annotate(const weft_frame *frame, const weft_resolved_step *resolved, int region, int index,
                            weft_status status) {
    const weft_step *step = resolved->step;
    const char *location = step->location ? step->location : "", *kernel = "";
    if (step->kind == WEFT_STEP_LAUNCH) kernel = frame->data->kernels[resolved->launch.kernel].name;
    return weft_status_annotate(status, __FILE__, __LINE__, "running %s, region %d, step %d (%s)%s%s",
                                frame->data->name, region, index, location, kernel[0] ? ", kernel " : "", kernel);
}

weft_status weft_frame_run(weft_frame *frame, int region) {
    const weft_resolved_region *steps = &frame->regions[region];
    for (int i = 0; i < steps->count; i++) {
        weft_resolved_step *resolved = &steps->steps[i];
        weft_status status = NULL;
        if (resolved->dynamic && resolved->step->kind != WEFT_STEP_WHILE)
            status = weft_frame_resolve_step(frame, resolved, false);
        if (!status) status = run_step(frame, resolved);
        bool observed = frame->observe && region == WEFT_REGION_MAIN;
        if (!status && (observed || frame->waits)) status = frame->device->driver->synchronise(frame->device);
        if (!status && observed) frame->observe(frame->observe_self, i);
        if (status) return annotate(frame, resolved, region, i, status);
    }
    return NULL;
}
