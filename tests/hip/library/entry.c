/* The entry points, with the prototypes of hip_runtime_api.h (spelt without its types). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hip/library/state.h"

#define ENTER                                                                                                          \
    int result = fake_enter(__func__);                                                                                 \
    if (result) return fake_leave(result)
#define ENTER_DEVICE                                                                                                   \
    ENTER;                                                                                                             \
    if (fake_state.fault) return fake_leave(fake_state.fault)

/* -- devices */

EXPORT int hipInit(unsigned flags) {
    ENTER;
    return fake_leave(flags ? INVALID_VALUE : fake_start());
}
EXPORT int hipRuntimeGetVersion(int *version) {
    ENTER;
    *version = 60000000;
    return fake_leave(SUCCESS);
}
EXPORT int hipGetDeviceCount(int *count) {
    ENTER;
    result = fake_start();
    *count = fake_state.devices;
    return fake_leave(result);
}
EXPORT int hipSetDevice(int device) {
    ENTER;
    return fake_leave(device < 0 || device >= fake_state.devices ? INVALID_DEVICE : SUCCESS);
}
EXPORT int hipDeviceGetName(char *name, int length, int device) {
    ENTER;
    (void)device;
    (void)snprintf(name, (size_t)length, "emulated %s", fake_state.arch);
    return fake_leave(SUCCESS);
}
EXPORT int hipDeviceTotalMem(size_t *bytes, int device) {
    ENTER;
    (void)device;
    *bytes = (size_t)1 << 32;
    return fake_leave(SUCCESS);
}
/* Of version 6 only what the name and the architecture need. */
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device) {
    ENTER;
    (void)device;
    (void)snprintf(properties, 256, "AMD gfx (emulated)");
    (void)snprintf((char *)properties + 1160, 256, "%s:sramecc+:xnack-", fake_state.arch);
    return fake_leave(SUCCESS);
}
EXPORT const char *hipGetErrorName(int error) {
    switch (error) {
    case SUCCESS: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case NO_DEVICE: return "hipErrorNoDevice";
    case INVALID_DEVICE: return "hipErrorInvalidDevice";
    case INVALID_IMAGE: return "hipErrorInvalidImage";
    case NOT_FOUND: return "hipErrorNotFound";
    case ILLEGAL_STATE: return "hipErrorIllegalState";
    case LAUNCH_FAILURE: return "hipErrorLaunchFailure";
    case CAPTURE_UNSUPPORTED: return "hipErrorStreamCaptureUnsupported";
    default: return "hipErrorUnknown";
    }
}
EXPORT const char *hipGetErrorString(int error) {
    return error == LAUNCH_FAILURE && fake_state.message[0] ? fake_state.message : hipGetErrorName(error);
}

/* -- code */

EXPORT int hipModuleLoadData(fake_module **out, const void *image) {
    ENTER_DEVICE;
    *out = NULL;
    size_t bytes = fake_elf_bytes(image);
    if (!bytes) return fake_leave(INVALID_IMAGE);
    fake_module *m = calloc(1, sizeof *m);
    if (m) m->copy = malloc(bytes);
    if (!m || !m->copy) {
        free(m);
        return fake_leave(OUT_OF_MEMORY);
    }
    memcpy(m->copy, image, bytes);
    m->data = m->copy, m->bytes = bytes;
    weft_status status = amdgcn_code_load(fake_state.machine, m->data, bytes, &m->code);
    if (status) {
        (void)weft_status_format(status, fake_state.message, sizeof fake_state.message);
        weft_status_release(status);
        free(m->copy);
        free(m);
        return fake_leave(INVALID_IMAGE);
    }
    fake_state.modules++;
    *out = m;
    return fake_leave(SUCCESS);
}
EXPORT int hipModuleUnload(fake_module *m) {
    ENTER;
    fake_drain_all();
    while (m->functions) {
        fake_function *next = m->functions->next;
        free(m->functions);
        m->functions = next;
    }
    amdgcn_code_unload(m->code);
    free(m->copy);
    free(m);
    fake_state.modules--;
    return fake_leave(SUCCESS);
}
EXPORT int hipModuleGetFunction(fake_function **out, fake_module *m, const char *name) {
    ENTER_DEVICE;
    *out = NULL;
    size_t argument_bytes = 0;
    if (strlen(name) >= NAME_BYTES || !fake_elf_kernel(m->data, m->bytes, name, &argument_bytes))
        return fake_leave(NOT_FOUND);
    fake_function *f = argument_bytes <= ARGUMENTS_BYTES ? calloc(1, sizeof *f) : NULL;
    if (!f) return fake_leave(OUT_OF_MEMORY);
    *f = (fake_function){.owner = m, .argument_bytes = argument_bytes, .next = m->functions};
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    m->functions = f;
    *out = f;
    return fake_leave(SUCCESS);
}
EXPORT int hipModuleLaunchKernel(fake_function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared_bytes, fake_stream *s, void **parameters, void **extra) {
    ENTER_DEVICE;
    if (!f || !s || gy != 1 || gz != 1 || by != 1 || bz != 1 || extra || gx == 0 || bx == 0 || bx > 1024 ||
        (uint64_t)gx * bx > UINT32_MAX)
        return fake_leave(INVALID_VALUE);
    fake_command one = {.function = f, .blocks = gx, .threads = bx, .shared_bytes = shared_bytes};
    for (size_t i = 0; 8 * i < f->argument_bytes; i++) memcpy(one.arguments + 8 * i, parameters[i], 8);
    return fake_leave(fake_queue(s, &one));
}

