/* State of the simulator, shared by simulate*.c.

   A launch runs group after group; a group is a cluster of blocks (one block when there are no clusters) whose threads
   advance together. A thread is a program counter and its values: no native stack, so a switch costs nothing.
   Values: 64 bits a lane; floats as their bits, signed integers sign-extended, unsigned zero-extended, BOOL 0 or 1.

   Happens-before. An agent is something that acts in order: every thread, and per thread its asynchronous copies, its
   asynchronous stores and its matrix operations; every mbarrier is the agent of the loads it counts. clock[a] of a
   thread is how many actions of agent a it has seen finish. Memory cells (one an element) remember their last writer
   and readers; an access that has not seen them is a race. Cells of global memory also remember the group: groups are
   never ordered. Read next: simulate.c (threads), simulate_values.c, simulate_memory.c, simulate_warp.c. */
#ifndef WEFT_CODEGEN_KERNEL_SIMULATE_INTERNAL_H
#define WEFT_CODEGEN_KERNEL_SIMULATE_INTERNAL_H

#include "base/map.h"
#include "codegen/kernel/scalar.h"
#include "codegen/kernel/simulate.h"

enum { WEFT_SIM_NOBODY = -1, WEFT_SIM_SPARE_CLOCKS = 4096, WEFT_SIM_CALLS = 8 };

/* Several concurrent readers of a cell: a few by name, many as a clock of all agents. */
enum { WEFT_SIM_READERS = 12 };
typedef struct weft_sim_readers {
    uint32_t count; /* above WEFT_SIM_READERS: clock */
    uint32_t agent[WEFT_SIM_READERS], seen[WEFT_SIM_READERS];
    uint32_t *clock; /* kept when the record is used again */
} weft_sim_readers;

typedef struct weft_sim_cell {
    uint32_t writer, writer_clock, reader, reader_clock;
    int32_t writer_group, reader_group; /* WEFT_SIM_NOBODY = none so far */
    bool atomic;                        /* the last write was atomic */
    bool other_group;                   /* a group before reader_group read it too */
    bool defined;                       /* shared memory: written at all */
    bool generic;                       /* last writer used the generic proxy */
    weft_sim_readers *readers;          /* of reader_group, or NULL */
} weft_sim_cell;

typedef struct weft_sim_memory {
    unsigned char *data;
    size_t bytes;
    size_t cell_bytes;
    weft_sim_cell *cells;
    const char *name;
    int number; /* of the argument */
    bool shared;
} weft_sim_memory;

/* Who touches memory, with what it has seen. */
typedef struct weft_sim_actor {
    uint32_t agent, clock;
    const uint32_t *seen;
    bool atomic;
    const char *what;
    bool async; /* the asynchronous proxy: sees generic writes only behind a fence_async */
} weft_sim_actor;

typedef enum weft_sim_wait {
    WEFT_SIM_RUNNING,
    WEFT_SIM_BARRIER, /* of the block */
    WEFT_SIM_WARP,    /* for the other lanes of the warp at the same instruction */
    WEFT_SIM_EVENT,   /* named barriers, mbarriers, cluster barrier: retried until they pass */
    WEFT_SIM_DONE
} weft_sim_wait;

typedef struct weft_sim_copy { /* copy_async under way */
    weft_sim_memory *to, *from;
    size_t to_offset, from_offset;
    int bytes;
    bool zero, landed;
    uint32_t clock;
    int64_t group; /* index of its commit group */
} weft_sim_copy;

typedef struct weft_sim_thread {
    int index;  /* in the group */
    int thread; /* in its block */
    struct weft_sim_block *block;
    size_t pc;
    weft_sim_wait wait;
    uint64_t *slots;  /* values, vars and regs, by weft_sim.slot */
    uint8_t *defined; /* one a slot: regs and their lanes */
    uint32_t *clock;  /* by agent */
    uint32_t *fenced; /* Hopper: the part of clock known to the asynchronous proxy */
    weft_sim_copy *copies;
    size_t copy_count, copy_capacity;
    int64_t group_open;           /* index of the copy group being filled */
    uint32_t copy_clock;          /* copies issued so far */
    size_t calls[WEFT_SIM_CALLS]; /* call instructions being executed */
    int call_depth;
    uint32_t matrix_clock, store_clock; /* asynchronous actions issued so far */
    bool waits;                         /* has arrived at a named or cluster barrier, generation wait_generation */
    uint32_t wait_generation;
    int64_t steps;
} weft_sim_thread;

typedef struct weft_sim_block {
    int64_t index;           /* in the grid */
    int rank;                /* in the cluster */
    weft_sim_memory *shared; /* by shared object */
    uint32_t *barrier_clock;
    int barrier_arrived, done;
    size_t barrier_pc;
} weft_sim_block;

