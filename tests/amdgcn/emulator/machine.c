/* Launches: blocks one after the other, wavefronts of a block from barrier to barrier; memory that kernels may see.
   Initial registers as the kernel's descriptor asks for them. Read next: decode.c, then a file of handlers.
   Source: "User Guide for AMDGPU Backend", Initial Kernel Execution State; Implicit Arguments of code object 5. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdgcn/emulator/internal.h"

enum {
    SHARED_MAX = 64 << 10,
    SCRATCH_MAX = 64 << 10, /* of a lane */
    THREADS_MAX = 1024,
    HIDDEN_BYTES = 256,
    PACKET_BYTES = 64,
    /* kernel_code_properties, in the order of their registers */
    USES_PRIVATE_BUFFER = 1 << 0,
    USES_DISPATCH = 1 << 1,
    USES_QUEUE = 1 << 2,
    USES_ARGUMENTS = 1 << 3,
    USES_DISPATCH_ID = 1 << 4,
    USES_FLAT_SCRATCH = 1 << 5,
    USES_PRIVATE_SIZE = 1 << 6,
    USES_WAVE32 = 1 << 10,
    DENORMALS_KEPT = 3
};

static const char *const arches[] = {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1200"};
static const int generations[] = {9, 9, 10, 11, 12};

weft_status amdgcn_machine_create(const char *arch, amdgcn_machine **out_machine) {
    *out_machine = NULL;
    for (size_t i = 0; i < sizeof arches / sizeof *arches; i++) {
        if (strcmp(arch, arches[i])) continue;
        amdgcn_machine *machine = calloc(1, sizeof *machine);
        if (!machine) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a machine");
        (void)snprintf(machine->arch, sizeof machine->arch, "%s", arch);
        machine->generation = generations[i];
        machine->limit = UINT64_C(1) << 32;
        *out_machine = machine;
        return NULL;
    }
    return WEFT_STATUS(WEFT_UNSUPPORTED, "no emulation of %s", arch);
}

void amdgcn_machine_release(amdgcn_machine *machine) {
    if (!machine) return;
    weft_status_release(machine->failure);
    free(machine->ranges.list);
    free(machine->waves);
    free(machine);
}

amdgcn_counts amdgcn_machine_counts(const amdgcn_machine *machine) { return machine->counts; }

void amdgcn_machine_set_limit(amdgcn_machine *machine, uint64_t instructions) { machine->limit = instructions; }

/* -- memory */

weft_status amdgcn_machine_map(amdgcn_machine *machine, void *memory, size_t bytes, bool writable) {
    return ranges_add(&machine->ranges, memory, bytes, writable);
}

void amdgcn_machine_unmap(amdgcn_machine *machine, void *memory) { ranges_remove(&machine->ranges, memory); }

uint8_t *amdgcn_global(amdgcn_wave *wave, int lane, uint64_t address, unsigned bytes, bool writes) {
    const memory_range *range = ranges_find(&wave->machine->ranges, address, bytes);
    if (range && (range->writable || !writes)) return (uint8_t *)(uintptr_t)address; /* NOLINT: the host's addresses */
    if (range)
        amdgcn_fail(wave, lane, "a store at %#llx, which is read only", (unsigned long long)address);
    else
        amdgcn_fail(wave, lane, "%s of %u bytes at %#llx, outside of every buffer", writes ? "a store" : "a load",
                    bytes, (unsigned long long)address);
    return NULL;
}

void amdgcn_fail(amdgcn_wave *wave, int lane, const char *format, ...) {
    char what[300], where[40] = "";
    va_list list;
    amdgcn_machine *machine = wave->machine;
    wave->stopped = FAILED;
    if (machine->failure) return;
    va_start(list, format);
    (void)vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (lane >= 0) (void)snprintf(where, sizeof where, " lane %d,", lane);
    const amdgcn_instruction *i = machine->current;
    uint64_t start = 0;
    for (int k = 0; k < wave->code->kernel_count; k++)
        if (!strcmp(wave->code->kernels[k].name, machine->launch->kernel))
            start = wave->code->kernels[k].descriptor.entry;
    machine->failure = WEFT_STATUS(WEFT_INVALID_DATA, "kernel %s on %s: %s (block %lld, wavefront %d,%s at +%#llx: %s)",
                                   machine->launch->kernel, machine->arch, what, (long long)wave->block->index,
                                   wave->index, where, (unsigned long long)(wave->pc - start), i ? i->text : "?");
}

/* -- launches */

typedef struct preparation {
    const amdgcn_kernel *kernel;
    uint8_t *arguments;
    uint8_t packet[PACKET_BYTES];
    size_t argument_bytes;
    int lanes, wave_count;
} preparation;

static weft_status check_kernel(const amdgcn_machine *machine, const amdgcn_kernel *kernel,
                                const amdgcn_launch *launch) {
    const amdgcn_descriptor *d = &kernel->descriptor;
    if (launch->threads < 1 || launch->threads > THREADS_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "blocks of %d threads", launch->threads);
    if (d->shared_bytes + launch->shared_bytes > SHARED_MAX)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%lld bytes of shared memory, of %d",
                           (long long)(d->shared_bytes + launch->shared_bytes), SHARED_MAX);
    if (d->scratch_bytes > SCRATCH_MAX)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%u bytes of scratch a lane, of %d", d->scratch_bytes, SCRATCH_MAX);
    unsigned denormals32 = d->resource1 >> 16 & 3, denormals64 = d->resource1 >> 18 & 3,
             rounding = d->resource1 >> 12 & 15;
    if (denormals32 != DENORMALS_KEPT || denormals64 != DENORMALS_KEPT || rounding)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "float modes: denormals %u %u, rounding %u", denormals32, denormals64,
                           rounding);
    if (machine->generation == 9 && (d->properties & USES_WAVE32))
        return WEFT_STATUS(WEFT_INVALID_DATA, "wavefronts of 32 lanes");
    return NULL;
}

