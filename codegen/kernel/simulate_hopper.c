/* The Hopper rows except matrix products: mbarriers, named and cluster barriers, tensor copies, the proxy fence.

   A tensor_load poisons its shared bytes, lands at a random later moment, and then counts its bytes down on the
   barrier; its agent is the barrier, so whoever waits for the phase has seen it. A tensor_store reads shared memory as
   late as its bulk_wait. fence_async copies the thread's own clock to the half that the asynchronous proxy sees. What
   is sent to another block of the cluster must have been seen by that block when it ends. A tensor map argument's
   buffer is a weft_tensor_map whose `buffer` is the argument number of the mapped memory, which holds all that it says.
 */
#include <string.h>

#include "base/program.h"
#include "codegen/kernel/simulate_internal.h"

enum { NAMED_BARRIERS = 16, RANK_MAX = 5 };

typedef struct mbarrier {
    bool live;
    int64_t count, pending, bytes;
    uint32_t phases, loads;    /* loads: clock of its agent */
    uint32_t *gathered, *seen; /* of arrivals so far; of the last full phase */
} mbarrier;

typedef struct named {
    int64_t arrived, expected;
    uint32_t generation;
    uint32_t *gathered, *seen;
} named;

typedef struct transfer {
    const weft_tensor_map *map;
    int64_t at[RANK_MAX];
    weft_sim_memory *shared, *global;
    size_t offset;
    mbarrier *barrier; /* loads */
    uint32_t *clock;   /* loads: what the phase then has seen */
    int thread;        /* stores */
    int64_t group;
    uint32_t action;
    bool store, reduce, committed, done;
} transfer;

typedef struct remote {
    uint32_t agent, clock;
    int rank;
    weft_kval by;
    const weft_sim_thread *thread;
} remote;

typedef struct weft_sim_async {
    int barriers;        /* of one block */
    int32_t *first;      /* of an mbarrier object */
    mbarrier *mbarriers; /* by block and number */
    named *names;        /* by block and id */
    named cluster;
    transfer *transfers;
    size_t transfer_count, transfer_capacity;
    remote *remotes;
    size_t remote_count, remote_capacity;
    int64_t *store_groups; /* of each thread: the one being filled */
} weft_sim_async;

bool weft_sim_is_hopper(weft_kop op) {
    return (op >= WEFT_K_named_sync && op <= WEFT_K_remote_store) || op == WEFT_K_mbarrier || op == WEFT_K_tensor_map ||
           op == WEFT_K_cluster_sync;
}

int weft_sim_hopper_agents(const weft_kernel *kernel) {
    int64_t count = 0;
    for (size_t n = 0; n < kernel->instr_count; n++)
        if (kernel->instrs[n].op == WEFT_K_mbarrier) count += kernel->instrs[n].i;
    return (int)count * kernel->cluster;
}

static uint32_t *new_clock(weft_sim *sim) {
    return weft_arena_allocate_array(&sim->group_arena, (size_t)sim->clock_words, sizeof(uint32_t));
}

static bool init_named(weft_sim *sim, named *name) {
    name->gathered = new_clock(sim);
    name->seen = new_clock(sim);
    return name->gathered && name->seen;
}

bool weft_sim_group_begin(weft_sim *sim) {
    const weft_kernel *kernel = sim->kernel;
    if (!kernel->capability->hopper || sim->group_threads == 1) return !sim->status;
    weft_arena *arena = &sim->group_arena;
    weft_sim_async *h = sim->hopper = weft_arena_allocate(arena, sizeof *h);
    if (!h) return weft_sim_no_memory(sim);
    h->first = weft_arena_allocate_array(arena, kernel->instr_count, sizeof *h->first);
    h->names = weft_arena_allocate_array(arena, (size_t)(sim->blocks_in_group * NAMED_BARRIERS), sizeof *h->names);
    h->store_groups = weft_arena_allocate_array(arena, (size_t)sim->group_threads, sizeof *h->store_groups);
    h->mbarriers = weft_arena_allocate_array(arena, (size_t)weft_sim_hopper_agents(kernel), sizeof *h->mbarriers);
    if (!h->first || !h->names || !h->store_groups || !h->mbarriers || !init_named(sim, &h->cluster))
        return weft_sim_no_memory(sim);
    for (size_t n = 0; n < kernel->instr_count; n++) {
        h->first[n] = h->barriers;
        if (kernel->instrs[n].op == WEFT_K_mbarrier) h->barriers += (int)kernel->instrs[n].i;
    }
    for (int n = 0; n < sim->blocks_in_group * NAMED_BARRIERS; n++)
        if (!init_named(sim, &h->names[n])) return weft_sim_no_memory(sim);
    for (int n = 0; n < sim->blocks_in_group * h->barriers; n++) {
        h->mbarriers[n].gathered = new_clock(sim);
        h->mbarriers[n].seen = new_clock(sim);
        if (!h->mbarriers[n].gathered || !h->mbarriers[n].seen) return weft_sim_no_memory(sim);
    }
    return weft_sim_matrix_begin(sim);
}

