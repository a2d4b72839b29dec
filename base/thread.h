/* A pool that splits a range of blocks. Workers spin briefly, then yield, then sleep; the caller works too.
   Thread-safe: concurrent calls take turns. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <stdint.h>

#include "weft/allocator.h"

typedef struct weft_pool weft_pool;
typedef void (*weft_pool_function)(void *self, int thread, int64_t lo, int64_t hi);

weft_status weft_pool_create(weft_allocator allocator, int thread_count, weft_pool **out_pool) WEFT_MUST_USE;
void weft_pool_release(weft_pool *pool);
int weft_pool_thread_count(const weft_pool *pool);
/* Calls function on pieces that cover [0, count): chunk = 0 splits evenly, else pieces of that size are taken in turn.
   thread in [0, thread_count): one thread at a time has it; the caller is 0. Returns when all are done. function must
   not run the same pool again. */
void weft_pool_run(weft_pool *pool, int64_t count, int64_t chunk, weft_pool_function function, void *self);

#endif
