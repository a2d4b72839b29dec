/* The simulator: preparation of a launch, the threads of a group, structure and barriers.

   Threads run for random stretches; a barrier, a warp collective or an event parks them. When no thread moves, what is
   still under way lands; when nothing is, the kernel is in deadlock.
   Invariant: one fault ends the launch; nothing is written after it. Read next: simulate_memory.c. */
#include "codegen/kernel/simulate.h"

#include <string.h>

#include "codegen/kernel/simulate_internal.h"
#include "codegen/kernel/verify.h"

enum { STEPS_MAX = 1 << 30 };

uint64_t weft_sim_random(weft_sim *sim) { /* xorshift64*, Vigna 2016 */
    sim->random ^= sim->random >> 12;
    sim->random ^= sim->random << 25;
    sim->random ^= sim->random >> 27;
    return sim->random * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

bool weft_sim_no_memory(weft_sim *sim) {
    if (!sim->status) sim->status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "simulating kernel %s", sim->kernel->name);
    return false;
}

bool weft_sim_fault(weft_sim *sim, const weft_sim_thread *thread, const char *format, ...) {
    if (sim->status) return false;
    weft_text text;
    weft_text_init(sim->allocator, &text);
    va_list arguments;
    va_start(arguments, format);
    weft_text_append_list(&text, format, arguments);
    va_end(arguments);
    const weft_kinstr *instr = weft_sim_instr(sim, thread);
    sim->status = WEFT_STATUS(WEFT_INTERNAL, "kernel %s, %%%zu %s, block %lld, thread %d: %s", sim->kernel->name,
                              thread->pc, weft_kop_name((weft_kop)instr->op), (long long)thread->block->index,
                              thread->thread, weft_text_string(&text));
    weft_text_deinit(&text);
    return false;
}

/* -- structure */

static bool truth(const weft_sim *sim, const weft_sim_thread *thread, const weft_kinstr *instr) {
    return *weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 0)) != 0;
}

static bool below(weft_dtype elem, uint64_t a, uint64_t b) {
    return weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED ? (int64_t)a < (int64_t)b : a < b;
}

static void enter_for(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    uint64_t *variable = thread->slots + sim->slot[thread->pc];
    *variable = *weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 0));
    uint64_t hi = *weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 1));
    int64_t step = (int64_t)*weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 2));
    if (step <= 0) weft_sim_fault(sim, thread, "a step of %lld", (long long)step);
    thread->pc =
        below((weft_dtype)instr->type.elem, *variable, hi) ? thread->pc + 1 : (size_t)sim->partner[thread->pc] + 1;
}

static void leave_nest(weft_sim *sim, weft_sim_thread *thread) {
    size_t opener = (size_t)sim->opener[thread->pc];
    const weft_kinstr *instr = &sim->kernel->instrs[opener];
    if (instr->op == WEFT_K_while) {
        thread->pc = opener + 1;
    } else if (instr->op == WEFT_K_for) {
        weft_dtype elem = (weft_dtype)instr->type.elem;
        uint64_t *variable = thread->slots + sim->slot[opener];
        uint64_t before = *variable;
        *variable = (uint64_t)weft_kscalar_wrap(
            elem, (int64_t)(before + *weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 2))));
        if (below(elem, *variable, before)) weft_sim_fault(sim, thread, "the loop variable overflows");
        bool again = below(elem, *variable, *weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 1)));
        thread->pc = again ? opener + 1 : thread->pc + 1;
    } else {
        thread->pc++;
    }
}

static size_t end_of(const weft_sim *sim, size_t branch) {
    while (sim->kernel->instrs[branch].op != WEFT_K_end) branch = (size_t)sim->partner[branch];
    return branch;
}

static void choose_role(weft_sim *sim, weft_sim_thread *thread) {
    if ((size_t)sim->opener[thread->pc] != thread->pc) { /* the branch before has ended */
        thread->pc = end_of(sim, thread->pc) + 1;
        return;
    }
    int64_t warpgroup = thread->thread / 128, first = 0;
    size_t branch = thread->pc;
    while (sim->kernel->instrs[branch].op == WEFT_K_role) {
        first += sim->kernel->instrs[branch].i;
        if (warpgroup < first) break;
        branch = (size_t)sim->partner[branch];
    }
    thread->pc = branch + 1;
}

