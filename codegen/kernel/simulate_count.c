/* What a launch moves, for tests of builders: sectors of 32 bytes that the accesses of a warp touch in buffers, and
   passes over the 32 banks of shared memory.

   An access is what one instruction does in all lanes of a warp the same time round; lanes that are masked or elsewhere
   have no part in it. A vector that is aligned to less than its size is several instructions, as in printed code; the
   sectors of its pieces count once, and what a block read shortly before is taken from a cache of 32 KB. Tensor copies
   count the rows of their boxes that exist, a copy to several blocks once; what a matrix unit reads from swizzled tiles
   is free of conflicts and is not counted. Targets without a known warp are counted as if it had 32 lanes. Source: CUDA
   programming guide, compute capability 5.x and later, shared memory. */
#include <string.h>

#include "codegen/kernel/simulate_internal.h"

enum { LANES_MAX = 128, SECTOR = 32, BANKS = 32, WIDEST = 16, CACHED = 1024 /* sectors of a block's first cache */ };

typedef struct access_key {
    int64_t block;
    int32_t pc, warp, piece; /* piece -1: all of them, in a buffer */
    uint32_t time;
} access_key;

typedef struct access {
    struct access *next;
    const weft_sim_memory *memory;
    bool write, cached;
    int count; /* of a buffer: pieces in any order; of shared memory: lanes, by their number */
    struct {
        uint32_t offset, bytes; /* bytes 0: a lane that has no part in it */
    } lane[LANES_MAX];
} access;

bool weft_sim_count_begin(weft_sim *sim) {
    if (!weft_sim_counts_on(sim)) return true;
    size_t cells = (size_t)sim->group_threads * sim->kernel->instr_count;
    sim->executed = weft_arena_allocate_array(&sim->group_arena, cells, sizeof *sim->executed);
    weft_map_init(sim->allocator, &sim->accesses);
    sim->first_access = sim->last_access = NULL;
    return sim->executed ? true : weft_sim_no_memory(sim);
}

/* -- one access of a warp */

/* Sectors of a read that the block has read before are in its first cache, when they were among the last that fell on
   the same place of it. Asynchronous copies of 16 bytes pass it by. */
static int64_t sectors_of(const access *a, size_t *cache) {
    size_t seen[LANES_MAX * 2], count = 0, missed = 0;
    for (int i = 0; i < a->count; i++)
        for (size_t s = a->lane[i].offset / SECTOR; s <= (a->lane[i].offset + a->lane[i].bytes - 1u) / SECTOR; s++) {
            size_t n = 0, name = (s + 1) * 64 + (size_t)(a->memory->number & 63),
                   *place = &cache[(s + (size_t)a->memory->number * 331) % CACHED];
            while (n < count && seen[n] != s) n++;
            if (n < count || count == sizeof seen / sizeof *seen) continue;
            seen[count++] = s;
            if (a->write || !a->cached || *place != name) missed++;
            if (!a->write && a->cached) *place = name;
        }
    return (int64_t)missed;
}

/* Passes for lanes first .. end - 1, which are served together. */
static int64_t passes_of(const access *a, int first, int end) {
    size_t words[BANKS][LANES_MAX];
    int held[BANKS] = {0}, worst = 0;
    for (int i = first; i < end; i++)
        for (size_t word = a->lane[i].offset / 4;
             a->lane[i].bytes && word <= (a->lane[i].offset + a->lane[i].bytes - 1u) / 4; word++) {
            int bank = (int)(word % BANKS), n = 0;
            while (n < held[bank] && words[bank][n] != word) n++;
            if (n == held[bank] && n < LANES_MAX) words[bank][held[bank]++] = word;
            if (held[bank] > worst) worst = held[bank];
        }
    return worst;
}

