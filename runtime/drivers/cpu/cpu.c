/* The CPU driver: buffers are host memory, kernels are functions of a mapped code image, a launch splits [0, grid) over
   the device's pool.
   Invariant: slot t of `scratch` belongs to thread t of the run in progress; runs of one pool take turns, so the slots
   need no lock. A launch of one block without scratch stays on the calling thread and takes no turn. */
#include "runtime/drivers/cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "runtime/drivers/drivers.h"

enum { ALIGN = 64, PIECES_PER_THREAD = 8 };

typedef struct scratch_slot {
    void *memory;
    size_t bytes;
    char padding[ALIGN - sizeof(void *) - sizeof(size_t)]; /* no sharing of cache lines between threads */
} scratch_slot;

typedef struct cpu_device {
    weft_device base;
    weft_allocator allocator;
    weft_pool *pool;
    scratch_slot *scratch;
    int thread_count, level;
    bool forced; /* WEFT_CPU named the level: nothing lower runs either */
} cpu_device;

struct weft_module {
    weft_cpu_image image;
    weft_cpu_kernel *kernels;
    int kernel_count;
};

static void free_aligned(weft_allocator allocator, void *memory, size_t bytes) {
    if (memory) allocator.resize(allocator.self, memory, bytes, 0, ALIGN);
}

static void cpu_free_scratch(void *self, int thread, int64_t lo, int64_t hi) {
    cpu_device *device = self;
    (void)thread;
    (void)lo;
    (void)hi;
    for (int i = 0; i < device->thread_count; i++) {
        free_aligned(device->allocator, device->scratch[i].memory, device->scratch[i].bytes);
        device->scratch[i] = (scratch_slot){0};
    }
}

static void cpu_destroy(cpu_device *device) {
    weft_allocator allocator = device->allocator;
    weft_pool_release(device->pool);
    if (device->scratch) cpu_free_scratch(device, 0, 0, 0);
    weft_free(allocator, device->scratch, (size_t)device->thread_count * sizeof *device->scratch);
    weft_free(allocator, device, sizeof *device);
}

static weft_status choose_level(cpu_device *device) {
    const char *wanted = weft_env_get(WEFT_ENV_CPU);
    device->level = weft_cpu_level();
    if (!wanted[0]) return NULL;
    int level = weft_cpu_level_of(wanted);
    if (!level) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "WEFT_CPU=%s is no CPU variant", wanted);
    if (level > device->level)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "WEFT_CPU=%s, but this CPU is %s", wanted,
                           weft_cpu_level_name(device->level));
    device->level = level;
    device->forced = true;
    return NULL;
}

static weft_status cpu_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    if (ordinal) return WEFT_STATUS(WEFT_NOT_FOUND, "there is no cpu:%d", ordinal);
    cpu_device *device = weft_allocate(context->allocator, sizeof *device);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    device->allocator = context->allocator;
    device->thread_count = context->thread_count;
    device->scratch = weft_allocate(context->allocator, (size_t)device->thread_count * sizeof *device->scratch);
    weft_status status =
        device->scratch ? choose_level(device) : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    if (!status) status = weft_pool_create(context->allocator, device->thread_count, &device->pool);
    if (status)
        cpu_destroy(device);
    else
        *out_device = &device->base;
    return status;
}

static void cpu_close(weft_device *device) { cpu_destroy((cpu_device *)device); }

static void cpu_info(const weft_device *device, weft_device_info *out_info) {
    const cpu_device *cpu = (const cpu_device *)device;
    *out_info = (weft_device_info){.driver = "cpu", .ordinal = device->ordinal};
    weft_cpu_brand(out_info->name, sizeof out_info->name);
    const char *arch = weft_cpu_level_name(cpu->level);
    memcpy(out_info->arch, arch, strlen(arch) + 1);
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) out_info->memory_bytes = (int64_t)pages * page_bytes;
}

static int cpu_match(const weft_device *device, const char *arch) {
    const cpu_device *cpu = (const cpu_device *)device;
    int level = weft_cpu_level_of(arch);
    return level > cpu->level || (cpu->forced && level != cpu->level) ? 0 : level;
}

static void cpu_unload(weft_device *device, weft_module *module) {
    if (!module) return;
    weft_allocator allocator = device->context->allocator;
    weft_cpu_image_unmap(&module->image);
    weft_free(allocator, module->kernels, (size_t)module->kernel_count * sizeof *module->kernels);
    weft_free(allocator, module, sizeof *module);
}

