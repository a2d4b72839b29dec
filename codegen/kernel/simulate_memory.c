/* Memory of the simulator: every access is checked for bounds, order and definedness before it happens.

   Race rule (after FastTrack, Flanagan and Freund 2009): a cell keeps the last write and the reads since. Groups of
   blocks are never ordered with one another; inside a group an access must have seen what it conflicts with in its
   clock. copy_async: the shared bytes are poisoned and belong to the thread's copy agent until copy_wait; the data
   lands at a random moment before. Invariant: after a fault nothing more is written. */
#include <string.h>

#include "codegen/kernel/simulate_internal.h"

weft_sim_memory *weft_sim_memory_of(weft_sim *sim, weft_sim_thread *thread, weft_kval value) {
    const weft_kinstr *instr = weft_kernel_get(sim->kernel, value);
    if (instr->op == WEFT_K_shared) return &thread->block->shared[sim->shared_index[value]];
    return &sim->buffers[instr->i];
}

weft_sim_actor weft_sim_self(const weft_sim_thread *thread, const char *what) {
    return (weft_sim_actor){
        .agent = (uint32_t)thread->index, .clock = thread->clock[thread->index], .seen = thread->clock, .what = what};
}

static bool ordered(const weft_sim_actor *actor, uint32_t agent, uint32_t clock) {
    return agent == actor->agent || actor->seen[agent] >= clock;
}

static bool race(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory, const weft_sim_cell *cell,
                 const weft_sim_actor *actor, bool after_write, int32_t group, uint32_t agent) {
    size_t element = (size_t)(cell - memory->cells);
    const char *before = after_write ? "written" : "read";
    if (group != (int32_t)sim->group)
        return weft_sim_fault(sim, thread,
                              "race between blocks: %s of element %zu of \"%s\", %s in another block (group %d)",
                              actor->what, element, memory->name, before, group);
    static const char *const kinds[] = {"", "'s copy_async", "'s tensor_store", "'s mma_async"};
    unsigned threads = (unsigned)sim->group_threads;
    if (agent >= threads * WEFT_SIM_KINDS)
        return weft_sim_fault(sim, thread,
                              "race: %s of element %zu of \"%s\", %s by a tensor_load that is not waited for",
                              actor->what, element, memory->name, before);
    return weft_sim_fault(sim, thread, "race: %s of element %zu of \"%s\", %s by thread %u%s without a barrier between",
                          actor->what, element, memory->name, before, agent % threads, kinds[agent / threads]);
}

static bool clear_of_write(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory,
                           const weft_sim_cell *cell, const weft_sim_actor *actor) {
    if (cell->writer_group == WEFT_SIM_NOBODY || (cell->atomic && actor->atomic)) return true;
    if (cell->writer_group == (int32_t)sim->group && ordered(actor, cell->writer, cell->writer_clock)) return true;
    return race(sim, thread, memory, cell, actor, true, cell->writer_group, cell->writer);
}

static bool proxy_sees(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory,
                       const weft_sim_cell *cell, const weft_sim_actor *actor) {
    if (!actor->async || !memory->shared || !cell->generic || cell->writer_group != (int32_t)sim->group) return true;
    if (actor->seen[sim->agents + (int)cell->writer] >= cell->writer_clock) return true;
    return weft_sim_fault(sim, thread,
                          "missing fence_async: %s of element %zu of \"%s\" may not see the store of thread %u",
                          actor->what, (size_t)(cell - memory->cells), memory->name, cell->writer);
}

