/* The pool. A run opens pieces, everybody claims pieces by compare-and-swap, the caller returns when the last is done.

   Even split (chunk 0): one piece per thread; `ticket` of piece i holds run * 2 while it is open and run * 2 + 1 once
   claimed. A thread tries its own piece first (the same thread meets the same piece in every run: warm caches), then
   the others', so a worker that the system does not schedule delays nobody.
   Chunks: `left` holds (run, pieces left); claiming takes one.
   Invariant: fields of the task are read only between claiming a piece and reporting it done, and a run ends when all
   its pieces are done; so a late worker, which claims nothing, never reads a task that is being replaced.
   Workers spin, then yield, then sleep on a condition variable; `sleepers` is checked after the run is published, and
   the run after announcing sleep (both sequentially consistent), so no wake-up is lost. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/thread.h"

enum { CACHE_LINE = 64, SPIN_ROUNDS = 2000, YIELD_ROUNDS = 100, RUN_BITS = 32 };

typedef struct weft_pool_slot {
    _Alignas(CACHE_LINE) atomic_uint_fast64_t ticket;
    weft_pool *pool;
    int thread;
    pthread_t handle;
} weft_pool_slot;

typedef struct weft_pool_task {
    weft_pool_function function;
    void *self;
    int64_t count, chunk, pieces;
} weft_pool_task;

struct weft_pool {
    weft_allocator allocator;
    int thread_count;
    int spin_rounds; /* 0 when there are more threads than cores */
    pthread_mutex_t turn;
    pthread_mutex_t sleep_lock;
    pthread_cond_t wake;
    weft_pool_slot *slots; /* thread_count; slot 0 is the caller's */
    weft_pool_task task;
    _Alignas(CACHE_LINE) atomic_uint_fast64_t run;
    atomic_bool stop;
    atomic_int sleepers;
    _Alignas(CACHE_LINE) atomic_uint_fast64_t left;
    _Alignas(CACHE_LINE) atomic_int_fast64_t pending;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Piece i of n of [0, count), without overflow. */
static int64_t even_bound(int64_t count, int64_t i, int64_t n) {
    int64_t quotient = count / n, rest = count % n;
    return quotient * i + (i < rest ? i : rest);
}

static void do_piece(weft_pool *pool, int thread, int64_t piece) {
    const weft_pool_task *task = &pool->task;
    int64_t lo, hi;
    if (task->chunk) {
        lo = piece * task->chunk;
        hi = task->count - lo < task->chunk ? task->count : lo + task->chunk;
    } else {
        lo = even_bound(task->count, piece, task->pieces);
        hi = even_bound(task->count, piece + 1, task->pieces);
    }
    task->function(task->self, thread, lo, hi);
    atomic_fetch_sub_explicit(&pool->pending, 1, memory_order_release);
}

static bool claim_slot(weft_pool *pool, int slot, uint64_t run) {
    uint_fast64_t open = run * 2;
    return atomic_load_explicit(&pool->slots[slot].ticket, memory_order_relaxed) == open &&
           atomic_compare_exchange_strong_explicit(&pool->slots[slot].ticket, &open, run * 2 + 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Takes a chunk of this run; false when none is left. */
static bool claim_chunk(weft_pool *pool, uint64_t run, int64_t *out_piece) {
    uint_fast64_t left = atomic_load_explicit(&pool->left, memory_order_relaxed);
    do {
        if (left >> RUN_BITS != (run & UINT32_MAX) || !(left & UINT32_MAX)) return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->left, &left, left - 1, memory_order_acquire,
                                                    memory_order_relaxed));
    *out_piece = pool->task.pieces - (int64_t)(left & UINT32_MAX);
    return true;
}

static void take_pieces(weft_pool *pool, int thread, uint64_t run) {
    for (int i = 0; i < pool->thread_count; i++) {
        int slot = thread + i < pool->thread_count ? thread + i : thread + i - pool->thread_count;
        if (claim_slot(pool, slot, run)) do_piece(pool, thread, slot);
    }
    int64_t piece;
    while (claim_chunk(pool, run, &piece)) do_piece(pool, thread, piece);
}

static void sleep_until_run(weft_pool *pool, uint64_t seen) {
    (void)pthread_mutex_lock(&pool->sleep_lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->run) == seen && !atomic_load(&pool->stop))
        (void)pthread_cond_wait(&pool->wake, &pool->sleep_lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    (void)pthread_mutex_unlock(&pool->sleep_lock);
}

static void *worker(void *argument) {
    weft_pool_slot *slot = argument;
    weft_pool *pool = slot->pool;
    uint64_t seen = 0;
    while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
        uint64_t run = seen;
        for (int round = 0; run == seen && round < pool->spin_rounds; round++) {
            run = atomic_load_explicit(&pool->run, memory_order_acquire);
            if (run == seen) relax();
        }
        for (int round = 0; run == seen && round < YIELD_ROUNDS; round++) {
            run = atomic_load_explicit(&pool->run, memory_order_acquire);
            if (run == seen) (void)sched_yield();
        }
        if (run == seen) {
            sleep_until_run(pool, seen);
            continue;
        }
        seen = run;
        take_pieces(pool, slot->thread, run);
    }
    return NULL;
}