/* -- memory */

static int allocate(void **out, size_t bytes, bool device) {
    *out = NULL;
    void *memory = NULL;
    if (bytes == 0 || bytes > (size_t)1 << 32 || posix_memalign(&memory, 256, bytes)) return OUT_OF_MEMORY;
    memset(memory, 0xa5, bytes);
    int result = fake_block_add(memory, bytes, device);
    if (result)
        free(memory);
    else
        *out = memory;
    return result;
}
EXPORT int hipMalloc(void **out, size_t bytes) {
    ENTER_DEVICE;
    return fake_leave(allocate(out, bytes, true));
}
EXPORT int hipHostMalloc(void **out, size_t bytes, unsigned flags) {
    ENTER;
    (void)flags;
    return fake_leave(allocate(out, bytes, false));
}
static int release(void *memory) { /* waits for the device */
    fake_drain_all();
    if (!fake_block_remove(memory)) return INVALID_VALUE;
    free(memory);
    return SUCCESS;
}
EXPORT int hipFree(void *memory) {
    ENTER;
    return fake_leave(release(memory));
}
EXPORT int hipHostFree(void *memory) {
    ENTER;
    return fake_leave(release(memory));
}
EXPORT int hipMemsetAsync(void *to, int value, size_t bytes, fake_stream *s) {
    ENTER_DEVICE;
    fake_command one = {.to = to, .bytes = bytes, .fills = true, .value = value};
    return fake_leave(fake_block_holds(to, bytes) ? fake_queue(s, &one) : INVALID_VALUE);
}
EXPORT int hipMemcpyHtoDAsync(void *to, void *from, size_t bytes, fake_stream *s) {
    ENTER_DEVICE;
    if (!fake_block_holds(to, bytes)) return fake_leave(INVALID_VALUE);
    fake_command one = {.to = to, .from = from, .bytes = bytes, .staged = malloc(bytes + 1)};
    if (!one.staged) return fake_leave(OUT_OF_MEMORY);
    memcpy(one.staged, from, bytes);
    return fake_leave(fake_queue(s, &one));
}
EXPORT int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, fake_stream *s) {
    ENTER_DEVICE;
    fake_command one = {.to = to, .from = from, .bytes = bytes};
    return fake_leave(fake_block_holds(from, bytes) ? fake_queue(s, &one) : INVALID_VALUE);
}
EXPORT int hipMemcpyDtoDAsync(void *to, void *from, size_t bytes, fake_stream *s) {
    ENTER_DEVICE;
    fake_command one = {.to = to, .from = from, .bytes = bytes};
    return fake_leave(fake_block_holds(from, bytes) && fake_block_holds(to, bytes) ? fake_queue(s, &one)
                                                                                   : INVALID_VALUE);
}

/* -- streams, events, graphs */