static bool clear_of_reads(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory,
                           const weft_sim_cell *cell, const weft_sim_actor *actor) {
    if (cell->reader_group == WEFT_SIM_NOBODY) return true;
    if (cell->other_group || cell->reader_group != (int32_t)sim->group)
        return race(sim, thread, memory, cell, actor, false, cell->other_group ? WEFT_SIM_NOBODY : cell->reader_group,
                    0);
    if (!cell->readers)
        return ordered(actor, cell->reader, cell->reader_clock) ||
               race(sim, thread, memory, cell, actor, false, cell->reader_group, cell->reader);
    const weft_sim_readers *r = cell->readers;
    bool named = r->count <= WEFT_SIM_READERS;
    for (uint32_t i = 0; i < (named ? r->count : (uint32_t)sim->agents); i++) {
        uint32_t agent = named ? r->agent[i] : i, clock = named ? r->seen[i] : r->clock[i];
        if (clock && !ordered(actor, agent, clock))
            return race(sim, thread, memory, cell, actor, false, cell->reader_group, agent);
    }
    return true;
}

static void forget_readers(weft_sim *sim, weft_sim_cell *cell) {
    bool ours = cell->reader_group == (int32_t)sim->group; /* else the clock went with its group */
    if (ours && cell->readers && sim->spare_count < WEFT_SIM_SPARE_CLOCKS)
        sim->spare_readers[sim->spare_count++] = cell->readers;
    cell->readers = NULL;
    cell->reader_group = WEFT_SIM_NOBODY;
    cell->other_group = false;
}

static weft_sim_readers *new_readers(weft_sim *sim) {
    if (!sim->spare_count) return weft_arena_allocate(&sim->group_arena, sizeof(weft_sim_readers));
    weft_sim_readers *readers = sim->spare_readers[--sim->spare_count];
    readers->count = 0;
    return readers;
}

/* The names are full: a clock takes them over. */
static bool widen(weft_sim *sim, weft_sim_readers *r) {
    size_t bytes = (size_t)sim->agents * sizeof(uint32_t);
    if (!r->clock)
        r->clock = weft_arena_allocate(&sim->group_arena, bytes);
    else
        memset(r->clock, 0, bytes);
    if (!r->clock) return weft_sim_no_memory(sim);
    for (uint32_t i = 0; i < r->count; i++) r->clock[r->agent[i]] = r->seen[i];
    r->count = WEFT_SIM_READERS + 1;
    return true;
}

static bool add_reader(weft_sim *sim, weft_sim_readers *r, uint32_t agent, uint32_t clock) {
    for (uint32_t i = 0; i < r->count && r->count <= WEFT_SIM_READERS; i++)
        if (r->agent[i] == agent) {
            r->seen[i] = clock;
            return true;
        }
    if (r->count == WEFT_SIM_READERS && !widen(sim, r)) return false;
    if (r->count > WEFT_SIM_READERS) {
        r->clock[agent] = clock;
        return true;
    }
    r->agent[r->count] = agent;
    r->seen[r->count++] = clock;
    return true;
}

static bool note_read(weft_sim *sim, weft_sim_cell *cell, const weft_sim_actor *actor) {
    if (cell->reader_group != (int32_t)sim->group) {
        if (cell->reader_group != WEFT_SIM_NOBODY) cell->other_group = true;
        cell->readers = NULL; /* of a group that is gone, with its arena */
        cell->reader_group = (int32_t)sim->group;
    } else if (cell->readers) {
        return add_reader(sim, cell->readers, actor->agent, actor->clock);
    } else if (!ordered(actor, cell->reader, cell->reader_clock)) {
        cell->readers = new_readers(sim);
        if (!cell->readers) return weft_sim_no_memory(sim);
        return add_reader(sim, cell->readers, cell->reader, cell->reader_clock) &&
               add_reader(sim, cell->readers, actor->agent, actor->clock);
    }
    cell->reader = actor->agent;
    cell->reader_clock = actor->clock;
    return true;
}

static bool in_bounds(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory, size_t offset,
                      size_t bytes, const weft_sim_actor *actor) {
    if (offset <= memory->bytes && bytes <= memory->bytes - offset) return true;
    return weft_sim_fault(sim, thread, "out of bounds: %s of element %lld of \"%s\", which has %zu", actor->what,
                          (long long)((int64_t)offset / (int64_t)memory->cell_bytes), memory->name,
                          memory->bytes / memory->cell_bytes);
}

