/* Launches: blocks one after the other, warps of a block from barrier to barrier, threads of a warp by their place:
   those at the lowest one run until they reach others or jump. Read next: integer.c. */
#include <stdarg.h>
#include <stdio.h>

#include "tests/ptx/interpreter/internal.h"

enum { SHARED_MAX = 163 << 10, LOCAL_MAX = 64 << 10, THREADS_MAX = 1024 };

weft_status ptx_machine_create(ptx_machine **out_machine) {
    *out_machine = calloc(1, sizeof **out_machine);
    if (!*out_machine) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a machine");
    (*out_machine)->limit = UINT64_C(1) << 32;
    return NULL;
}

void ptx_machine_release(ptx_machine *machine) {
    if (!machine) return;
    weft_status_release(machine->failure);
    free(machine->ranges.list);
    free(machine);
}

weft_status ptx_machine_map(ptx_machine *machine, void *memory, size_t bytes, bool writable) {
    return ranges_add(&machine->ranges, memory, bytes, writable);
}
void ptx_machine_unmap(ptx_machine *machine, void *memory) { ranges_remove(&machine->ranges, memory); }
void ptx_machine_set_limit(ptx_machine *machine, uint64_t steps) { machine->limit = steps; }
void ptx_machine_on_condition(ptx_machine *machine, bool (*set)(void *self, uint64_t handle, uint32_t value),
                              void *self) {
    machine->set_condition = set, machine->condition_self = self;
}
uint64_t ptx_machine_steps(const ptx_machine *machine) { return machine->steps; }

void ptx_fail(ptx_warp *w, int lane, const char *format, ...) {
    char what[300], where[40] = "";
    va_list list;
    ptx_machine *machine = w->machine;
    w->stop = FAILED;
    if (machine->failure) return;
    va_start(list, format);
    (void)vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (lane >= 0) (void)snprintf(where, sizeof where, ", thread %d", w->index * LANES + lane);
    const ptx_instruction *i = machine->current;
    machine->failure =
        WEFT_STATUS(WEFT_INVALID_DATA, "kernel %s: %s (block %u, warp %d%s, %s, instruction %d)", w->kernel->name, what,
                    w->block->index, w->index, where, i ? i->name : "?", i ? (int)(i - w->kernel->code) : -1);
}

uint64_t ptx_special_value(const ptx_warp *w, int which, int lane) {
    switch (which) {
    case TID: return (uint64_t)(w->index * LANES + lane);
    case NTID: return w->machine->launch->threads;
    case CTAID: return w->block->index;
    case NCTAID: return w->machine->launch->blocks;
    case LANEID: return (uint64_t)lane;
    case WARPID: return (uint64_t)w->index;
    case ONE: return 1;
    default: return 0;
    }
}

/* The lowest place of living threads, those there, and the next lowest. */
static int choose(const ptx_warp *w, uint32_t *out_lanes, int *out_others) {
    int lowest = INT32_MAX;
    *out_lanes = 0, *out_others = INT32_MAX;
    for (int l = 0; l < LANES; l++)
        if ((w->alive >> l & 1) && w->pc[l] < lowest) lowest = w->pc[l];
    for (int l = 0; l < LANES; l++) {
        if (!(w->alive >> l & 1)) continue;
        if (w->pc[l] == lowest)
            *out_lanes |= UINT32_C(1) << l;
        else if (w->pc[l] < *out_others)
            *out_others = w->pc[l];
    }
    return lowest;
}

static void place(ptx_warp *w, uint32_t lanes, int pc) {
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) w->pc[l] = pc;
}

static uint32_t where(const ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    if (i->predicate < 0) return lanes;
    const uint64_t *row = w->rows[i->predicate];
    uint32_t set = 0;
    for (int l = 0; l < LANES; l++) set |= (uint32_t)(row[l] & 1) << l;
    return lanes & (i->predicate_negated ? ~set : set);
}

/* Until the threads jump, end, meet others or wait. */
static void run_together(ptx_warp *w) {
    uint32_t lanes;
    int others, pc = choose(w, &lanes, &others);
    const ptx_kernel *k = w->kernel;
    while (w->stop == RUNNING) {
        if (pc >= k->code_count) {
            ptx_fail(w, -1, "the end of the kernel without a return");
            return;
        }
        const ptx_instruction *i = &k->code[pc];
        uint32_t taking = where(w, i, lanes);
        uint32_t alive = w->alive;
        w->machine->current = i;
        if (++w->steps > w->machine->limit) {
            ptx_fail(w, -1, "more than %llu steps", (unsigned long long)w->machine->limit);
            return;
        }
        pc++;
        if (i->jumps) place(w, lanes, pc);
        if (taking) i->run(w, i, taking);
        if (i->jumps) return;
        lanes &= w->alive;
        if (w->alive != alive || w->stop != RUNNING || pc >= others) {
            place(w, lanes, pc);
            return;
        }
    }
}

static void run_warp(ptx_warp *w) {
    w->stop = RUNNING;
    while (w->stop == RUNNING) {
        run_together(w);
        if (!w->alive && w->stop == RUNNING) w->stop = ENDED;
    }
}

/* -- blocks */

typedef struct stage {
    const ptx_kernel *kernel;
    ptx_warp *warps;
    int warp_count;
    uint8_t *parameters;
} stage;