static void close_access(weft_sim *sim, const access *a, size_t *cache) {
    weft_sim_counts *c = sim->counts;
    if (!a->memory->shared) {
        *(a->write ? &c->stored_sectors : &c->loaded_sectors) += sectors_of(a, cache);
        return;
    }
    uint32_t widest = 4;
    for (int i = 0; i < a->count; i++) widest = a->lane[i].bytes > widest ? a->lane[i].bytes : widest;
    int together = (int)(4 * BANKS / widest);
    for (int i = 0; i < a->count; i += together) {
        int64_t passes = passes_of(a, i, i + together < a->count ? i + together : a->count);
        c->shared_passes += passes;
        c->shared_fewest += passes > 0;
    }
}

void weft_sim_count_end(weft_sim *sim) {
    if (!weft_sim_counts_on(sim)) return;
    size_t cache[CACHED] = {0};
    for (const access *a = sim->first_access; a && !sim->status; a = a->next) close_access(sim, a, cache);
    weft_map_deinit(&sim->accesses);
    sim->first_access = sim->last_access = NULL;
}

/* -- what threads report */

static access *find_access(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory, int piece,
                           bool write) {
    int warp = sim->warp > 1 ? sim->warp : 32;
    access_key key;
    memset(&key, 0, sizeof key);
    key.block = thread->block->index, key.pc = (int32_t)thread->pc, key.warp = thread->thread / warp;
    key.piece = memory->shared ? piece : -1;
    key.time = sim->executed[(size_t)thread->index * sim->kernel->instr_count + thread->pc];
    access *a = weft_map_find(&sim->accesses, &key, sizeof key);
    if (a) return a;
    a = weft_arena_allocate(&sim->group_arena, sizeof *a);
    if (!a || !weft_map_put(&sim->accesses, &key, sizeof key, a)) {
        weft_sim_no_memory(sim);
        return NULL;
    }
    *a = (access){.memory = memory, .write = write};
    *(sim->last_access ? &sim->last_access->next : &sim->first_access) = a;
    return sim->last_access = a;
}

bool weft_sim_count_access(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory, size_t offset,
                           size_t bytes, size_t width, int piece, bool write) {
    if (width > WIDEST || (!memory->shared && weft_sim_instr(sim, thread)->op != WEFT_K_copy_async)) width = WIDEST;
    for (size_t at = 0; at < bytes; at += width) {
        access *a = find_access(sim, thread, memory, piece++, write);
        if (!a) return false;
        int lane = memory->shared ? thread->thread % (sim->warp > 1 ? sim->warp : 32) : a->count;
        if (lane == LANES_MAX) return true; /* of a buffer: neighbours whose sectors are there */
        a->cached = weft_sim_instr(sim, thread)->op != WEFT_K_copy_async || width < WIDEST;
        a->lane[lane].offset = (uint32_t)(offset + at);
        a->lane[lane].bytes = (uint32_t)(at + width <= bytes ? width : bytes - at);
        if (a->count <= lane) a->count = lane + 1;
    }
    return true;
}

void weft_sim_count_done(weft_sim *sim, const weft_sim_thread *thread) {
    sim->executed[(size_t)thread->index * sim->kernel->instr_count + thread->pc]++;
}

/* Eight rows of 16 bytes are one pass of a fragment. */
void weft_sim_count_rows(weft_sim *sim, const size_t *offsets) {
    access a = {.count = 8};
    for (int i = 0; i < 8; i++) a.lane[i].offset = (uint32_t)offsets[i], a.lane[i].bytes = 16;
    sim->counts->shared_passes += passes_of(&a, 0, 8);
    sim->counts->shared_fewest++;
}

void weft_sim_count_run(weft_sim *sim, size_t offset, size_t bytes, bool write) {
    if (!bytes) return;
    int64_t sectors = (int64_t)((offset + bytes - 1) / SECTOR - offset / SECTOR) + 1;
    *(write ? &sim->counts->stored_sectors : &sim->counts->loaded_sectors) += sectors;
}
