/* The fields behind weft_context, the log helpers and the environment table. */
#ifndef WEFT_BASE_CONTEXT_H
#define WEFT_BASE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "weft/context.h"

struct weft_context {
    atomic_int references;
    weft_allocator allocator;
    weft_log_function log;
    void *log_self;
    weft_log_level log_level;
    char *cache_folder; /* "" = no cache */
    int thread_count;   /* >= 1 */
    /* Open devices, shared by name; the list does not own them (runtime/device.c). */
    pthread_mutex_t device_lock;
    struct weft_device *devices;
};

void weft_context_log(const weft_context *context, weft_log_level level, const char *format, ...) WEFT_PRINTF(3, 4);

/* Environment variables: one table, read in base/env.c only. */
#define WEFT_ENVIRONMENT(X)                                                                                            \
    X(HOME, "HOME", "", "the default cache folder is .cache/weft there")                                               \
    X(XDG_CACHE_HOME, "XDG_CACHE_HOME", "", "the default cache folder is weft there when set")                         \
    X(CACHE, "WEFT_CACHE", "", "folder of compiled kernels; empty switches the cache off")                             \
    X(THREADS, "WEFT_THREADS", "0", "threads of the CPU driver; 0 = one per core")                                     \
    X(CPU, "WEFT_CPU", "", "CPU variant to use: x86-64-v3 or x86-64-v4; empty = the best this CPU has")                \
    X(POISON, "WEFT_POISON", "0", "1 = memory of GPU drivers starts as 0xff bytes: shows what nobody wrote")           \
    X(AMDGCN_COMPILER, "WEFT_AMDGCN_COMPILER", "",                                                                     \
      "code for AMD GPUs by llvm or hiprtc; empty = LLVM where the build has it")                                      \
    X(HIPRTC, "WEFT_HIPRTC", "", "the program weft-hiprtc; empty = beside the running program, then in PATH")          \
    X(HIPRTC_SECONDS, "WEFT_HIPRTC_SECONDS", "120", "how long HIP RTC may take for one group of kernels")              \
    X(DUMP, "WEFT_DUMP", "", "comma-separated passes whose result is written to the log")                              \
    X(VERIFY, "WEFT_VERIFY", "0", "1 = run the verifier after every pass")

typedef enum weft_env {
#define X(id, name, fallback, help) WEFT_ENV_##id,
    WEFT_ENVIRONMENT(X)
#undef X
        WEFT_ENV_COUNT
} weft_env;

const char *weft_env_get(weft_env variable); /* the default when unset; NULL never */
bool weft_env_is_set(weft_env variable);
const char *weft_env_name(weft_env variable);
const char *weft_env_help(weft_env variable);

#endif
