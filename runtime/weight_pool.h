/* Weights that several programs of one device use, each once on it: what the programs of a just-in-time function share.

   A weight is known by its address on the host, so a program must keep that memory for as long as it holds the weight.
   Thread-compatible: one function's programs come and go by one thread at a time. */
#ifndef WEFT_RUNTIME_WEIGHT_POOL_H
#define WEFT_RUNTIME_WEIGHT_POOL_H

#include "runtime/driver.h"

typedef struct weft_weight_pool weft_weight_pool;

weft_status weft_weight_pool_create(weft_context *context, weft_device *device,
                                    weft_weight_pool **out_pool) WEFT_MUST_USE;
void weft_weight_pool_retain(weft_weight_pool *pool);
void weft_weight_pool_release(weft_weight_pool *pool);
/* The address on the device; the first to ask uploads. Each success is given back once. */
weft_status weft_weight_pool_take(weft_weight_pool *pool, const void *data, size_t bytes,
                                  void **out_address) WEFT_MUST_USE;
/* The last one to do so frees the device's copy. */
void weft_weight_pool_give_back(weft_weight_pool *pool, const void *data);
/* Bytes that lie on the device now. */
int64_t weft_weight_pool_bytes(const weft_weight_pool *pool);

#endif