static bool call(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    if (thread->call_depth == WEFT_SIM_CALLS) return weft_sim_fault(sim, thread, "calls nest too deeply");
    thread->calls[thread->call_depth++] = thread->pc;
    thread->pc = (size_t)weft_koperand(sim->kernel, instr, 0) + 1;
    return true;
}

static void copy_value(weft_sim *sim, weft_sim_thread *thread, size_t to, weft_kval from) {
    memcpy(thread->slots + sim->slot[to], weft_sim_value(sim, thread, from),
           sim->kernel->instrs[to].type.lanes * sizeof(uint64_t));
}

static void return_from(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    size_t caller = thread->calls[--thread->call_depth];
    copy_value(sim, thread, caller, weft_koperand(sim->kernel, instr, 0));
    thread->pc = caller + 1;
}

/* Instructions that set pc themselves; false when instr is none of them. */
static bool structure(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    size_t pc = thread->pc;
    switch ((int)instr->op) {
    case WEFT_K_for: enter_for(sim, thread, instr); return true;
    case WEFT_K_if: thread->pc = truth(sim, thread, instr) ? pc + 1 : (size_t)sim->partner[pc] + 1; return true;
    case WEFT_K_else: thread->pc = (size_t)sim->partner[pc] + 1; return true;
    case WEFT_K_while: thread->pc++; return true;
    case WEFT_K_test: thread->pc = truth(sim, thread, instr) ? pc + 1 : (size_t)sim->partner[pc] + 1; return true;
    case WEFT_K_end: leave_nest(sim, thread); return true;
    case WEFT_K_role: choose_role(sim, thread); return true;
    case WEFT_K_func: thread->pc = (size_t)sim->partner[pc] + 1; return true;
    case WEFT_K_func_end: return_from(sim, thread, instr); return true;
    case WEFT_K_call: call(sim, thread, instr); return true;
    default: return false;
    }
}

/* -- registers */

static bool register_slot(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, size_t *out_slot) {
    weft_kval object = weft_koperand(sim->kernel, instr, 0), index = weft_koperand(sim->kernel, instr, 1);
    const weft_kinstr *regs = weft_kernel_get(sim->kernel, object);
    *out_slot = sim->slot[object];
    if (regs->op == WEFT_K_var) return true;
    int64_t at = index == WEFT_KNONE ? 0 : (int64_t)*weft_sim_value(sim, thread, index);
    if (at < 0 || at >= regs->i)
        return weft_sim_fault(sim, thread, "out of bounds: register %lld of %lld", (long long)at, (long long)regs->i);
    *out_slot += (size_t)at * regs->type.lanes;
    return true;
}

static bool registers(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    size_t slot = 0, lanes = 0;
    if (instr->op == WEFT_K_var) {
        copy_value(sim, thread, thread->pc, weft_koperand(sim->kernel, instr, 0));
        memset(thread->defined + sim->slot[thread->pc], 1, instr->type.lanes);
        return true;
    }
    if (instr->op == WEFT_K_regs) {
        memset(thread->defined + sim->slot[thread->pc], 0, (size_t)instr->i * instr->type.lanes);
        return true;
    }
    if (!register_slot(sim, thread, instr, &slot)) return false;
    if (instr->op == WEFT_K_get) {
        lanes = instr->type.lanes;
        if (!thread->defined[slot])
            return weft_sim_fault(sim, thread, "uninitialised: a register is read before it is set");
        if (thread->defined[slot] == WEFT_SIM_IN_FLIGHT)
            return weft_sim_fault(sim, thread, "in flight: a register is read before the mma_wait that defines it");
        memcpy(thread->slots + sim->slot[thread->pc], thread->slots + slot, lanes * sizeof(uint64_t));
        return true;
    }
    weft_kval value = weft_koperand(sim->kernel, instr, 2);
    if (thread->defined[slot] >= WEFT_SIM_IN_FLIGHT)
        return weft_sim_fault(sim, thread, "in flight: a register is set while a matrix operation uses it");
    lanes = weft_ktype_of(sim->kernel, value).lanes;
    memcpy(thread->slots + slot, weft_sim_value(sim, thread, value), lanes * sizeof(uint64_t));
    memset(thread->defined + slot, 1, lanes);
    return true;
}

/* -- threads that wait for one another */