static void start_warp(const stage *s, ptx_warp *w, int index, ptx_block *block, unsigned threads) {
    int rest = (int)threads - index * LANES;
    memset(w->pc, 0, sizeof w->pc);
    w->alive = rest >= LANES ? UINT32_MAX : (UINT32_C(1) << rest) - 1;
    w->stop = RUNNING, w->index = index, w->block = block, w->parameters = s->parameters;
    w->copy_count = 0, w->group = 0, w->steps = 0;
    for (int r = 0; r < s->kernel->register_count; r++)
        for (int l = 0; l < LANES; l++) w->rows[r][l] = ptx_width(w, r, POISON);
    if (s->kernel->local_bytes) memset(w->local, 0xa5, s->kernel->local_bytes * LANES);
}

/* Lets those go whose barrier is complete. Returns how many. */
static int release(const stage *s, ptx_block *block, unsigned threads) {
    int released = 0;
    for (int id = 0; id < BARRIERS; id++) {
        unsigned arrived = block->arrived[id], wanted = 0;
        for (int i = 0; i < s->warp_count; i++) {
            const ptx_warp *w = &s->warps[i];
            if (w->stop != AT_BARRIER || w->barrier != id) continue;
            arrived += LANES;
            wanted = w->barrier_threads >= 0 ? (unsigned)w->barrier_threads : (threads + LANES - 1) / LANES * LANES;
        }
        if (!wanted || arrived < wanted) continue;
        block->arrived[id] = 0;
        for (int i = 0; i < s->warp_count; i++)
            if (s->warps[i].stop == AT_BARRIER && s->warps[i].barrier == id) s->warps[i].stop = RUNNING, released++;
    }
    return released;
}

static weft_status run_block(ptx_machine *machine, const stage *s, ptx_block *block) {
    unsigned threads = machine->launch->threads;
    memset(block->shared, 0xa5, block->shared_bytes);
    memset(block->arrived, 0, sizeof block->arrived);
    for (int i = 0; i < s->warp_count; i++) start_warp(s, &s->warps[i], i, block, threads);
    for (bool forward = block->index % 2 == 0;; forward = !forward) {
        int waiting = 0;
        for (int n = 0; n < s->warp_count && !machine->failure; n++) {
            ptx_warp *w = &s->warps[forward ? n : s->warp_count - 1 - n];
            if (w->stop == RUNNING) run_warp(w);
            waiting += w->stop == AT_BARRIER;
        }
        if (machine->failure || !waiting) break;
        if (!release(s, block, threads)) {
            return WEFT_STATUS(WEFT_INVALID_DATA, "kernel %s: %d of %d warps of block %u wait at barriers for ever",
                               s->kernel->name, waiting, s->warp_count, block->index);
        }
    }
    for (int i = 0; i < s->warp_count; i++) machine->steps += s->warps[i].steps;
    weft_status failure = machine->failure;
    machine->failure = NULL;
    return failure;
}

static void free_stage(stage *s) {
    for (int i = 0; i < s->warp_count && s->warps; i++) {
        free(s->warps[i].rows);
        free(s->warps[i].local);
        free(s->warps[i].copies);
    }
    free(s->warps);
    free(s->parameters);
}

static weft_status make_stage(ptx_machine *machine, const ptx_kernel *k, const ptx_launch *launch, stage *s) {
    *s = (stage){.kernel = k, .warp_count = (int)(launch->threads + LANES - 1) / LANES};
    s->warps = calloc((size_t)s->warp_count, sizeof *s->warps);
    s->parameters = calloc(1, (size_t)k->parameter_bytes + 16);
    bool fine = s->warps && s->parameters;
    for (int i = 0; i < s->warp_count && fine; i++) {
        ptx_warp *w = &s->warps[i];
        w->kernel = k, w->machine = machine;
        w->rows = malloc((size_t)(k->register_count + 1) * sizeof *w->rows);
        w->local = k->local_bytes ? malloc(k->local_bytes * LANES) : NULL;
        fine = w->rows && (w->local || !k->local_bytes);
    }
    if (!fine) {
        free_stage(s);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a block");
    }
    for (int i = 0; i < k->parameter_count; i++)
        memcpy(s->parameters + k->parameter_offset[i], launch->parameters[i], (size_t)k->parameter_size[i]);
    return NULL;
}

weft_status ptx_machine_launch(ptx_module *module, const ptx_launch *launch) {
    ptx_machine *machine = module->machine;
    const ptx_kernel *k = NULL;
    for (int i = 0; i < module->kernel_count; i++)
        if (!strcmp(module->kernels[i].name, launch->kernel)) k = &module->kernels[i];
    if (!k) return WEFT_STATUS(WEFT_NOT_FOUND, "there is no kernel %s in the module", launch->kernel);
    if (!launch->threads || launch->threads > THREADS_MAX || k->shared_bytes + launch->shared_bytes > SHARED_MAX ||
        k->local_bytes > LOCAL_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "kernel %s: %u threads, %llu bytes of shared and %llu of local memory", k->name,
                           launch->threads, (unsigned long long)(k->shared_bytes + launch->shared_bytes),
                           (unsigned long long)k->local_bytes);
    stage s;
    WEFT_TRY(make_stage(machine, k, launch, &s), "launching %s", k->name);
    ptx_block block = {.shared_bytes = k->shared_bytes + launch->shared_bytes};
    block.shared = aligned_alloc(128, (block.shared_bytes + 255) / 128 * 128);
    machine->launch = launch;
    weft_status status = block.shared ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a block");
    for (block.index = 0; block.index < launch->blocks && !status; block.index++)
        status = run_block(machine, &s, &block);
    machine->launch = NULL;
    free(block.shared);
    free_stage(&s);
    return status;
}
