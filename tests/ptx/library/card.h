/* What the files of the library share: two cards, each with its own memory, and one lock that every entry point takes.
   A call concerns the card whose context is the calling thread's; memory, code, streams and graphs of the other one are
   refused. */
#ifndef WEFT_TESTS_PTX_CARD_H
#define WEFT_TESTS_PTX_CARD_H

#include <pthread.h>

#include "runtime/drivers/cuda/api.h"
#include "tests/ptx/interpreter/ptx.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    CARDS = 2,
    INVALID_VALUE = 1,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    NAME_BYTES = 128
};

typedef struct card_function {
    ptx_module *module;
    int card;
    char name[NAME_BYTES];
    struct card_function *next;
} card_function;

/* Takes the lock; what the thread's card has failed with, CU_SUCCESS if nothing. */
int card_enter(void);
/* The same for a call that goes to a stream. */
int card_enter_stream(const void *stream);
/* Of this thread. */
int card_current(void);
/* Gives the lock back; the same result. */
int card_leave(int result);
/* Both under the lock. */
int card_launch(const card_function *function, unsigned blocks, unsigned threads, unsigned shared_bytes,
                void **parameters);
bool card_holds(cu_pointer pointer, size_t bytes);
/* Of a graph that runs: what a kernel of it sets. */
bool card_set_condition(void *self, uint64_t handle, uint32_t value);

/* For tests, found with dlsym. */
EXPORT int card_graph_launches(void);
EXPORT int card_launches(int card); /* of kernels */
/* From now on this driver's version: 12000 has no loops in graphs. */
EXPORT void card_set_version(int version);

#endif
