/* The card's calls for runtime/drivers/gpu.h. */
#include "runtime/drivers/cuda/cuda.h"

static cuda_device *of(weft_device *base) { return (cuda_device *)base; }
static cu_pointer at(const void *memory) { return (cu_pointer)(uintptr_t)memory; }

static int enter(weft_device *base) { return of(base)->api.cuCtxSetCurrent(of(base)->context); }
static int allocate(weft_device *base, size_t bytes, void **out_memory) {
    cu_pointer memory = 0;
    cu_result result = of(base)->api.cuMemAlloc(&memory, bytes);
    *out_memory = (void *)(uintptr_t)memory;
    return result;
}
static int release(weft_device *base, void *memory) { return of(base)->api.cuMemFree(at(memory)); }
static int fill(weft_device *base, void *memory, size_t bytes) {
    return of(base)->api.cuMemsetD8Async(at(memory), 0xff, bytes, of(base)->stream);
}
static int pin(weft_device *base, size_t bytes, void **out_memory) {
    return of(base)->api.cuMemHostAlloc(out_memory, bytes, 0);
}
static int unpin(weft_device *base, void *memory) { return of(base)->api.cuMemFreeHost(memory); }
static int send(weft_device *base, void *to, const void *from, size_t bytes) {
    return of(base)->api.cuMemcpyHtoDAsync(at(to), from, bytes, of(base)->stream);
}
static int fetch(weft_device *base, void *to, const void *from, size_t bytes) {
    return of(base)->api.cuMemcpyDtoHAsync(to, at(from), bytes, of(base)->stream);
}
static int move(weft_device *base, void *to, const void *from, size_t bytes) {
    return of(base)->api.cuMemcpyDtoDAsync(at(to), at(from), bytes, of(base)->stream);
}
static int wait(weft_device *base) { return of(base)->api.cuStreamSynchronize(of(base)->stream); }
static int make_mark(weft_device *base, void **out_mark) {
    cu_event event = NULL;
    cu_result result = of(base)->api.cuEventCreate(&event, 0);
    *out_mark = event;
    return result;
}
static int drop_mark(weft_device *base, void *mark) { return of(base)->api.cuEventDestroy(mark); }
static int set_mark(weft_device *base, void *mark) { return of(base)->api.cuEventRecord(mark, of(base)->stream); }
static int wait_mark(weft_device *base, void *mark) { return of(base)->api.cuEventSynchronize(mark); }
static int between(weft_device *base, void *from, void *to, float *out_ms) {
    return of(base)->api.cuEventElapsedTime(out_ms, from, to);
}
static weft_status status(const weft_device *base, int result, const char *what) {
    return weft_cuda_status(&((const cuda_device *)base)->api, result, what);
}

const weft_gpu_calls weft_cuda_calls = {.full = CU_ERROR_OUT_OF_MEMORY,
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