/* Behind the declared arguments lie hidden ones: counts and sizes of blocks, what remains zeros. */
static weft_status lay_arguments(preparation *p, const amdgcn_launch *launch) {
    size_t declared = p->kernel->descriptor.argument_bytes, hidden = (launch->argument_bytes + 7) / 8 * 8;
    p->argument_bytes = hidden + HIDDEN_BYTES;
    if (declared > p->argument_bytes || (declared < launch->argument_bytes))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%zu bytes of arguments for a kernel of %zu", launch->argument_bytes,
                           declared);
    if (declared > hidden && declared < hidden + HIDDEN_BYTES && declared - hidden < 24)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%zu bytes of arguments for a kernel of %zu", launch->argument_bytes,
                           declared);
    if (declared) p->argument_bytes = declared;
    p->arguments = aligned_alloc(64, (p->argument_bytes + 63) / 64 * 64);
    if (!p->arguments) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for arguments");
    memset(p->arguments, 0, p->argument_bytes);
    if (launch->argument_bytes) memcpy(p->arguments, launch->arguments, launch->argument_bytes);
    if (p->argument_bytes >= hidden + 24) {
        uint32_t blocks[3] = {(uint32_t)launch->blocks, 1, 1};
        uint16_t threads[3] = {(uint16_t)launch->threads, 1, 1};
        memcpy(p->arguments + hidden, blocks, sizeof blocks);
        memcpy(p->arguments + hidden + 12, threads, sizeof threads);
    }
    uint16_t sizes[3] = {(uint16_t)launch->threads, 1, 1};
    uint32_t grid[3] = {(uint32_t)(launch->blocks * launch->threads), 1, 1};
    uint64_t address = (uint64_t)(uintptr_t)p->arguments;
    memset(p->packet, 0, sizeof p->packet);
    memcpy(p->packet + 4, sizes, sizeof sizes);
    memcpy(p->packet + 12, grid, sizeof grid);
    memcpy(p->packet + 40, &address, sizeof address);
    return NULL;
}