/* What the thread has done so far becomes part of `clock`. */
static void release_to(weft_sim *sim, weft_sim_thread *thread, uint32_t *clock) {
    weft_sim_join(clock, thread->clock, sim->clock_words);
    thread->clock[thread->index]++;
}

static int64_t scalar(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, int operand) {
    return (int64_t)*weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, operand));
}

/* -- barriers */

static mbarrier *barrier_at(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, int operand, int rank) {
    weft_kval object = weft_koperand(sim->kernel, instr, operand);
    int64_t index = scalar(sim, thread, instr, operand + 1), count = weft_kernel_get(sim->kernel, object)->i;
    if (index < 0 || index >= count || rank < 0 || rank >= sim->blocks_in_group) {
        weft_sim_fault(sim, thread, "out of bounds: mbarrier %lld of %lld", (long long)index, (long long)count);
        return NULL;
    }
    mbarrier *b = &sim->hopper->mbarriers[rank * sim->hopper->barriers + sim->hopper->first[object] + (int)index];
    if (b->live || instr->op == WEFT_K_mbarrier_init) return b;
    weft_sim_fault(sim, thread, "mbarrier %lld is used before its init", (long long)index);
    return NULL;
}

static void close_phase(weft_sim *sim, mbarrier *b) {
    if (b->pending || b->bytes) return;
    b->phases++;
    b->pending = b->count;
    memcpy(b->seen, b->gathered, (size_t)sim->clock_words * sizeof *b->seen);
    sim->progress = true;
}

static bool arrive(weft_sim *sim, weft_sim_thread *thread, mbarrier *b) {
    if (!b) return false;
    if (!b->pending) return weft_sim_fault(sim, thread, "mbarrier: more arrivals than its count");
    b->pending--;
    release_to(sim, thread, b->gathered);
    close_phase(sim, b);
    return true;
}

static bool note_remote(weft_sim *sim, weft_sim_thread *thread, uint32_t agent, uint32_t clock, int rank) {
    weft_sim_async *h = sim->hopper;
    if (rank == thread->block->rank) return true;
    if (h->remote_count == h->remote_capacity) {
        size_t capacity = h->remote_capacity ? 2 * h->remote_capacity : 64;
        remote *grown = weft_arena_allocate_array(&sim->group_arena, capacity, sizeof *grown);
        if (!grown) return weft_sim_no_memory(sim);
        if (h->remote_count) memcpy(grown, h->remotes, h->remote_count * sizeof *grown);
        h->remotes = grown;
        h->remote_capacity = capacity;
    }
    h->remotes[h->remote_count++] = (remote){agent, clock, rank, (weft_kval)thread->pc, thread};
    return true;
}

/* Arrival and, for `waits`, the wait; *out_passed false: try again. */
/* orders: memory accesses too; cluster_sync is relaxed. */
static bool named_barrier(weft_sim *sim, weft_sim_thread *thread, named *b, int64_t threads, bool waits, bool orders,
                          bool *out_passed) {
    if (!thread->waits) {
        if (b->expected && b->expected != threads)
            return weft_sim_fault(sim, thread, "named barrier: thread counts differ (%lld, %lld)",
                                  (long long)b->expected, (long long)threads);
        b->expected = threads;
        thread->wait_generation = b->generation;
        if (orders) release_to(sim, thread, b->gathered);
        if (++b->arrived == threads) {
            b->arrived = b->expected = 0;
            b->generation++;
            memcpy(b->seen, b->gathered, (size_t)sim->clock_words * sizeof *b->seen);
            sim->progress = true;
        }
        if (!waits) return true;
    }
    *out_passed = b->generation != thread->wait_generation;
    thread->waits = !*out_passed;
    if (*out_passed && orders) weft_sim_join(thread->clock, b->seen, sim->clock_words);
    return true;
}