static void stop_workers(weft_pool *pool, int started) {
    (void)pthread_mutex_lock(&pool->sleep_lock);
    atomic_store(&pool->stop, true);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->sleep_lock);
    for (int i = 1; i < started; i++) (void)pthread_join(pool->slots[i].handle, NULL);
}

static void pool_free(weft_pool *pool) {
    (void)pthread_cond_destroy(&pool->wake);
    (void)pthread_mutex_destroy(&pool->sleep_lock);
    (void)pthread_mutex_destroy(&pool->turn);
    weft_allocator allocator = pool->allocator;
    size_t slots_bytes = (size_t)pool->thread_count * sizeof *pool->slots;
    if (pool->slots) allocator.resize(allocator.self, pool->slots, slots_bytes, 0, CACHE_LINE);
    allocator.resize(allocator.self, pool, sizeof *pool, 0, CACHE_LINE);
}

/* A pool without workers; NULL without memory. */
static weft_pool *pool_allocate(weft_allocator allocator, int thread_count) {
    weft_pool *pool = allocator.resize(allocator.self, NULL, 0, sizeof *pool, CACHE_LINE);
    if (!pool) return NULL;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *pool = (weft_pool){.allocator = allocator,
                        .thread_count = thread_count,
                        .spin_rounds = cores > 0 && thread_count > cores ? 0 : SPIN_ROUNDS};
    bool turn = !pthread_mutex_init(&pool->turn, NULL), lock = !pthread_mutex_init(&pool->sleep_lock, NULL);
    bool wake = !pthread_cond_init(&pool->wake, NULL);
    pool->slots = allocator.resize(allocator.self, NULL, 0, (size_t)thread_count * sizeof *pool->slots, CACHE_LINE);
    if (!pool->slots || !turn || !lock || !wake) {
        pool_free(pool);
        return NULL;
    }
    for (int i = 0; i < thread_count; i++) {
        pool->slots[i].pool = pool;
        pool->slots[i].thread = i;
        atomic_init(&pool->slots[i].ticket, 1); /* claimed, of run 0 */
    }
    return pool;
}

weft_status weft_pool_create(weft_allocator allocator, int thread_count, weft_pool **out_pool) {
    *out_pool = NULL;
    if (thread_count < 1) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a pool of %d threads", thread_count);
    weft_pool *pool = pool_allocate(allocator, thread_count);
    if (!pool) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a pool of %d threads", thread_count);
    for (int i = 1; i < thread_count; i++) {
        if (!pthread_create(&pool->slots[i].handle, NULL, worker, &pool->slots[i])) continue;
        stop_workers(pool, i);
        pool_free(pool);
        return WEFT_STATUS(WEFT_UNAVAILABLE, "the system refused thread %d of %d", i + 1, thread_count);
    }
    *out_pool = pool;
    return NULL;
}

void weft_pool_release(weft_pool *pool) {
    if (!pool) return;
    stop_workers(pool, pool->thread_count);
    pool_free(pool);
}

int weft_pool_thread_count(const weft_pool *pool) { return pool->thread_count; }

static void publish(weft_pool *pool, const weft_pool_task *task) {
    uint64_t run = atomic_load_explicit(&pool->run, memory_order_relaxed) + 1;
    pool->task = *task;
    atomic_store_explicit(&pool->pending, task->pieces, memory_order_relaxed);
    if (task->chunk)
        atomic_store_explicit(&pool->left, (run & UINT32_MAX) << RUN_BITS | (uint64_t)task->pieces,
                              memory_order_release);
    else
        for (int i = 0; i < task->pieces; i++)
            atomic_store_explicit(&pool->slots[i].ticket, run * 2, memory_order_release);
    atomic_store(&pool->run, run);
    if (!atomic_load(&pool->sleepers)) return;
    (void)pthread_mutex_lock(&pool->sleep_lock);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->sleep_lock);
}

void weft_pool_run(weft_pool *pool, int64_t count, int64_t chunk, weft_pool_function function, void *self) {
    if (count <= 0) return;
    weft_pool_task task = {.function = function, .self = self, .count = count, .chunk = chunk > 0 ? chunk : 0};
    if (task.chunk) {
        /* The piece counter has 32 bits; more pieces than 2^30 become larger. */
        if ((count - 1) / task.chunk >= 1 << 30) task.chunk = (count - 1) / (1 << 30) + 1;
        task.pieces = (count - 1) / task.chunk + 1;
    } else {
        task.pieces = count < pool->thread_count ? count : pool->thread_count;
    }
    (void)pthread_mutex_lock(&pool->turn);
    if (task.pieces == 1 || pool->thread_count == 1) {
        for (int64_t piece = 0; piece < task.pieces; piece++) {
            int64_t lo = task.chunk ? piece * task.chunk : 0;
            function(self, 0, lo, task.chunk && count - lo > task.chunk ? lo + task.chunk : count);
        }
    } else {
        publish(pool, &task);
        take_pieces(pool, 0, atomic_load_explicit(&pool->run, memory_order_relaxed));
        for (int round = 0; atomic_load_explicit(&pool->pending, memory_order_acquire); round++) {
            if (round < pool->spin_rounds)
                relax();
            else
                (void)sched_yield();
        }
    }
    (void)pthread_mutex_unlock(&pool->turn);
}
