/* A libcuda.so.1 whose cards are the interpreter: two devices, everything done when its call returns. Code is taken as
   PTX; the device says that it is of a generation for which no machine code is made (11.0), so that drivers come with
   that. A launch that fails leaves the device lost, as a card does; its reason is the error's text. No tensor
   maps: their function is missing. Read next: graph.c. Prototypes: runtime/drivers/cuda/api.h, from NVIDIA's "CUDA
   Driver API". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/ptx/library/card.h"

enum { MAJOR = 11, MINOR = 0, SIZES = 4096 };

typedef struct card_event {
    struct timespec time;
} card_event;

typedef struct card {
    ptx_machine *machine;
    int lost, launches;
    char stream; /* its address is the stream */
} card;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static card cards[CARDS]; /* the address of one is its context */
static _Thread_local card *current;
static card_function *functions;
static char message[600];

int card_enter(void) {
    (void)pthread_mutex_lock(&lock);
    return current ? current->lost : INVALID_CONTEXT;
}
int card_enter_stream(const void *stream) {
    int result = card_enter();
    return result || stream == &current->stream ? result : INVALID_HANDLE;
}
int card_current(void) { return (int)(current - cards); }
EXPORT int card_launches(int number) { return cards[number].launches; }
int card_leave(int result) {
    (void)pthread_mutex_unlock(&lock);
    return result;
}
static int refuse(weft_status status, int result) {
    if (!status) return CU_SUCCESS;
    (void)weft_status_format(status, message, sizeof message);
    weft_status_release(status);
    return result;
}

/* -- devices */

EXPORT int cuInit(unsigned flags) {
    (void)card_enter();
    for (int i = 0; i < CARDS; i++) {
        if (!cards[i].machine && ptx_machine_create(&cards[i].machine)) return card_leave(CU_ERROR_OUT_OF_MEMORY);
        ptx_machine_on_condition(cards[i].machine, card_set_condition, NULL);
    }
    return card_leave(flags ? INVALID_VALUE : CU_SUCCESS);
}
/* The run-time compiler asks for it when it finds a driver. */
EXPORT int cuGetExportTable(const void **table, const void *id) {
    (void)id;
    *table = NULL;
    return NOT_FOUND;
}
static int version_told = 13000;
EXPORT void card_set_version(int version) { version_told = version; }
EXPORT int cuDriverGetVersion(int *version) {
    *version = version_told;
    return CU_SUCCESS;
}
EXPORT int cuGetErrorName(int error, const char **out) {
    *out = error == LAUNCH_FAILED            ? "CUDA_ERROR_LAUNCH_FAILED"
           : error == INVALID_IMAGE          ? "CUDA_ERROR_INVALID_IMAGE"
           : error == NOT_FOUND              ? "CUDA_ERROR_NOT_FOUND"
           : error == CU_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                             : "CUDA_ERROR_INVALID_VALUE";
    return CU_SUCCESS;
}
EXPORT int cuGetErrorString(int error, const char **out) {
    *out = (error == LAUNCH_FAILED || error == INVALID_IMAGE) && message[0] ? message : "no more is known";
    return CU_SUCCESS;
}
EXPORT int cuDeviceGetCount(int *count) {
    *count = CARDS;
    return CU_SUCCESS;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < 0 || ordinal >= CARDS ? INVALID_VALUE : CU_SUCCESS;
}
EXPORT int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    (void)snprintf(name, (size_t)length, "PTX interpreter");
    return CU_SUCCESS;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case CU_ATTRIBUTE_MAJOR: *value = MAJOR; break;
    case CU_ATTRIBUTE_MINOR: *value = MINOR; break;
    case CU_ATTRIBUTE_MULTIPROCESSORS: *value = 4; break;
    default: return INVALID_VALUE;
    }
    return CU_SUCCESS;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 32;
    return CU_SUCCESS;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &cards[device];
    return cards[device].lost;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return CU_SUCCESS;
}
EXPORT int cuCtxSetCurrent(void *context) {
    current = context;
    return CU_SUCCESS;
}

/* -- code */

EXPORT int cuModuleLoadData(ptx_module **out, const void *image) {
    int result = card_enter();
    if (result) return card_leave(result);
    if (!memcmp(image, "\177ELF", 4)) return card_leave(INVALID_IMAGE);
    return card_leave(refuse(ptx_module_load(current->machine, image, out), INVALID_IMAGE));
}
EXPORT int cuModuleUnload(ptx_module *module) {
    (void)card_enter();
    for (card_function **at = &functions; *at;) {
        card_function *f = *at;
        if (f->module != module) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        free(f);
    }
    ptx_module_unload(module);
    return card_leave(CU_SUCCESS);
}
EXPORT int cuModuleGetFunction(card_function **out, ptx_module *module, const char *name) {
    int result = card_enter();
    if (result) return card_leave(result);
    if (!ptx_module_has(module, name) || strlen(name) >= NAME_BYTES) return card_leave(NOT_FOUND);
    card_function *f = calloc(1, sizeof *f);
    if (!f) return card_leave(CU_ERROR_OUT_OF_MEMORY);
    f->module = module, f->card = card_current(), f->next = functions, functions = f;
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    *out = f;
    return card_leave(CU_SUCCESS);
}
EXPORT int cuFuncSetAttribute(card_function *f, int attribute, int value) {
    (void)f, (void)attribute, (void)value;
    return CU_SUCCESS;
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, card_function *f) {
    (void)attribute, (void)f;
    *value = 0;
    return CU_SUCCESS;
}
int card_launch(const card_function *f, unsigned blocks, unsigned threads, unsigned shared_bytes, void **parameters) {
    ptx_launch launch = {.kernel = f->name,
                         .blocks = blocks,
                         .threads = threads,
                         .shared_bytes = shared_bytes,
                         .parameters = parameters};
    if (f->card != card_current()) return INVALID_HANDLE;
    current->launches++;
    return current->lost = refuse(ptx_machine_launch(f->module, &launch), LAUNCH_FAILED);
}
EXPORT int cuLaunchKernel(card_function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    int result = card_enter_stream(stream);
    if (result) return card_leave(result);
    if (gx == 0 || gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) return card_leave(INVALID_VALUE);
    return card_leave(card_launch(f, gx, bx, shared_bytes, parameters));
}