static bool wait_for_phase(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, bool *out_passed) {
    mbarrier *b = barrier_at(sim, thread, instr, 0, thread->block->rank);
    if (!b) return false;
    *out_passed = (b->phases & 1) != (uint64_t)(scalar(sim, thread, instr, 2) & 1);
    if (*out_passed) weft_sim_join(thread->clock, b->seen, sim->clock_words);
    return true;
}

/* -- tensor copies */

static size_t swizzled(const weft_tensor_map *map, size_t address) {
    size_t rows = map->swizzle_bytes == 128 ? 7 : map->swizzle_bytes == 64 ? 3 : map->swizzle_bytes == 32 ? 1 : 0;
    return address ^ (address >> 7 & rows) << 4;
}

/* Moves every element of the box; out-of-bounds elements load as zero and are not stored. */
static bool move_box(weft_sim *sim, const transfer *t) {
    size_t element = (size_t)weft_dtype_bits(t->map->dtype) / 8;
    int64_t total = 1, extent[RANK_MAX], stride[RANK_MAX];
    for (int n = 0; n < t->map->rank; n++) {
        total *= t->map->box[n];
        stride[n] = (int64_t)element;
        if (!weft_dim_evaluate(sim->kernel->dims, t->map->extent[n], sim->symbols, &extent[n])) return false;
        if (n && !weft_dim_evaluate(sim->kernel->dims, t->map->stride_bytes[n], sim->symbols, &stride[n])) return false;
    }
    for (int64_t e = 0; e < total; e++) {
        int64_t rest = e, offset = 0;
        bool inside = true;
        for (int n = 0; n < t->map->rank; n++) {
            int64_t x = t->at[n] + rest % t->map->box[n];
            rest /= t->map->box[n];
            inside &= x >= 0 && x < extent[n];
            offset += x * stride[n];
        }
        inside &= offset >= 0 && (size_t)offset + element <= t->global->bytes;
        unsigned char *shared = t->shared->data + swizzled(t->map, t->offset + (size_t)e * element);
        if (t->store && inside && t->reduce) {
            double sum = weft_element_double(t->map->dtype, t->global->data + offset, 0) +
                         weft_element_double(t->map->dtype, shared, 0);
            weft_element_set_double(t->map->dtype, t->global->data + offset, 0, sum);
        } else if (t->store && inside) {
            memcpy(t->global->data + offset, shared, element);
        } else if (!t->store && inside) {
            memcpy(shared, t->global->data + offset, element);
        } else if (!t->store) {
            memset(shared, 0, element);
        }
    }
    return true;
}

static size_t box_bytes(const weft_tensor_map *map) {
    size_t bytes = (size_t)weft_dtype_bits(map->dtype) / 8;
    for (int n = 0; n < map->rank; n++) bytes *= (size_t)map->box[n];
    return bytes;
}

static void finish_transfer(weft_sim *sim, transfer *t) {
    if (t->done) return;
    t->done = true;
    if (!move_box(sim, t) && !sim->status)
        sim->status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %s: a tensor map has no extents", sim->kernel->name);
    if (t->store) return;
    t->barrier->bytes -= (int64_t)box_bytes(t->map);
    weft_sim_join(t->barrier->gathered, t->clock, sim->clock_words);
    close_phase(sim, t->barrier);
}

static transfer *add_transfer(weft_sim *sim) {
    weft_sim_async *h = sim->hopper;
    size_t kept = 0; /* finished ones give their place up */
    for (size_t n = 0; n < h->transfer_count; n++)
        if (!h->transfers[n].done) h->transfers[kept++] = h->transfers[n];
    h->transfer_count = kept;
    if (kept == h->transfer_capacity) {
        size_t capacity = kept ? 2 * kept : 64;
        transfer *grown = weft_arena_allocate_array(&sim->group_arena, capacity, sizeof *grown);
        if (!grown) return NULL;
        if (kept) memcpy(grown, h->transfers, kept * sizeof *grown);
        h->transfers = grown;
        h->transfer_capacity = capacity;
    }
    h->transfers[h->transfer_count] = (transfer){0};
    return &h->transfers[h->transfer_count++];
}