static bool arrive_at_barrier(weft_sim *sim, weft_sim_thread *thread) {
    weft_sim_block *block = thread->block;
    const weft_kernel *kernel = sim->kernel;
    if (block->done)
        return weft_sim_fault(sim, thread, "missing barrier: %d threads of the block have ended without it",
                              block->done);
    if (block->barrier_arrived && block->barrier_pc != thread->pc)
        return weft_sim_fault(sim, thread, "divergent barrier: other threads of the block wait at %%%zu",
                              block->barrier_pc);
    if (!block->barrier_arrived) memset(block->barrier_clock, 0, (size_t)sim->clock_words * sizeof(uint32_t));
    block->barrier_pc = thread->pc;
    weft_sim_join(block->barrier_clock, thread->clock, sim->clock_words);
    thread->wait = WEFT_SIM_BARRIER;
    if (++block->barrier_arrived < kernel->threads) return true;
    block->barrier_arrived = 0;
    weft_sim_thread *first = &sim->threads[block->rank * kernel->threads];
    for (int n = 0; n < kernel->threads; n++) {
        weft_sim_thread *other = &first[n];
        weft_sim_join(other->clock, block->barrier_clock, sim->clock_words);
        other->clock[other->index]++;
        other->wait = WEFT_SIM_RUNNING;
        other->pc++;
    }
    sim->progress = true;
    return true;
}

static bool arrive_in_warp(weft_sim *sim, weft_sim_thread *thread) {
    const weft_kernel *kernel = sim->kernel;
    int first = thread->thread / sim->warp * sim->warp, count = 0;
    weft_sim_thread *lanes[64] = {thread};
    thread->wait = WEFT_SIM_WARP;
    for (int n = first; n < first + sim->warp && n < kernel->threads && count < 64; n++) {
        weft_sim_thread *lane = &sim->threads[thread->block->rank * kernel->threads + n];
        if (lane->wait == WEFT_SIM_DONE)
            return weft_sim_fault(sim, thread, "divergent: lane %d of the warp has ended", n - first);
        if (lane->wait == WEFT_SIM_WARP && lane->pc != thread->pc)
            return weft_sim_fault(sim, thread, "divergent: lane %d of the warp is at %%%zu", n - first, lane->pc);
        if (lane->wait != WEFT_SIM_WARP) return true;
        lanes[count++] = lane;
    }
    if (!weft_sim_collective(sim, lanes, count, weft_sim_instr(sim, thread))) return false;
    for (int n = 0; n < count; n++) {
        lanes[n]->wait = WEFT_SIM_RUNNING;
        lanes[n]->pc++;
    }
    sim->progress = true;
    return true;
}

static bool finish(weft_sim *sim, weft_sim_thread *thread) {
    thread->wait = WEFT_SIM_DONE;
    thread->block->done++;
    sim->progress = true;
    if (thread->pc) thread->pc--; /* faults name the last instruction */
    if (thread->block->barrier_arrived)
        return weft_sim_fault(sim, thread, "missing barrier: other threads of the block wait at %%%zu",
                              thread->block->barrier_pc);
    for (size_t n = 0; n < thread->copy_count; n++)
        if (!thread->copies[n].landed) return weft_sim_fault(sim, thread, "copy_async under way when the thread ends");
    return true;
}

/* One instruction; false after a fault. */
static bool step(weft_sim *sim, weft_sim_thread *thread) {
    const weft_kinstr *instr = weft_sim_instr(sim, thread);
    weft_kop op = (weft_kop)instr->op;
    int flags = weft_kop_flags(op);
    if (++thread->steps > STEPS_MAX)
        return weft_sim_fault(sim, thread, "does not end within %d instructions", STEPS_MAX);
    if (structure(sim, thread, instr)) return !sim->status;
    bool done = true, passed = true;
    if (op == WEFT_K_parameter) {
        const weft_kinstr *caller = &sim->kernel->instrs[thread->calls[thread->call_depth - 1]];
        copy_value(sim, thread, thread->pc, weft_koperand(sim->kernel, caller, 1 + (int)instr->i));
    } else if (op == WEFT_K_var || op == WEFT_K_regs || op == WEFT_K_get || op == WEFT_K_set) {
        done = registers(sim, thread, instr);
    } else if (op == WEFT_K_barrier) {
        return arrive_at_barrier(sim, thread);
    } else if (weft_sim_is_collective(op)) {
        return arrive_in_warp(sim, thread);
    } else if (weft_sim_is_hopper(op)) {
        done = weft_sim_hopper(sim, thread, instr, &passed);
        thread->wait = passed ? WEFT_SIM_RUNNING : WEFT_SIM_EVENT;
    } else if (op == WEFT_K_buffer || op == WEFT_K_shared) {
        done = true;
    } else if ((flags & WEFT_KFLAG_EFFECT) || op == WEFT_K_load) {
        done = weft_sim_access(sim, thread, instr);
    } else {
        done = weft_sim_compute(sim, thread, instr);
    }
    if (done && passed) thread->pc++;
    return done;
}