bool weft_sim_read(weft_sim *sim, weft_sim_thread *thread, weft_sim_memory *memory, size_t offset, size_t bytes,
                   const weft_sim_actor *actor) {
    if (!in_bounds(sim, thread, memory, offset, bytes, actor)) return false;
    for (size_t n = offset / memory->cell_bytes; n <= (offset + bytes - 1) / memory->cell_bytes; n++) {
        weft_sim_cell *cell = &memory->cells[n];
        if (memory->shared && !cell->defined)
            return weft_sim_fault(sim, thread, "uninitialised: %s of element %zu of \"%s\"", actor->what, n,
                                  memory->name);
        if (!clear_of_write(sim, thread, memory, cell, actor) || !proxy_sees(sim, thread, memory, cell, actor))
            return false;
        if (!note_read(sim, cell, actor)) return false;
    }
    return true;
}

bool weft_sim_write(weft_sim *sim, weft_sim_thread *thread, weft_sim_memory *memory, size_t offset, size_t bytes,
                    const weft_sim_actor *actor) {
    if (!in_bounds(sim, thread, memory, offset, bytes, actor)) return false;
    for (size_t n = offset / memory->cell_bytes; n <= (offset + bytes - 1) / memory->cell_bytes; n++) {
        weft_sim_cell *cell = &memory->cells[n];
        if (!clear_of_write(sim, thread, memory, cell, actor)) return false;
        /* atomics read and write: two of them never conflict, so their own reads are not kept */
        if (!clear_of_reads(sim, thread, memory, cell, actor) || !proxy_sees(sim, thread, memory, cell, actor))
            return false;
        forget_readers(sim, cell);
        cell->writer = actor->agent;
        cell->writer_clock = actor->clock;
        cell->writer_group = (int32_t)sim->group;
        cell->atomic = actor->atomic;
        cell->defined = true;
        cell->generic = !actor->async;
    }
    return true;
}

/* -- loads, stores, atomics */

static uint64_t load_element(weft_dtype elem, const unsigned char *from) {
    uint64_t bits = 0;
    memcpy(&bits, from, (size_t)weft_dtype_bits(elem) / 8);
    return weft_dtype_is_float(elem) ? bits : (uint64_t)weft_kscalar_wrap(elem, (int64_t)bits);
}

static void store_element(weft_dtype elem, unsigned char *to, uint64_t value) {
    memcpy(to, &value, (size_t)weft_dtype_bits(elem) / 8);
}

/* Byte offset of a lane; false when the index itself leaves the memory. */
static bool lane_offset(weft_sim *sim, weft_sim_thread *thread, const weft_sim_memory *memory, weft_ktype index_type,
                        const uint64_t *index, int lane, size_t element_bytes, const char *what, size_t *out_offset) {
    int64_t element = index_type.lanes == 1 ? (int64_t)index[0] + lane : (int64_t)index[lane];
    int64_t count = (int64_t)(memory->bytes / element_bytes);
    if (element < 0 || element >= count)
        return weft_sim_fault(sim, thread, "out of bounds: %s, lane %d, of element %lld of \"%s\", which has %lld",
                              what, lane, (long long)element, memory->name, (long long)count);
    *out_offset = (size_t)element * element_bytes;
    return true;
}

static bool aligned(weft_sim *sim, const weft_sim_thread *thread, const weft_kinstr *instr,
                    const weft_sim_memory *memory, size_t offset) {
    if (!instr->align_bytes || ((uintptr_t)memory->data + offset) % (uintptr_t)instr->align_bytes == 0) return true;
    return weft_sim_fault(sim, thread, "misaligned: offset %zu of \"%s\" is no multiple of %d", offset, memory->name,
                          instr->align_bytes);
}