/* Does every element that the map describes lie in its memory? A card believes the map. Maps without elements describe
   none. */
static bool map_fits(weft_sim *sim, const transfer *t) {
    int64_t last = 0;
    for (int n = 0; n < t->map->rank; n++) {
        int64_t extent, stride = weft_dtype_bits(t->map->dtype) / 8, part;
        if (!weft_dim_evaluate(sim->kernel->dims, t->map->extent[n], sim->symbols, &extent)) return false;
        if (n && !weft_dim_evaluate(sim->kernel->dims, t->map->stride_bytes[n], sim->symbols, &stride)) return false;
        if (extent < 1) return true;
        if (__builtin_mul_overflow(extent - 1, stride, &part) || __builtin_add_overflow(last, part, &last))
            return false;
    }
    return last >= 0 && (size_t)last + (size_t)weft_dtype_bits(t->map->dtype) / 8 <= t->global->bytes;
}

/* Map, coordinates and the two memories of a copy; false after a fault. */
static bool describe(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, int map_operand,
                     int shared_operand, int first, transfer *t) {
    weft_kval map_value = weft_koperand(sim->kernel, instr, map_operand);
    const weft_sim_memory *map = &sim->buffers[weft_kernel_get(sim->kernel, map_value)->i];
    if (!map->data || map->bytes != sizeof(weft_tensor_map))
        return weft_sim_fault(sim, thread, "the tensor map is not bound");
    t->map = (const weft_tensor_map *)(const void *)map->data;
    if (t->map->rank != instr->operand_count - first || t->map->rank > RANK_MAX || t->map->buffer < 0 ||
        (size_t)t->map->buffer >= sim->kernel->argument_count)
        return weft_sim_fault(sim, thread, "%d coordinates for a map of rank %d", instr->operand_count - first,
                              t->map->rank);
    for (int n = 0; n < t->map->rank; n++) t->at[n] = scalar(sim, thread, instr, first + n);
    t->global = &sim->buffers[t->map->buffer];
    if (!map_fits(sim, t)) return weft_sim_fault(sim, thread, "out of bounds: a tensor map is larger than its memory");
    t->shared = weft_sim_memory_of(sim, thread, weft_koperand(sim->kernel, instr, shared_operand));
    int64_t offset = scalar(sim, thread, instr, shared_operand + 1);
    int64_t align = t->map->swizzle_bytes ? 8 * t->map->swizzle_bytes : 128;
    if (offset < 0 || offset % align)
        return weft_sim_fault(sim, thread, "misaligned: a tensor copy at byte %lld, no multiple of %lld",
                              (long long)offset, (long long)align);
    t->offset = (size_t)offset;
    int64_t start = t->at[0] * (weft_dtype_bits(t->map->dtype) / 8);
    if (start % 16) /* an illegal instruction on cards */
        return weft_sim_fault(sim, thread, "misaligned: a tensor copy from byte %lld of a row, no multiple of 16",
                              (long long)start);
    return true;
}

static bool load_into(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, int rank) {
    transfer t = {0};
    if (!describe(sim, thread, instr, 2, 0, 5, &t)) return false;
    mbarrier *b = t.barrier = barrier_at(sim, thread, instr, 3, rank);
    if (!b) return false;
    t.shared = &sim->blocks[rank].shared[t.shared - thread->block->shared];
    uint32_t agent = (uint32_t)(WEFT_SIM_KINDS * sim->group_threads + (int)(b - sim->hopper->mbarriers));
    weft_sim_actor actor = {
        .agent = agent, .clock = ++b->loads, .seen = thread->clock, .what = "tensor_load", .async = true};
    size_t bytes = box_bytes(t.map);
    if (!weft_sim_write(sim, thread, t.shared, t.offset, bytes, &actor)) return false;
    memset(t.shared->data + t.offset, 0xff, bytes);
    t.clock = new_clock(sim);
    transfer *place = t.clock ? add_transfer(sim) : NULL;
    if (!place) return weft_sim_no_memory(sim);
    memcpy(t.clock, thread->clock, (size_t)sim->clock_words * sizeof *t.clock);
    t.clock[agent] = actor.clock;
    *place = t;
    return note_remote(sim, thread, agent, actor.clock, rank);
}

