/* Threads of a threadgroup as fibers on one processor. A fiber runs until its thread ends or meets others; one that
   ends without meeting anybody leaves its stack to the next. Found: barriers that not all threads reach, threads that
   wait at different ones, simdgroups whose lanes are apart. Read fake.h first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/metal/fake/fake.h"

enum { THREADS_MAX = 1024, STACK_BYTES = 256 << 10, SIMD = 32 };
typedef enum fiber_state { READY, AT_BARRIER, AT_EXCHANGE, ENDED } fiber_state;

typedef struct fiber {
    void *stack_pointer;
    fiber_state state;
    void *site;
    int exchanges;
} fiber;

typedef struct group_run {
    const fake_code *code;
    fake_shared *shared;
    fake_call call;
    int threads, running;
    fiber fibers[THREADS_MAX];
    uint32_t slots[2][THREADS_MAX];
    void *scheduler; /* its stack pointer */
    char *stacks;
    int launches;
    const char *problem;
} group_run;

static group_run run; /* one dispatch at a time: device.c holds a lock */

/* Saves what a call keeps on the stack, swaps stacks, returns on the other one. */
void fake_switch(void **save, void *load);
__asm__(".text\n.globl fake_switch\n.hidden fake_switch\nfake_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void yield(fiber_state state, void *site) {
    fiber *own = &run.fibers[run.running];
    own->state = state;
    own->site = site;
    fake_switch(&own->stack_pointer, run.scheduler);
}

static void fiber_main(void) {
    fake_call call = run.call;
    call.local = (uint32_t)run.running;
    run.code->run(&call);
    yield(ENDED, NULL);
    fake_die("an ended thread runs on");
}

static void start(fiber *own, char *stack) {
    void **top = (void **)(void *)(stack + STACK_BYTES - 64);
    *--top = NULL; /* keeps the stack as at a call */
    *--top = (void *)(uintptr_t)fiber_main;
    for (int i = 0; i < 6; i++) *--top = NULL;
    *own = (fiber){.stack_pointer = top};
}

static void resume(int thread) {
    run.running = thread;
    fake_switch(&run.scheduler, run.fibers[thread].stack_pointer);
}

/* Lanes that wait together go on together. */
static bool release_simdgroups(void) {
    bool released = false;
    for (int first = 0; first < run.threads; first += SIMD) {
        int end = first + SIMD < run.threads ? first + SIMD : run.threads, waiting = 0, ended = 0;
        void *site = NULL;
        for (int i = first; i < end; i++) {
            if (run.fibers[i].state == AT_EXCHANGE) {
                if (waiting++ && run.fibers[i].site != site) run.problem = "lanes of a simdgroup meet at two places";
                site = run.fibers[i].site;
            }
            ended += run.fibers[i].state == ENDED;
        }
        if (waiting == 0) continue;
        if (ended) run.problem = "lanes of a simdgroup have ended where others meet";
        if (waiting < end - first) continue;
        for (int i = first; i < end; i++) run.fibers[i].state = READY;
        released = true;
    }
    return released;
}

/* false: the group is done or stuck. */
static bool release_barrier(void) {
    int waiting = 0, ended = 0;
    void *site = NULL;
    for (int i = 0; i < run.threads; i++) {
        if (run.fibers[i].state == AT_BARRIER) {
            if (waiting++ && run.fibers[i].site != site) run.problem = "threads wait at two barriers";
            site = run.fibers[i].site;
        }
        ended += run.fibers[i].state == ENDED;
    }
    if (ended == run.threads) return false;
    if (waiting < run.threads && !run.problem)
        run.problem = waiting ? "not all threads reach a barrier" : "threads wait for each other";
    for (int i = 0; i < run.threads && !run.problem; i++) run.fibers[i].state = READY;
    return !run.problem;
}

static void run_group(bool backwards) {
    int stack = 0;
    for (int i = 0; i < run.shared->count; i++) memset(run.shared->storage[i], 0xff, run.shared->bytes[i]);
    for (int i = 0; i < run.threads; i++) {
        int thread = backwards ? run.threads - 1 - i : i;
        start(&run.fibers[thread], run.stacks + (size_t)stack * STACK_BYTES);
        resume(thread);
        stack += run.fibers[thread].state != ENDED;
    }
    while (!run.problem && (release_simdgroups() || release_barrier()))
        for (int i = 0; i < run.threads; i++) {
            int thread = backwards ? run.threads - 1 - i : i;
            if (run.fibers[thread].state == READY) resume(thread);
        }
}

const char *fake_dispatch(const fake_code *code, fake_shared *shared, void **bound, uint32_t groups, int threads) {
    if (!run.stacks) {
        run.stacks = mmap(NULL, (size_t)THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (run.stacks == MAP_FAILED) fake_die("no memory for stacks");
    }
    run.code = code;
    run.shared = shared;
    run.threads = threads;
    run.problem = NULL;
    run.launches++;
    for (uint32_t group = 0; group < groups && !run.problem; group++) {
        run.call = (fake_call){.bound = bound, .group = group, .groups = groups};
        run_group(((uint32_t)run.launches + group) % 2);
    }
    return run.problem;
}

static void barrier(void *site) { yield(AT_BARRIER, site); }

/* Two sets of slots: a lane may write for the next meeting while others still read of this one. */
static uint32_t *exchange(uint32_t value, void *site) {
    int lane = run.running, set = run.fibers[lane].exchanges++ % 2;
    run.slots[set][lane] = value;
    yield(AT_EXCHANGE, site);
    return &run.slots[set][lane / SIMD * SIMD];
}

static uint32_t lane(void) { return (uint32_t)run.running % SIMD; }

static void share(void *storage, unsigned long bytes) {
    fake_shared *shared = run.shared;
    if (shared->count == 64) fake_die("too many threadgroup arrays");
    shared->storage[shared->count] = storage;
    shared->bytes[shared->count++] = bytes;
    memset(storage, 0xff, bytes);
}

const fake_api fake_threads = {barrier, exchange, lane, share};