/* Reports the lanes of a load or store: a run when the index is one number, else each by itself. */
static bool count_lanes(weft_sim *sim, const weft_sim_thread *thread, const weft_kinstr *instr,
                        const weft_sim_memory *memory, int lanes, size_t bytes, bool write) {
    weft_kval index_value = weft_koperand(sim->kernel, instr, 1), mask = weft_koperand(sim->kernel, instr, 2);
    const uint64_t *index = weft_sim_value(sim, thread, index_value);
    bool run = weft_ktype_of(sim->kernel, index_value).lanes == 1;
    int first = lanes, last = -1;
    size_t width = instr->align_bytes ? (size_t)instr->align_bytes : bytes;
    for (int lane = 0; lane < lanes; lane++) {
        if (mask != WEFT_KNONE && !weft_sim_value(sim, thread, mask)[lane]) continue;
        if (first > lane) first = lane;
        last = lane;
        if (!run && !weft_sim_count_access(sim, thread, memory, (size_t)index[lane] * bytes, bytes, bytes, lane, write))
            return false;
    }
    if (run && last >= 0 &&
        !weft_sim_count_access(sim, thread, memory, ((size_t)index[0] + (size_t)first) * bytes,
                               (size_t)(last - first + 1) * bytes, width, 0, write))
        return false;
    weft_sim_count_done(sim, thread);
    return true;
}

static bool load(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    const weft_kernel *kernel = sim->kernel;
    weft_kval mask = weft_koperand(kernel, instr, 2), other = weft_koperand(kernel, instr, 3);
    weft_sim_memory *memory = weft_sim_memory_of(sim, thread, weft_koperand(kernel, instr, 0));
    weft_kval index_value = weft_koperand(kernel, instr, 1);
    const uint64_t *index = weft_sim_value(sim, thread, index_value);
    uint64_t *out = thread->slots + sim->slot[thread->pc];
    weft_dtype elem = (weft_dtype)instr->type.elem;
    size_t bytes = (size_t)weft_dtype_bits(elem) / 8;
    weft_sim_actor actor = weft_sim_self(thread, "load");
    for (int lane = 0; lane < instr->type.lanes; lane++) {
        if (mask != WEFT_KNONE && !weft_sim_value(sim, thread, mask)[lane]) {
            out[lane] = other == WEFT_KNONE ? 0 : weft_sim_value(sim, thread, other)[lane];
            continue;
        }
        size_t offset = 0;
        if (!lane_offset(sim, thread, memory, weft_ktype_of(kernel, index_value), index, lane, bytes, "load", &offset))
            return false;
        if (!lane && !aligned(sim, thread, instr, memory, offset)) return false;
        if (!weft_sim_read(sim, thread, memory, offset, bytes, &actor)) return false;
        if (elem == WEFT_BOOL && memory->data[offset] > 1)
            return weft_sim_fault(sim, thread, "load of a bool that is %d in \"%s\"", memory->data[offset],
                                  memory->name);
        out[lane] = load_element(elem, memory->data + offset);
    }
    return !weft_sim_counts_on(sim) || count_lanes(sim, thread, instr, memory, instr->type.lanes, bytes, false);
}

static bool store(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    const weft_kernel *kernel = sim->kernel;
    weft_kval index_value = weft_koperand(kernel, instr, 1), mask = weft_koperand(kernel, instr, 2);
    weft_kval value = weft_koperand(kernel, instr, 3);
    weft_sim_memory *memory = weft_sim_memory_of(sim, thread, weft_koperand(kernel, instr, 0));
    weft_ktype type = weft_ktype_of(kernel, value);
    size_t bytes = (size_t)weft_dtype_bits((weft_dtype)type.elem) / 8;
    weft_sim_actor actor = weft_sim_self(thread, "store");
    for (int lane = 0; lane < type.lanes; lane++) {
        if (mask != WEFT_KNONE && !weft_sim_value(sim, thread, mask)[lane]) continue;
        size_t offset = 0;
        if (!lane_offset(sim, thread, memory, weft_ktype_of(kernel, index_value),
                         weft_sim_value(sim, thread, index_value), lane, bytes, "store", &offset))
            return false;
        if (!lane && !aligned(sim, thread, instr, memory, offset)) return false;
        if (!weft_sim_write(sim, thread, memory, offset, bytes, &actor)) return false;
        store_element((weft_dtype)type.elem, memory->data + offset, weft_sim_value(sim, thread, value)[lane]);
    }
    return !weft_sim_counts_on(sim) || count_lanes(sim, thread, instr, memory, type.lanes, bytes, true);
}