static bool run_thread(weft_sim *sim, weft_sim_thread *thread) {
    bool alone = sim->group_threads == 1;
    uint64_t quantum = alone ? UINT64_MAX : 1 + weft_sim_random(sim) % 512;
    while (quantum--) {
        if (thread->pc == sim->kernel->instr_count) return finish(sim, thread);
        if (!step(sim, thread)) return false;
        if (thread->wait != WEFT_SIM_RUNNING) return true;
        sim->progress = true;
    }
    return true;
}

static bool deadlock(weft_sim *sim) {
    for (int n = 0; n < sim->group_threads; n++)
        if (sim->threads[n].wait != WEFT_SIM_DONE)
            return weft_sim_fault(sim, &sim->threads[n], "deadlock: no thread can go on, nothing is under way");
    return true;
}

static bool run_group(weft_sim *sim) {
    for (;;) {
        sim->progress = false;
        int left = 0, start = (int)(weft_sim_random(sim) % (uint64_t)sim->group_threads);
        for (int n = 0; n < sim->group_threads; n++) {
            weft_sim_thread *thread = &sim->threads[(n + start) % sim->group_threads];
            if (thread->wait == WEFT_SIM_DONE) continue;
            left++;
            if (thread->copy_count) weft_sim_copies_land(sim, thread);
            if (thread->wait == WEFT_SIM_EVENT) thread->wait = WEFT_SIM_RUNNING;
            if (thread->wait == WEFT_SIM_RUNNING && !run_thread(sim, thread)) return false;
        }
        if (!left) return weft_sim_group_end(sim);
        if (!sim->progress && !weft_sim_group_land(sim)) return deadlock(sim) && false;
    }
}

/* -- preparation */

/* Slots of every value, partners of every branch. */
static bool lay_out(weft_sim *sim) {
    const weft_kernel *kernel = sim->kernel;
    size_t count = kernel->instr_count;
    sim->slot = weft_arena_allocate_array(&sim->arena, count, sizeof *sim->slot);
    sim->partner = weft_arena_allocate_array(&sim->arena, count, sizeof *sim->partner);
    sim->opener = weft_arena_allocate_array(&sim->arena, count, sizeof *sim->opener);
    sim->shared_index = weft_arena_allocate_array(&sim->arena, count, sizeof *sim->shared_index);
    int32_t *open = weft_arena_allocate_array(&sim->arena, count, sizeof *open);     /* openers of the open nests */
    int32_t *branch = weft_arena_allocate_array(&sim->arena, count, sizeof *branch); /* their newest branches */
    int32_t *tests =
        weft_arena_allocate_array(&sim->arena, count, sizeof *tests); /* newest test of a while: list through partner */
    if (!sim->slot || !sim->partner || !sim->opener || !sim->shared_index || !open || !branch || !tests)
        return weft_sim_no_memory(sim);
    int depth = 0;
    size_t slots = 0;
    for (size_t n = 0; n < count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        weft_kop op = (weft_kop)instr->op;
        int32_t at = (int32_t)n;
        sim->slot[n] = (uint32_t)slots;
        if (instr->type.kind == WEFT_KIND_VALUE || instr->type.kind == WEFT_KIND_VAR) slots += instr->type.lanes;
        if (instr->type.kind == WEFT_KIND_REGS) slots += (size_t)instr->i * instr->type.lanes;
        if (slots > UINT32_MAX) return weft_sim_no_memory(sim);
        sim->shared_index[n] = op == WEFT_K_shared ? sim->shared_count++ : -1;
        bool further =
            op == WEFT_K_else || (op == WEFT_K_role && depth && kernel->instrs[open[depth - 1]].op == WEFT_K_role);
        if (further) {
            sim->partner[branch[depth - 1]] = at;
            sim->opener[n] = open[depth - 1];
            branch[depth - 1] = at;
        } else if (op == WEFT_K_for || op == WEFT_K_if || op == WEFT_K_while || op == WEFT_K_role ||
                   op == WEFT_K_func) {
            sim->opener[n] = at;
            open[depth] = branch[depth] = at;
            tests[depth++] = -1;
        } else if (op == WEFT_K_test) {
            sim->partner[n] = tests[depth - 1];
            tests[depth - 1] = at;
        } else if (op == WEFT_K_end || op == WEFT_K_func_end) {
            depth--;
            sim->partner[branch[depth]] = at;
            sim->opener[n] = open[depth];
            sim->partner[n] = at;
            for (int32_t test = tests[depth], next; test >= 0; test = next) {
                next = sim->partner[test];
                sim->partner[test] = at;
            }
        }
    }
    sim->slot_count = slots ? slots : 1;
    return true;
}