/* -- memory */

static struct {
    void *memory;
    size_t bytes;
    card *owner;
} blocks[SIZES];

EXPORT int cuMemAlloc_v2(cu_pointer *out, size_t bytes) {
    int result = card_enter(), at = 0;
    void *memory = NULL;
    if (result) return card_leave(result);
    while (at < SIZES && blocks[at].memory) at++;
    if (at == SIZES || !bytes || bytes > (size_t)1 << 32 || posix_memalign(&memory, 256, bytes))
        return card_leave(CU_ERROR_OUT_OF_MEMORY);
    memset(memory, 0xa5, bytes);
    blocks[at].memory = memory, blocks[at].bytes = bytes, blocks[at].owner = current;
    *out = (cu_pointer)(uintptr_t)memory;
    return card_leave(refuse(ptx_machine_map(current->machine, memory, bytes, true), CU_ERROR_OUT_OF_MEMORY));
}
EXPORT int cuMemFree_v2(cu_pointer pointer) {
    (void)card_enter();
    void *memory = (void *)(uintptr_t)pointer; /* NOLINT: the card's addresses are the host's */
    for (int i = 0; i < SIZES; i++) {
        if (blocks[i].memory != memory || !memory) continue;
        ptx_machine_unmap(blocks[i].owner->machine, memory);
        free(memory);
        blocks[i].memory = NULL;
        return card_leave(CU_SUCCESS);
    }
    return card_leave(INVALID_VALUE);
}
EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    *out = malloc(bytes);
    return *out ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}
EXPORT int cuMemFreeHost(void *memory) {
    free(memory);
    return CU_SUCCESS;
}

bool card_holds(cu_pointer pointer, size_t bytes) {
    for (int i = 0; i < SIZES; i++) {
        uint64_t first = (uint64_t)(uintptr_t)blocks[i].memory;
        if (blocks[i].memory && blocks[i].owner == current && pointer >= first && pointer - first <= blocks[i].bytes &&
            bytes <= blocks[i].bytes - (pointer - first))
            return true;
    }
    return false;
}

EXPORT int cuMemsetD8Async(cu_pointer to, unsigned char value, size_t bytes, void *stream) {
    int result = card_enter_stream(stream);
    if (!result && !card_holds(to, bytes)) result = INVALID_VALUE;
    if (!result) memset((void *)(uintptr_t)to, value, bytes); /* NOLINT */
    return card_leave(result);
}
/* Copies between host and card that were asked for one by one, outside of graphs. */
static int transfers;
EXPORT int card_transfers(void) { return transfers; }

EXPORT int cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, void *stream) {
    transfers++;
    int result = card_enter_stream(stream);
    if (!result && !card_holds(to, bytes)) result = INVALID_VALUE;
    if (!result) memcpy((void *)(uintptr_t)to, from, bytes); /* NOLINT */
    return card_leave(result);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, void *stream) {
    transfers++;
    int result = card_enter_stream(stream);
    if (!result && !card_holds(from, bytes)) result = INVALID_VALUE;
    if (!result) memcpy(to, (const void *)(uintptr_t)from, bytes); /* NOLINT */
    return card_leave(result);
}
EXPORT int cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, void *stream) {
    int result = card_enter_stream(stream);
    if (!result && (!card_holds(from, bytes) || !card_holds(to, bytes))) result = INVALID_VALUE;
    if (!result) memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes); /* NOLINT */
    return card_leave(result);
}

/* -- streams, events */

EXPORT int cuStreamCreate(void **out, unsigned flags) {
    (void)flags;
    int result = card_enter();
    if (!result) *out = &current->stream;
    return card_leave(result);
}
EXPORT int cuStreamDestroy_v2(void *stream) {
    (void)stream;
    return CU_SUCCESS;
}
EXPORT int cuStreamSynchronize(void *stream) { return card_leave(card_enter_stream(stream)); }
EXPORT int cuEventCreate(card_event **out, unsigned flags) {
    (void)flags;
    *out = calloc(1, sizeof **out);
    return *out ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}
EXPORT int cuEventDestroy_v2(card_event *event) {
    free(event);
    return CU_SUCCESS;
}
EXPORT int cuEventRecord(card_event *event, void *stream) {
    (void)clock_gettime(CLOCK_MONOTONIC, &event->time);
    return card_leave(card_enter_stream(stream));
}
EXPORT int cuEventSynchronize(card_event *event) {
    (void)event;
    return card_leave(card_enter());
}
EXPORT int cuEventElapsedTime(float *ms, card_event *from, card_event *to) {
    double ns = (double)(to->time.tv_sec - from->time.tv_sec) * 1e9 + (double)(to->time.tv_nsec - from->time.tv_nsec);
    *ms = (float)(ns * 1e-6);
    return CU_SUCCESS;
}