static void set_user_registers(amdgcn_wave *w, const preparation *p, int *at) {
    const amdgcn_descriptor *d = &p->kernel->descriptor;
    uint64_t scratch = PRIVATE_APERTURE, packet = (uint64_t)(uintptr_t)p->packet,
             arguments = (uint64_t)(uintptr_t)p->arguments, none = 0;
    struct {
        unsigned bit;
        int words;
        const uint64_t *value;
    } rows[] = {{USES_PRIVATE_BUFFER, 4, &scratch}, {USES_DISPATCH, 2, &packet},  {USES_QUEUE, 2, &none},
                {USES_ARGUMENTS, 2, &arguments},    {USES_DISPATCH_ID, 2, &none}, {USES_FLAT_SCRATCH, 2, &none},
                {USES_PRIVATE_SIZE, 1, &none}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(d->properties & rows[i].bit)) continue;
        w->scalar[*at] = (uint32_t)*rows[i].value;
        if (rows[i].words > 1) w->scalar[*at + 1] = (uint32_t)(*rows[i].value >> 32);
        *at += rows[i].words;
    }
    unsigned words = d->preload & 127, first = d->preload >> 7;
    for (unsigned i = 0; i < words && (first + i + 1) * 4 <= p->argument_bytes; i++)
        memcpy(&w->scalar[*at + (int)i], p->arguments + (size_t)(first + i) * 4, 4);
}

static void set_registers(amdgcn_wave *w, const preparation *p, int threads) {
    const amdgcn_descriptor *d = &p->kernel->descriptor;
    int at = 0;
    memset(w->rows, 0xa5, sizeof w->rows);
    memset(w->scalar, 0xa5, sizeof w->scalar);
    w->mask_of = 0, w->scc = false, w->stopped = 0, w->taken = 0;
    memset(w->mask, 0, sizeof w->mask);
    int rest = threads - w->index * w->lanes;
    w->pair[SCALAR_EXEC / 2] = rest >= w->lanes ? amdgcn_all(w) : (UINT64_C(1) << rest) - 1;
    set_user_registers(w, p, &at);
    at = (int)(d->resource2 >> 1 & 31);
    uint32_t block = (uint32_t)w->block->index;
    for (int axis = 0; axis < 3; axis++)
        if (d->resource2 >> (7 + axis) & 1) w->scalar[at++] = axis ? 0 : block;
    if (d->resource2 >> 10 & 1) w->scalar[at++] = 0;
    if (d->resource2 & 1) w->scalar[at++] = 0; /* offset of the wavefront's scratch: each has its own here */
    if (w->machine->generation >= 12) w->scalar[SCALAR_TTMP + 9] = block, w->scalar[SCALAR_TTMP + 7] = 0;
    for (int l = 0; l < w->lanes; l++) w->rows[0][l] = (uint32_t)(w->index * w->lanes + l);
    if (w->machine->generation == 10)
        for (int axis = 1; axis < 3; axis++) memset(w->rows[axis], 0, sizeof w->rows[axis]);
    w->pc = d->entry;
}

static void run_wave(amdgcn_wave *w) {
    amdgcn_machine *machine = w->machine;
    amdgcn_code *code = w->code;
    uint64_t count = 0;
    w->stopped = 0;
    while (!w->stopped) {
        const amdgcn_instruction *i = w->pc < code->image_bytes ? code->decoded[w->pc / 4] : NULL;
        if (!i) {
            i = amdgcn_decode(code, w, w->pc);
            if (!i) break;
        }
        machine->current = i;
        uint64_t pc = w->pc;
        w->pc = i->next;
        i->run(w, i);
        if (w->stopped == FAILED) w->pc = pc;
        if (++count + w->taken > machine->limit)
            amdgcn_fail(w, -1, "more than %llu instructions", (unsigned long long)machine->limit);
    }
    w->taken += count;
    machine->counts.instructions += count;
}