static bool make_memory(weft_sim *sim, weft_arena *arena, weft_sim_memory *memory, weft_dtype elem, bool shared,
                        const char *name) {
    int bits = weft_dtype_bits(elem);
    memory->cell_bytes = bits >= 8 ? (size_t)bits / 8 : 1;
    memory->shared = shared;
    memory->name = name;
    size_t cells = memory->bytes / memory->cell_bytes + 1;
    memory->cells = weft_arena_allocate_array(arena, cells, sizeof *memory->cells);
    if (!memory->cells) return weft_sim_no_memory(sim);
    for (size_t n = 0; n < cells; n++) memory->cells[n].writer_group = memory->cells[n].reader_group = WEFT_SIM_NOBODY;
    return true;
}

static bool bind_arguments(weft_sim *sim, const weft_sim_buffer *buffers) {
    const weft_kernel *kernel = sim->kernel;
    sim->extents = weft_arena_allocate_array(&sim->arena, kernel->argument_count, sizeof *sim->extents);
    sim->buffers = weft_arena_allocate_array(&sim->arena, kernel->argument_count, sizeof *sim->buffers);
    if (!sim->extents || !sim->buffers) return weft_sim_no_memory(sim);
    for (size_t n = 0; n < kernel->argument_count; n++) {
        const weft_kargument *argument = &kernel->arguments[n];
        if (argument->source == WEFT_ARGUMENT_EXTENT) {
            if (weft_dim_evaluate(kernel->dims, argument->extent, sim->symbols, &sim->extents[n])) continue;
            sim->status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %s: extent \"%s\" has no value", kernel->name,
                                      argument->name);
            return false;
        }
        sim->buffers[n].data = buffers[n].data;
        sim->buffers[n].bytes = buffers[n].bytes;
        sim->buffers[n].number = (int)n;
        if (!make_memory(sim, &sim->arena, &sim->buffers[n], argument->dtype, false, argument->name)) return false;
    }
    return true;
}

static bool make_shared(weft_sim *sim, weft_sim_block *block) {
    const weft_kernel *kernel = sim->kernel;
    block->shared = weft_arena_allocate_array(&sim->group_arena, (size_t)sim->shared_count, sizeof *block->shared);
    block->barrier_clock = weft_arena_allocate_array(&sim->group_arena, (size_t)sim->clock_words, sizeof(uint32_t));
    if (!block->shared || !block->barrier_clock) return weft_sim_no_memory(sim);
    for (size_t n = 0; n < kernel->instr_count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        if (instr->op != WEFT_K_shared) continue;
        weft_sim_memory *memory = &block->shared[sim->shared_index[n]];
        int64_t count;
        weft_dtype elem = (weft_dtype)instr->type.elem;
        if (!weft_dim_evaluate(kernel->dims, instr->extent, sim->symbols, &count) ||
            !weft_dtype_bytes(elem, count, &memory->bytes)) {
            sim->status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %s: %%%zu has no extent", kernel->name, n);
            return false;
        }
        enum { ALIGN = 1024 };
        unsigned char *data = weft_arena_allocate(&sim->group_arena, memory->bytes + ALIGN);
        if (!data) return weft_sim_no_memory(sim);
        memory->data = data + (ALIGN - (uintptr_t)data % ALIGN) % ALIGN;
        memset(memory->data, 0xff, memory->bytes);
        if (!make_memory(sim, &sim->group_arena, memory, elem, true,
                         weft_arena_format(&sim->group_arena, "shared %%%zu", n)))
            return false;
    }
    return true;
}