EXPORT int hipStreamCreateWithFlags(fake_stream **out, unsigned flags) {
    ENTER_DEVICE;
    *out = flags <= 1 ? calloc(1, sizeof **out) : NULL;
    if (!*out) return fake_leave(INVALID_VALUE);
    (*out)->next = fake_state.streams;
    fake_state.streams = *out;
    return fake_leave(SUCCESS);
}
EXPORT int hipStreamDestroy(fake_stream *s) {
    ENTER;
    if (s->capturing) return fake_leave(ILLEGAL_STATE);
    (void)fake_drain(s);
    fake_clear(&s->queue);
    fake_clear(&s->captured);
    for (fake_stream **at = &fake_state.streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    free(s);
    return fake_leave(SUCCESS);
}
EXPORT int hipStreamSynchronize(fake_stream *s) {
    ENTER_DEVICE;
    return fake_leave(s->capturing ? CAPTURE_UNSUPPORTED : fake_drain(s));
}
EXPORT int hipEventCreateWithFlags(fake_event **out, unsigned flags) {
    ENTER_DEVICE;
    (void)flags;
    *out = calloc(1, sizeof **out);
    fake_state.events += *out != NULL;
    return fake_leave(*out ? SUCCESS : OUT_OF_MEMORY);
}
EXPORT int hipEventDestroy(fake_event *e) {
    ENTER;
    if (e->pending) fake_drain_all();
    free(e);
    fake_state.events--;
    return fake_leave(SUCCESS);
}
EXPORT int hipEventRecord(fake_event *e, fake_stream *s) {
    ENTER_DEVICE;
    e->recorded = e->pending = true;
    fake_command one = {.mark = e};
    return fake_leave(fake_queue(s, &one));
}
EXPORT int hipEventSynchronize(fake_event *e) {
    ENTER_DEVICE;
    if (!e->recorded) return fake_leave(INVALID_VALUE);
    if (e->pending) fake_drain_all();
    return fake_leave(fake_state.fault);
}
EXPORT int hipEventElapsedTime(float *ms, fake_event *from, fake_event *to) {
    ENTER_DEVICE;
    if (!from->recorded || !to->recorded || from->pending || to->pending) return fake_leave(INVALID_VALUE);
    *ms = (float)((double)(to->time_ns - from->time_ns) / 1e6);
    return fake_leave(SUCCESS);
}
EXPORT int hipStreamBeginCapture(fake_stream *s, int mode) {
    ENTER_DEVICE;
    if (s->capturing || mode < 0 || mode > 2) return fake_leave(ILLEGAL_STATE);
    s->capturing = true;
    return fake_leave(SUCCESS);
}
EXPORT int hipStreamEndCapture(fake_stream *s, fake_commands **out) {
    int failure = fake_enter(__func__);
    *out = NULL;
    if (failure || fake_state.fault) { /* a failed end is one too */
        s->capturing = false;
        fake_clear(&s->captured);
        return fake_leave(failure ? failure : fake_state.fault);
    }
    if (!s->capturing) return fake_leave(ILLEGAL_STATE);
    s->capturing = false;
    fake_commands *graph = malloc(sizeof *graph);
    if (!graph) return fake_leave(OUT_OF_MEMORY);
    *graph = s->captured;
    memset(&s->captured, 0, sizeof s->captured);
    fake_state.graphs++;
    *out = graph;
    return fake_leave(SUCCESS);
}
EXPORT int hipGraphInstantiate(fake_commands **out, fake_commands *graph, void **node, char *log, size_t log_bytes) {
    ENTER_DEVICE;
    (void)node, (void)log, (void)log_bytes;
    *out = calloc(1, sizeof **out);
    if (!*out) return fake_leave(OUT_OF_MEMORY);
    (*out)->list = malloc((graph->count + 1) * sizeof *graph->list);
    if (graph->count) memcpy((*out)->list, graph->list, graph->count * sizeof *graph->list);
    (*out)->count = (*out)->capacity = graph->count;
    fake_state.graphs++;
    return fake_leave(SUCCESS);
}
EXPORT int hipGraphLaunch(fake_commands *exec, fake_stream *s) {
    ENTER_DEVICE;
    return fake_leave(fake_repeat(s, exec));
}
static void release_graph(fake_commands *graph) {
    fake_clear(graph);
    free(graph);
    fake_state.graphs--;
}
EXPORT int hipGraphExecDestroy(fake_commands *exec) {
    ENTER;
    release_graph(exec);
    return fake_leave(SUCCESS);
}
EXPORT int hipGraphDestroy(fake_commands *graph) {
    ENTER;
    release_graph(graph);
    return fake_leave(SUCCESS);
}
