/* The card's calls for runtime/drivers/gpu.h. */
#include "runtime/drivers/hip/hip.h"

static hip_device *of(weft_device *base) { return (hip_device *)base; }

/* The prototypes of the runtime have no const. */
static void *writable(const void *memory) { return (void *)(uintptr_t)memory; }

static int enter(weft_device *base) { return of(base)->api.hipSetDevice(base->ordinal); }
static int allocate(weft_device *base, size_t bytes, void **out_memory) {
    return of(base)->api.hipMalloc(out_memory, bytes);
}
static int release(weft_device *base, void *memory) { return of(base)->api.hipFree(memory); }
static int fill(weft_device *base, void *memory, size_t bytes) {
    return of(base)->api.hipMemsetAsync(memory, 0xff, bytes, of(base)->stream);
}
static int pin(weft_device *base, size_t bytes, void **out_memory) {
    return of(base)->api.hipHostMalloc(out_memory, bytes, 0);
}
static int unpin(weft_device *base, void *memory) { return of(base)->api.hipHostFree(memory); }
static int send(weft_device *base, void *to, const void *from, size_t bytes) {
    return of(base)->api.hipMemcpyHtoDAsync(to, writable(from), bytes, of(base)->stream);
}
static int fetch(weft_device *base, void *to, const void *from, size_t bytes) {
    return of(base)->api.hipMemcpyDtoHAsync(to, writable(from), bytes, of(base)->stream);
}
static int move(weft_device *base, void *to, const void *from, size_t bytes) {
    return of(base)->api.hipMemcpyDtoDAsync(to, writable(from), bytes, of(base)->stream);
}
static int wait(weft_device *base) { return of(base)->api.hipStreamSynchronize(of(base)->stream); }
static int make_mark(weft_device *base, void **out_mark) {
    hip_event event = NULL;
    hip_result result = of(base)->api.hipEventCreateWithFlags(&event, 0);
    *out_mark = event;
    return result;
}
static int drop_mark(weft_device *base, void *mark) { return of(base)->api.hipEventDestroy(mark); }
static int set_mark(weft_device *base, void *mark) { return of(base)->api.hipEventRecord(mark, of(base)->stream); }
static int wait_mark(weft_device *base, void *mark) { return of(base)->api.hipEventSynchronize(mark); }
static int between(weft_device *base, void *from, void *to, float *out_ms) {
    return of(base)->api.hipEventElapsedTime(out_ms, from, to);
}
static weft_status status(const weft_device *base, int result, const char *what) {
    return weft_hip_status(&((const hip_device *)base)->api, result, what);
}

const weft_gpu_calls weft_hip_calls = {.full = HIP_ERROR_OUT_OF_MEMORY,
                                       .enter = enter,
                                       .allocate = allocate,
                                       .release = release,
                                       .fill = fill,
                                       .pin = pin,
                                       .unpin = unpin,
                                       .send = send,
                                       .fetch = fetch,
                                       .move = move,
                                       .wait = wait,
                                       .make_mark = make_mark,
                                       .drop_mark = drop_mark,
                                       .set_mark = set_mark,
                                       .wait_mark = wait_mark,
                                       .between = between,
                                       .status = status};
