/* What one user of Weft shares between its graphs, compilers and programs: allocator, log, cache folder, threads.
   Threading: immutable after creation, thread-safe. Ownership: reference counted; every object that needs it keeps it.
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include "weft/allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

typedef enum weft_log_level { WEFT_LOG_ERROR = 1, WEFT_LOG_WARNING, WEFT_LOG_INFO, WEFT_LOG_DEBUG } weft_log_level;

typedef void (*weft_log_function)(void *self, weft_log_level level, const char *message);

typedef struct weft_context_options {
    size_t struct_bytes;      /* set by WEFT_CONTEXT_OPTIONS_INIT */
    weft_allocator allocator; /* default: weft_allocator_system() */
    weft_log_function log;    /* default: none; the library prints nothing by itself */
    void *log_self;
    weft_log_level log_level; /* default: WEFT_LOG_INFO */
    const char *cache_folder; /* default: WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; "" = no cache */
    int thread_count;         /* default 0: WEFT_THREADS, else one per core */
} weft_context_options;
#define WEFT_CONTEXT_OPTIONS_INIT {sizeof(weft_context_options), {0, 0}, 0, 0, (weft_log_level)0, 0, 0}

/* options may be NULL. An environment variable whose value docs/environment.md does not know is INVALID_ARGUMENT; those
   of WEFT_POISON and WEFT_VERIFY are read here, once. */
WEFT_API weft_status weft_context_create(const weft_context_options *options, weft_context **out_context) WEFT_MUST_USE;
WEFT_API void weft_context_retain(weft_context *context);
WEFT_API void weft_context_release(weft_context *context);

/* Frees a text that a Weft call returned. NULL is fine. */
WEFT_API void weft_string_release(weft_context *context, char *text);

#ifdef __cplusplus
}
#endif
#endif