static bool start_group(weft_sim *sim, int64_t first_block) {
    const weft_kernel *kernel = sim->kernel;
    sim->spare_count = 0;
    for (int b = 0; b < sim->blocks_in_group; b++) {
        sim->blocks[b] = (weft_sim_block){.index = first_block + b, .rank = b};
        if (!make_shared(sim, &sim->blocks[b])) return false;
    }
    for (int n = 0; n < sim->group_threads; n++) {
        weft_sim_thread *thread = &sim->threads[n];
        uint64_t *slots = thread->slots;
        uint8_t *defined = thread->defined;
        uint32_t *clock = thread->clock;
        weft_free(sim->allocator, thread->copies, thread->copy_capacity * sizeof *thread->copies);
        memset(clock, 0, (size_t)sim->clock_words * sizeof *clock);
        clock[n] = 1;
        *thread = (weft_sim_thread){.index = n,
                                    .thread = n % kernel->threads,
                                    .block = &sim->blocks[n / kernel->threads],
                                    .slots = slots,
                                    .defined = defined,
                                    .clock = clock};
    }
    return weft_sim_group_begin(sim);
}

static bool make_threads(weft_sim *sim) {
    sim->threads = weft_arena_allocate_array(&sim->arena, (size_t)sim->group_threads, sizeof *sim->threads);
    sim->blocks = weft_arena_allocate_array(&sim->arena, (size_t)sim->blocks_in_group, sizeof *sim->blocks);
    if (!sim->threads || !sim->blocks) return weft_sim_no_memory(sim);
    for (int n = 0; n < sim->group_threads; n++) {
        weft_sim_thread *thread = &sim->threads[n];
        thread->slots = weft_arena_allocate_array(&sim->arena, sim->slot_count, sizeof *thread->slots);
        thread->defined = weft_arena_allocate_array(&sim->arena, sim->slot_count, sizeof *thread->defined);
        thread->clock = weft_arena_allocate_array(&sim->arena, (size_t)sim->clock_words, sizeof *thread->clock);
        if (!thread->slots || !thread->defined || !thread->clock) return weft_sim_no_memory(sim);
    }
    return true;
}

static void run_launch(weft_sim *sim, int64_t lo, int64_t hi) {
    for (int64_t block = lo; block < hi && !sim->status; block += sim->blocks_in_group) {
        weft_arena_init(sim->allocator, &sim->group_arena);
        sim->group = block / sim->blocks_in_group;
        if (weft_sim_count_begin(sim) && start_group(sim, block)) run_group(sim);
        weft_sim_count_end(sim);
        weft_arena_deinit(&sim->group_arena);
    }
    for (int n = 0; n < sim->group_threads; n++)
        weft_free(sim->allocator, sim->threads[n].copies, sim->threads[n].copy_capacity * sizeof(weft_sim_copy));
}

weft_status weft_kernel_simulate(const weft_kernel *kernel, const int64_t *symbols, const weft_sim_buffer *buffers,
                                 const weft_sim_options *options, weft_allocator allocator) {
    WEFT_TRY(weft_kernel_verify(kernel), "simulating");
    weft_sim_options defaults = {0};
    if (!options) options = &defaults;
    weft_sim *sim = weft_allocate(allocator, sizeof *sim);
    if (!sim) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "simulating kernel %s", kernel->name);
    *sim = (weft_sim){.kernel = kernel, .allocator = allocator, .symbols = symbols, .counts = options->counts};
    sim->random = (options->seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    sim->warp = kernel->capability->warp > 0 ? kernel->capability->warp : 1;
    sim->blocks_in_group = kernel->cluster;
    sim->group_threads = kernel->cluster * kernel->threads;
    sim->agents = sim->group_threads == 1 ? 1 : sim->group_threads * WEFT_SIM_KINDS + weft_sim_hopper_agents(kernel);
    sim->clock_words = kernel->capability->hopper && sim->group_threads > 1 ? 2 * sim->agents : sim->agents;
    weft_arena_init(allocator, &sim->arena);
    if (!weft_dim_evaluate(kernel->dims, kernel->grid, symbols, &sim->grid))
        sim->status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %s: its grid has no value", kernel->name);
    int64_t hi = options->block_hi && options->block_hi < sim->grid ? options->block_hi : sim->grid;
    if (!sim->status && lay_out(sim) && bind_arguments(sim, buffers) && make_threads(sim))
        run_launch(sim, options->block_lo, hi);
    weft_status status = sim->status;
    weft_arena_deinit(&sim->arena);
    weft_free(allocator, sim, sizeof *sim);
    return status;
}