/* The rows of a box that exist. */
static void count_box(weft_sim *sim, const transfer *t) {
    size_t element = (size_t)weft_dtype_bits(t->map->dtype) / 8;
    int64_t rows = 1, extent[RANK_MAX], stride[RANK_MAX];
    for (int n = 0; n < t->map->rank; n++) {
        stride[n] = (int64_t)element;
        if (n) rows *= t->map->box[n];
        if (!weft_dim_evaluate(sim->kernel->dims, t->map->extent[n], sim->symbols, &extent[n])) return;
        if (n && !weft_dim_evaluate(sim->kernel->dims, t->map->stride_bytes[n], sim->symbols, &stride[n])) return;
    }
    int64_t first = t->at[0] > 0 ? t->at[0] : 0, end = t->at[0] + t->map->box[0];
    if (end > extent[0]) end = extent[0];
    for (int64_t row = 0; row < rows && first < end; row++) {
        int64_t rest = row, offset = first * (int64_t)element;
        bool inside = true;
        for (int n = 1; n < t->map->rank; n++) {
            int64_t x = t->at[n] + rest % t->map->box[n];
            rest /= t->map->box[n];
            inside &= x >= 0 && x < extent[n];
            offset += x * stride[n];
        }
        if (inside) weft_sim_count_run(sim, (size_t)offset, (size_t)(end - first) * element, t->store);
    }
}

static bool tensor_load(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    int own = thread->block->rank;
    for (int rank = 0; rank < sim->blocks_in_group; rank++)
        if ((instr->i ? instr->i >> rank & 1 : rank == own) && !load_into(sim, thread, instr, rank)) return false;
    transfer t = {0};
    if (weft_sim_counts_on(sim) && describe(sim, thread, instr, 2, 0, 5, &t)) count_box(sim, &t);
    return true;
}

static bool tensor_store(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    transfer t = {.store = true,
                  .reduce = instr->i != 0,
                  .thread = thread->index,
                  .group = sim->hopper->store_groups[thread->index]};
    if (!describe(sim, thread, instr, 0, 1, 3, &t)) return false;
    t.action = ++thread->store_clock;
    weft_sim_actor actor = {.agent = weft_sim_agent(sim, thread->index, WEFT_SIM_STORES),
                            .clock = t.action,
                            .seen = thread->clock,
                            .what = "tensor_store",
                            .async = true};
    if (!weft_sim_read(sim, thread, t.shared, t.offset, box_bytes(t.map), &actor)) return false;
    transfer *place = add_transfer(sim);
    if (!place) return weft_sim_no_memory(sim);
    *place = t;
    if (weft_sim_counts_on(sim)) count_box(sim, &t);
    return true;
}

static bool bulk_wait(weft_sim *sim, weft_sim_thread *thread, int64_t left) {
    uint32_t *clock = &thread->clock[weft_sim_agent(sim, thread->index, WEFT_SIM_STORES)];
    for (size_t n = 0; n < sim->hopper->transfer_count; n++) {
        transfer *t = &sim->hopper->transfers[n];
        if (!t->store || t->thread != thread->index || !t->committed ||
            t->group >= sim->hopper->store_groups[thread->index] - left)
            continue;
        finish_transfer(sim, t);
        if (t->action > *clock) *clock = t->action;
    }
    return !sim->status;
}

static void bulk_commit(weft_sim *sim, const weft_sim_thread *thread) {
    for (size_t n = 0; n < sim->hopper->transfer_count; n++) {
        transfer *t = &sim->hopper->transfers[n];
        if (t->store && t->thread == thread->index) t->committed = true;
    }
    sim->hopper->store_groups[thread->index]++;
}

static bool remote_store(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    int rank = (int)scalar(sim, thread, instr, 4);
    mbarrier *b = barrier_at(sim, thread, instr, 2, rank);
    if (!b) return false;
    weft_sim_memory *own = weft_sim_memory_of(sim, thread, weft_koperand(sim->kernel, instr, 0));
    weft_sim_memory *shared = &sim->blocks[rank].shared[own - thread->block->shared];
    weft_sim_actor actor = weft_sim_self(thread, "remote_store");
    size_t offset = (size_t)scalar(sim, thread, instr, 1);
    if (!weft_sim_write(sim, thread, shared, offset, 16, &actor)) return false;
    for (int n = 0; n < 4; n++)
        memcpy(shared->data + offset + 4 * n, weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 5 + n)), 4);
    b->bytes -= 16;
    bool good = note_remote(sim, thread, actor.agent, actor.clock, rank);
    release_to(sim, thread, b->gathered);
    close_phase(sim, b);
    return good;
}