static weft_status cpu_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                            weft_module **out_module) {
    weft_allocator allocator = device->context->allocator;
    *out_module = NULL;
    weft_module *module = weft_allocate(allocator, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    module->kernel_count = program->kernel_count;
    module->kernels = weft_allocate(allocator, (size_t)module->kernel_count * sizeof *module->kernels);
    weft_status status = module->kernels ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    if (!status && program->kernel_count) status = weft_cpu_image_map(code->data, code->bytes, &module->image);
    for (int i = 0; i < program->kernel_count && !status; i++) {
        void *address;
        status = weft_cpu_image_find(&module->image, program->kernels[i].name, &address);
        memcpy(&module->kernels[i], &address, sizeof address);
    }
    if (status)
        cpu_unload(device, module);
    else
        *out_module = module;
    return status;
}

static weft_status cpu_allocate(weft_device *device, size_t bytes, void **out_memory) {
    weft_allocator allocator = device->context->allocator;
    *out_memory = allocator.resize(allocator.self, NULL, 0, bytes ? bytes : 1, ALIGN);
    return *out_memory ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
}

static void cpu_free(weft_device *device, void *memory, size_t bytes) {
    free_aligned(device->context->allocator, memory, bytes ? bytes : 1);
}

static weft_status cpu_copy(weft_device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    if (bytes) memmove(to, from, bytes);
    return NULL;
}

typedef struct cpu_run {
    cpu_device *device;
    weft_cpu_kernel kernel;
    const weft_launch *launch;
    atomic_bool failed;
} cpu_run;

static bool reserve_scratch(cpu_device *device, scratch_slot *slot, size_t bytes) {
    if (bytes <= slot->bytes) return true;
    free_aligned(device->allocator, slot->memory, slot->bytes);
    slot->bytes = 0;
    slot->memory = device->allocator.resize(device->allocator.self, NULL, 0, bytes, ALIGN);
    if (slot->memory) slot->bytes = bytes;
    return slot->memory != NULL;
}

static void cpu_piece(void *self, int thread, int64_t lo, int64_t hi) {
    cpu_run *run = self;
    scratch_slot *slot = &run->device->scratch[thread];
    if (run->launch->scratch_bytes && !reserve_scratch(run->device, slot, (size_t)run->launch->scratch_bytes))
        atomic_store_explicit(&run->failed, true, memory_order_relaxed);
    else
        run->kernel(run->launch->buffers, run->launch->extents, lo, hi, slot->memory);
}

/* Few blocks are split evenly, one piece a thread. Many are taken in smaller pieces, so that a thread that the system
   delays, or blocks that cost more than others, hold up one small piece only. */
static int64_t choose_chunk(const cpu_device *device, int64_t grid) {
    int64_t pieces = (int64_t)device->thread_count * PIECES_PER_THREAD;
    return grid >= 2 * pieces ? (grid + pieces - 1) / pieces : 0;
}

static weft_status cpu_launch(weft_device *device, weft_module *module, const weft_launch *launch) {
    weft_cpu_kernel kernel = module->kernels[launch->kernel];
    if (launch->grid == 1 && !launch->scratch_bytes) {
        kernel(launch->buffers, launch->extents, 0, 1, NULL);
        return NULL;
    }
    cpu_run run = {.device = (cpu_device *)device, .kernel = kernel, .launch = launch};
    weft_pool_run(run.device->pool, launch->grid, choose_chunk(run.device, launch->grid), cpu_piece, &run);
    if (atomic_load_explicit(&run.failed, memory_order_relaxed))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %lld bytes of scratch per thread",
                           (long long)launch->scratch_bytes);
    return NULL;
}

static weft_status cpu_synchronise(weft_device *device) {
    (void)device;
    return NULL;
}

static void cpu_trim(weft_device *device) {
    cpu_device *cpu = (cpu_device *)device;
    weft_pool_run(cpu->pool, 1, 0, cpu_free_scratch, cpu); /* in turn, so that no launch is using it */
}

const weft_driver weft_driver_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .match = cpu_match,
    .load = cpu_load,
    .unload = cpu_unload,
    .allocate = cpu_allocate,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .launch = cpu_launch,
    .synchronise = cpu_synchronise,
    .trim = cpu_trim,
    .host_memory = true,
};