static uint64_t combine(weft_dtype elem, int64_t kind, uint64_t a, uint64_t b) {
    if (elem == WEFT_F32) {
        float x = weft_kscalar_f32(a), y = weft_kscalar_f32(b);
        return weft_kscalar_of_f32(kind == WEFT_ATOMIC_ADD ? x + y : (kind == WEFT_ATOMIC_MIN) == (x < y) ? x : y);
    }
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    uint64_t r = kind == WEFT_ATOMIC_ADD ? a + b : (kind == WEFT_ATOMIC_MIN) == less ? a : b;
    return (uint64_t)weft_kscalar_wrap(elem, (int64_t)r);
}

/* The value of the instruction, when it has one, is what was there before. */
static bool atomic(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    const weft_kernel *kernel = sim->kernel;
    weft_sim_memory *memory = weft_sim_memory_of(sim, thread, weft_koperand(kernel, instr, 0));
    weft_kval index = weft_koperand(kernel, instr, 1), value = weft_koperand(kernel, instr, 2);
    weft_dtype elem = (weft_dtype)weft_ktype_of(kernel, value).elem;
    size_t bytes = (size_t)weft_dtype_bits(elem) / 8, offset = 0;
    weft_sim_actor actor = weft_sim_self(thread, "atomic");
    actor.atomic = true;
    if (!lane_offset(sim, thread, memory, weft_ktype_of(kernel, index), weft_sim_value(sim, thread, index), 0, bytes,
                     "atomic", &offset))
        return false;
    if (memory->shared && !memory->cells[offset / memory->cell_bytes].defined)
        return weft_sim_fault(sim, thread, "uninitialised: atomic on element %zu of \"%s\"", offset / bytes,
                              memory->name);
    size_t lanes = weft_ktype_of(kernel, value).lanes;
    if (lanes > 1 && offset % (lanes * bytes))
        return weft_sim_fault(sim, thread, "misaligned: atomic on element %zu of \"%s\"", offset / bytes, memory->name);
    if (!weft_sim_write(sim, thread, memory, offset, lanes * bytes, &actor)) return false;
    for (size_t lane = 0; lane < lanes; lane++) {
        unsigned char *to = memory->data + offset + lane * bytes;
        uint64_t before = load_element(elem, to);
        store_element(elem, to, combine(elem, instr->i, before, weft_sim_value(sim, thread, value)[lane]));
        if (instr->type.kind == WEFT_KIND_VALUE) thread->slots[sim->slot[thread->pc]] = before;
    }
    return true;
}

/* -- asynchronous copies of one thread */