/* -- the group as a whole */

bool weft_sim_group_land(weft_sim *sim) {
    weft_sim_async *h = sim->hopper;
    if (!h || !h->transfer_count) return false;
    size_t start = weft_sim_random(sim) % h->transfer_count;
    for (size_t n = 0; n < h->transfer_count; n++) {
        transfer *t = &h->transfers[(n + start) % h->transfer_count];
        if (t->done || t->store) continue;
        finish_transfer(sim, t);
        return true;
    }
    return false;
}

bool weft_sim_group_end(weft_sim *sim) {
    weft_sim_async *h = sim->hopper;
    if (!h || sim->status) return !sim->status;
    for (size_t n = 0; n < h->transfer_count; n++) {
        const transfer *t = &h->transfers[n];
        if (t->done) continue;
        return weft_sim_fault(sim, &sim->threads[t->store ? t->thread : 0],
                              t->store ? t->committed ? "the block ends while a tensor_store reads its shared memory"
                                                      : "a tensor_store was never committed"
                                       : "the block ends while a tensor_load is under way");
    }
    for (size_t n = 0; n < h->remote_count; n++) {
        const remote *r = &h->remotes[n];
        bool seen = false;
        for (int t = 0; t < sim->kernel->threads; t++)
            seen |= sim->threads[r->rank * sim->kernel->threads + t].clock[r->agent] >= r->clock;
        if (!seen) return weft_sim_fault(sim, r->thread, "what %%%d sends may reach a block that has ended", r->by);
    }
    return weft_sim_matrix_end(sim);
}

bool weft_sim_hopper(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, bool *out_passed) {
    int own = thread->block->rank;
    *out_passed = true;
    if (weft_sim_random(sim) % 8 == 0) weft_sim_group_land(sim);
    switch ((int)instr->op) {
    case WEFT_K_mbarrier_init: {
        mbarrier *b = barrier_at(sim, thread, instr, 0, own);
        if (!b) return false;
        b->live = true;
        b->count = b->pending = instr->i;
        return true;
    }
    case WEFT_K_mbarrier_expect: {
        mbarrier *b = barrier_at(sim, thread, instr, 0, own);
        if (b) b->bytes += instr->i;
        return arrive(sim, thread, b);
    }
    case WEFT_K_mbarrier_arrive: return arrive(sim, thread, barrier_at(sim, thread, instr, 0, own));
    case WEFT_K_mbarrier_arrive_cta: {
        int rank = (int)scalar(sim, thread, instr, 2);
        if (!note_remote(sim, thread, (uint32_t)thread->index, thread->clock[thread->index], rank)) return false;
        return arrive(sim, thread, barrier_at(sim, thread, instr, 0, rank));
    }
    case WEFT_K_mbarrier_wait: return wait_for_phase(sim, thread, instr, out_passed);
    case WEFT_K_cluster_sync:
        return named_barrier(sim, thread, &sim->hopper->cluster, sim->group_threads, true, false, out_passed);
    case WEFT_K_named_sync:
    case WEFT_K_named_arrive: {
        int64_t id = scalar(sim, thread, instr, 0);
        if (id < 1 || id >= NAMED_BARRIERS) return weft_sim_fault(sim, thread, "no named barrier %lld", (long long)id);
        return named_barrier(sim, thread, &sim->hopper->names[own * NAMED_BARRIERS + (int)id], instr->i,
                             instr->op == WEFT_K_named_sync, true, out_passed);
    }
    case WEFT_K_tensor_load: return tensor_load(sim, thread, instr);
    case WEFT_K_tensor_store: return tensor_store(sim, thread, instr);
    case WEFT_K_bulk_commit: bulk_commit(sim, thread); return true;
    case WEFT_K_bulk_wait: return bulk_wait(sim, thread, instr->i);
    case WEFT_K_fence_async: thread->clock[sim->agents + thread->index] = thread->clock[thread->index]; return true;
    case WEFT_K_remote_store: return remote_store(sim, thread, instr);
    default: return true; /* objects, prefetches, the init fence */
    }
}