typedef struct weft_sim {
    const weft_kernel *kernel;
    weft_allocator allocator;
    const int64_t *symbols;
    uint64_t random;
    int64_t grid;
    int warp, group_threads, blocks_in_group, agents;
    int clock_words;               /* of a clock: agents, or twice that */
    struct weft_sim_async *hopper; /* simulate_hopper.c */
    struct weft_sim_warp *warps;   /* simulate_matrix.c */
    int64_t group;                 /* number of the running one */
    size_t slot_count;
    uint32_t *slot;   /* first slot of an instruction */
    int32_t *partner; /* of a branch: the next branch or the end; of an end: itself; of test: the end of its while */
    int32_t *opener;  /* of a branch or an end: the instruction that opened the nest */
    int32_t *shared_index; /* of a shared instruction: index into block->shared; -1 */
    int shared_count;
    int64_t *extents;         /* by argument */
    weft_sim_memory *buffers; /* by argument */
    weft_sim_thread *threads;
    weft_sim_block *blocks;
    weft_sim_readers *spare_readers[WEFT_SIM_SPARE_CLOCKS]; /* released ones of this group */
    size_t spare_count;
    weft_arena arena;        /* of the launch */
    weft_arena group_arena;  /* of the running group: dropped with it */
    weft_sim_counts *counts; /* NULL: nothing is counted */
    weft_map accesses;       /* simulate_count.c, of the running group */
    struct access *first_access, *last_access;
    uint32_t *executed; /* by thread and instruction: accesses so far */
    bool progress;
    weft_status status; /* the first fault */
} weft_sim;

/* Records a fault of the thread's current instruction; false, so that evaluators can return it. */
bool weft_sim_fault(weft_sim *sim, const weft_sim_thread *thread, const char *format, ...) WEFT_PRINTF(3, 4);
bool weft_sim_no_memory(weft_sim *sim);
uint64_t weft_sim_random(weft_sim *sim);
static inline uint64_t *weft_sim_value(const weft_sim *sim, const weft_sim_thread *thread, weft_kval value) {
    return thread->slots + sim->slot[value];
}
static inline const weft_kinstr *weft_sim_instr(const weft_sim *sim, const weft_sim_thread *thread) {
    return &sim->kernel->instrs[thread->pc];
}

/* simulate_values.c: instructions that only compute. */
bool weft_sim_compute(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr);

/* simulate_memory.c: loads, stores, atomics, asynchronous copies, and the checks of every access. */
bool weft_sim_access(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr);
/* The object behind a buffer or shared operand. */
weft_sim_memory *weft_sim_memory_of(weft_sim *sim, weft_sim_thread *thread, weft_kval value);
/* Bounds, races, definedness of `bytes` from `offset`; false after a fault. */
bool weft_sim_read(weft_sim *sim, weft_sim_thread *thread, weft_sim_memory *memory, size_t offset, size_t bytes,
                   const weft_sim_actor *actor);
bool weft_sim_write(weft_sim *sim, weft_sim_thread *thread, weft_sim_memory *memory, size_t offset, size_t bytes,
                    const weft_sim_actor *actor);
weft_sim_actor weft_sim_self(const weft_sim_thread *thread, const char *what);
bool weft_sim_copy_async(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr);
bool weft_sim_copy_wait(weft_sim *sim, weft_sim_thread *thread, int64_t left);
void weft_sim_copies_land(weft_sim *sim, weft_sim_thread *thread); /* some of them, at random */

/* simulate_count.c. The reports of threads: only when weft_sim_counts_on. */
static inline bool weft_sim_counts_on(const weft_sim *sim) { return sim->counts && sim->kernel->threads > 1; }
bool weft_sim_count_begin(weft_sim *sim);
void weft_sim_count_end(weft_sim *sim);
/* `bytes` next to each other by instructions of `width` bytes, the first one number `piece` of the instruction. */
bool weft_sim_count_access(weft_sim *sim, const weft_sim_thread *thread, const weft_sim_memory *memory, size_t offset,
                           size_t bytes, size_t width, int piece, bool write);
void weft_sim_count_done(weft_sim *sim, const weft_sim_thread *thread); /* behind the last piece of the instruction */
void weft_sim_count_rows(weft_sim *sim, const size_t *offsets);         /* eight of a fragment */
void weft_sim_count_run(weft_sim *sim, size_t offset, size_t bytes, bool write);

/* simulate_warp.c: instructions that all lanes of a warp do together, run when all have arrived. */
bool weft_sim_is_collective(weft_kop op);
bool weft_sim_collective(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr);

/* simulate_matrix.c: asynchronous matrix operations, once a warp */
bool weft_sim_is_matrix(weft_kop op);
bool weft_sim_matrix(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr);
bool weft_sim_matrix_begin(weft_sim *sim);
bool weft_sim_matrix_end(weft_sim *sim);

/* simulate_hopper.c: asynchronous loads, stores and matrix operations, and the barriers that order them. */
bool weft_sim_is_hopper(weft_kop op);
int weft_sim_hopper_agents(const weft_kernel *kernel); /* beyond those of the threads */
bool weft_sim_group_begin(weft_sim *sim);
bool weft_sim_group_end(weft_sim *sim);  /* checks that nothing is left under way */
bool weft_sim_group_land(weft_sim *sim); /* something that was under way lands; false when there is nothing */
bool weft_sim_hopper(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, bool *out_passed);

static inline void weft_sim_join(uint32_t *into, const uint32_t *from, int words) {
    for (int a = 0; a < words; a++) into[a] = into[a] > from[a] ? into[a] : from[a];
}
/* Agents of one thread: itself, its copies, its bulk stores, its matrix operations. */
/* States of a register in weft_sim_thread.defined. */
enum { WEFT_SIM_UNSET, WEFT_SIM_SET, WEFT_SIM_IN_FLIGHT, WEFT_SIM_BEING_READ };
enum { WEFT_SIM_SELF, WEFT_SIM_COPIES, WEFT_SIM_STORES, WEFT_SIM_MATRIX, WEFT_SIM_KINDS };
static inline uint32_t weft_sim_agent(const weft_sim *sim, int thread_index, int kind) {
    return (uint32_t)(kind * sim->group_threads + thread_index);
}

#endif