bool weft_sim_copy_async(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    const weft_kernel *kernel = sim->kernel;
    weft_sim_memory *to = weft_sim_memory_of(sim, thread, weft_koperand(kernel, instr, 0));
    weft_kval from_value = weft_koperand(kernel, instr, 2), mask = weft_koperand(kernel, instr, 4);
    weft_sim_memory *from = weft_sim_memory_of(sim, thread, from_value);
    int64_t to_offset = (int64_t)*weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
    int64_t from_index = (int64_t)*weft_sim_value(sim, thread, weft_koperand(kernel, instr, 3));
    size_t element = (size_t)weft_dtype_bits((weft_dtype)weft_ktype_of(kernel, from_value).elem) / 8;
    bool active = mask == WEFT_KNONE || *weft_sim_value(sim, thread, mask);
    int64_t from_offset = active ? from_index * (int64_t)element : 0;
    if (to_offset < 0 || from_offset < 0 || from_offset > (int64_t)from->bytes - (active ? instr->i : 0))
        return weft_sim_fault(sim, thread, "out of bounds: copy_async of element %lld of \"%s\"", (long long)from_index,
                              from->name);
    if (to_offset % instr->i || (active && ((uintptr_t)from->data + (uintptr_t)from_offset) % (uintptr_t)instr->i))
        return weft_sim_fault(sim, thread, "misaligned: copy_async of %lld bytes, offset %lld", (long long)instr->i,
                              (long long)to_offset);
    uint32_t agent = weft_sim_agent(sim, thread->index, WEFT_SIM_COPIES);
    if (!WEFT_ARRAY_RESERVE(sim->allocator, thread->copies, thread->copy_capacity, thread->copy_count + 1))
        return weft_sim_no_memory(sim);
    weft_sim_copy copy = {to,      from,  (size_t)to_offset,    (size_t)from_offset, (int)instr->i,
                          !active, false, ++thread->copy_clock, thread->group_open};
    weft_sim_actor actor = {.agent = agent, .clock = copy.clock, .seen = thread->clock, .what = "copy_async"};
    weft_sim_actor reader = weft_sim_self(thread, "copy_async");
    if (active && !weft_sim_read(sim, thread, from, copy.from_offset, (size_t)copy.bytes, &reader)) return false;
    if (!weft_sim_write(sim, thread, to, copy.to_offset, (size_t)copy.bytes, &actor)) return false;
    memset(to->data + to_offset, 0xff, (size_t)copy.bytes);
    thread->copies[thread->copy_count++] = copy;
    if (!weft_sim_counts_on(sim)) return true;
    size_t width = (size_t)copy.bytes;
    if (active && !weft_sim_count_access(sim, thread, from, copy.from_offset, width, width, 0, false)) return false;
    if (!weft_sim_count_access(sim, thread, to, copy.to_offset, width, width, 0, true)) return false;
    weft_sim_count_done(sim, thread);
    return true;
}

static void land(weft_sim_copy *copy) {
    if (copy->landed) return;
    copy->landed = true;
    if (copy->zero)
        memset(copy->to->data + copy->to_offset, 0, (size_t)copy->bytes);
    else
        memcpy(copy->to->data + copy->to_offset, copy->from->data + copy->from_offset, (size_t)copy->bytes);
}

void weft_sim_copies_land(weft_sim *sim, weft_sim_thread *thread) {
    for (size_t n = 0; n < thread->copy_count; n++)
        if (weft_sim_random(sim) % 4 == 0) land(&thread->copies[n]);
}

bool weft_sim_copy_wait(weft_sim *sim, weft_sim_thread *thread, int64_t left) {
    uint32_t agent = weft_sim_agent(sim, thread->index, WEFT_SIM_COPIES);
    size_t kept = 0;
    for (size_t n = 0; n < thread->copy_count; n++) {
        weft_sim_copy *copy = &thread->copies[n];
        if (copy->group < thread->group_open - left) {
            land(copy);
            if (copy->clock > thread->clock[agent]) thread->clock[agent] = copy->clock;
        } else {
            thread->copies[kept++] = *copy;
        }
    }
    thread->copy_count = kept;
    return true;
}

bool weft_sim_access(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    switch ((int)instr->op) {
    case WEFT_K_load: return load(sim, thread, instr);
    case WEFT_K_store: return store(sim, thread, instr);
    case WEFT_K_atomic: return atomic(sim, thread, instr);
    case WEFT_K_copy_async: return weft_sim_copy_async(sim, thread, instr);
    case WEFT_K_copy_commit: thread->group_open++; return true;
    case WEFT_K_copy_wait: return weft_sim_copy_wait(sim, thread, instr->i);
    case WEFT_K_prefetch: return true;
    default: return weft_sim_fault(sim, thread, "the simulator does not know this instruction");
    }
}