/* Barriers are met when every wavefront that has not ended waits. */
static weft_status run_block(amdgcn_code *code, const preparation *p, const amdgcn_launch *launch,
                             amdgcn_block *block) {
    amdgcn_machine *machine = code->machine;
    for (int i = 0; i < p->wave_count; i++) {
        amdgcn_wave *w = &machine->waves[i];
        w->lanes = p->lanes, w->index = i, w->block = block, w->machine = machine, w->code = code;
        set_registers(w, p, launch->threads);
        if (w->scratch_bytes) memset(w->scratch, 0xa5, (size_t)(w->scratch_bytes * p->lanes));
    }
    memset(block->shared, 0xa5, (size_t)block->shared_bytes);
    int waiting = 1;
    for (bool forward = block->index % 2 == 0; waiting > 0 && !machine->failure; forward = !forward) {
        int ended = 0;
        waiting = 0;
        for (int n = 0; n < p->wave_count && !machine->failure; n++) {
            amdgcn_wave *w = &machine->waves[forward ? n : p->wave_count - 1 - n];
            if (w->stopped != ENDED) run_wave(w);
            waiting += w->stopped == UNTIL_BARRIER;
            ended += w->stopped == ENDED;
        }
        machine->counts.barriers += waiting > 0;
        if (waiting && ended && !machine->failure)
            return WEFT_STATUS(WEFT_INVALID_DATA,
                               "kernel %s: %d wavefronts of block %lld wait at a barrier, %d have ended",
                               p->kernel->name, waiting, (long long)block->index, ended);
    }
    weft_status failure = machine->failure;
    machine->failure = NULL;
    return failure;
}

static weft_status reserve(amdgcn_machine *machine, const preparation *p) {
    if (p->wave_count > machine->wave_capacity) {
        free(machine->waves);
        machine->wave_capacity = 0;
        machine->waves = aligned_alloc(64, ((size_t)p->wave_count * sizeof *machine->waves + 63) / 64 * 64);
        if (!machine->waves) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for wavefronts");
        machine->wave_capacity = p->wave_count;
    }
    int64_t bytes = p->kernel->descriptor.scratch_bytes;
    for (int i = 0; i < p->wave_count; i++) {
        machine->waves[i].scratch_bytes = bytes;
        machine->waves[i].scratch = bytes ? malloc((size_t)(bytes * p->lanes)) : NULL;
        if (bytes && !machine->waves[i].scratch) {
            while (i-- > 0) free(machine->waves[i].scratch);
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for scratch");
        }
    }
    return NULL;
}

static weft_status run_blocks(amdgcn_code *code, preparation *p, const amdgcn_launch *launch) {
    amdgcn_machine *machine = code->machine;
    amdgcn_block block = {.shared_bytes = p->kernel->descriptor.shared_bytes + launch->shared_bytes};
    block.shared = malloc((size_t)block.shared_bytes + 1);
    if (!block.shared) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a block");
    weft_status status = amdgcn_machine_map(machine, p->arguments, p->argument_bytes, false);
    if (!status) status = amdgcn_machine_map(machine, p->packet, sizeof p->packet, false);
    if (!status) status = reserve(machine, p);
    if (!status) {
        for (block.index = 0; block.index < launch->blocks && !status; block.index++)
            status = run_block(code, p, launch, &block);
        for (int i = 0; i < p->wave_count; i++) free(machine->waves[i].scratch);
    }
    amdgcn_machine_unmap(machine, p->arguments);
    amdgcn_machine_unmap(machine, p->packet);
    free(block.shared);
    return status;
}

weft_status amdgcn_machine_launch(amdgcn_code *code, const amdgcn_launch *launch) {
    amdgcn_machine *machine = code->machine;
    preparation p = {0};
    for (int i = 0; i < code->kernel_count; i++)
        if (!strcmp(code->kernels[i].name, launch->kernel)) p.kernel = &code->kernels[i];
    if (!p.kernel) return WEFT_STATUS(WEFT_NOT_FOUND, "there is no kernel %s in the code object", launch->kernel);
    WEFT_TRY(check_kernel(machine, p.kernel, launch), "launching %s", launch->kernel);
    p.lanes = p.kernel->descriptor.properties & USES_WAVE32 ? 32 : 64;
    p.wave_count = (launch->threads + p.lanes - 1) / p.lanes;
    weft_status status = lay_arguments(&p, launch);
    if (status) return weft_status_annotate(status, __FILE__, __LINE__, "launching %s", launch->kernel);
    machine->launch = launch;
    machine->counts.launches++;
    status = run_blocks(code, &p, launch);
    machine->launch = NULL;
    free(p.arguments);
    return status;
}
