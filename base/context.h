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
    bool poison;        /* WEFT_POISON */
    bool verify;        /* WEFT_VERIFY */
    /* Open devices, shared by name; the list does not own them (runtime/device.c). */
    pthread_mutex_t device_lock;
    struct weft_device *devices;
};

void weft_context_log(const weft_context *context, weft_log_level level, const char *format, ...) WEFT_PRINTF(3, 4);

/* Environment variables: one table, read in base/env.c only. A row says which values there are; every other value is
   refused when a context is created. Empty is as unset, except where the row's text says otherwise. */
typedef enum weft_env_kind { WEFT_ENV_KIND_TEXT, WEFT_ENV_KIND_NUMBER, WEFT_ENV_KIND_CHOICE } weft_env_kind;
typedef struct weft_env_values {
    weft_env_kind kind;
    int low, high;       /* of a number */
    const char *choices; /* "a|b" */
} weft_env_values;
#define WEFT_ENV_ANY               {WEFT_ENV_KIND_TEXT, 0, 0, ""}
#define WEFT_ENV_NUMBER(low, high) {WEFT_ENV_KIND_NUMBER, low, high, ""}
#define WEFT_ENV_ONE_OF(choices)   {WEFT_ENV_KIND_CHOICE, 0, 0, choices}
#define WEFT_ENV_SWITCH            WEFT_ENV_NUMBER(0, 1)

enum { WEFT_THREADS_MAX = 1024, WEFT_HIPRTC_SECONDS_MAX = 86400 };

#define WEFT_ENVIRONMENT(X)                                                                                            \
    X(HOME, "HOME", WEFT_ENV_ANY, "", "the default cache folder is .cache/weft there")                                 \
    X(XDG_CACHE_HOME, "XDG_CACHE_HOME", WEFT_ENV_ANY, "", "the default cache folder is weft there when set")           \
    X(CACHE, "WEFT_CACHE", WEFT_ENV_ANY, "", "folder of compiled kernels; empty switches the cache off")               \
    X(THREADS, "WEFT_THREADS", WEFT_ENV_NUMBER(0, WEFT_THREADS_MAX), "0",                                              \
      "threads of the CPU driver; 0 = one per core")                                                                   \
    X(CPU, "WEFT_CPU", WEFT_ENV_ONE_OF("x86-64|x86-64-v2|x86-64-v3|x86-64-v4"), "",                                    \
      "CPU variant to use: there is code for x86-64-v3 and x86-64-v4; unset = the best this CPU has")                  \
    X(POISON, "WEFT_POISON", WEFT_ENV_SWITCH, "0",                                                                     \
      "1 = memory of GPU drivers starts as 0xff bytes: shows what nobody wrote")                                       \
    X(AMDGCN_COMPILER, "WEFT_AMDGCN_COMPILER", WEFT_ENV_ONE_OF("llvm|hiprtc"), "",                                     \
      "code for AMD GPUs by llvm or hiprtc; unset = LLVM where the build has it")                                      \
    X(HIPRTC, "WEFT_HIPRTC", WEFT_ENV_ANY, "",                                                                         \
      "the program weft-hiprtc; unset = beside the running program, then in PATH")                                     \
    X(HIPRTC_SECONDS, "WEFT_HIPRTC_SECONDS", WEFT_ENV_NUMBER(1, WEFT_HIPRTC_SECONDS_MAX), "120",                       \
      "how long HIP RTC may take for one group of kernels")                                                            \
    X(DUMP, "WEFT_DUMP", WEFT_ENV_ANY, "", "comma-separated passes whose result is written to the log")                \
    X(VERIFY, "WEFT_VERIFY", WEFT_ENV_SWITCH, "0", "1 = run the verifier after every pass")

typedef enum weft_env {
#define X(id, name, values, fallback, help) WEFT_ENV_##id,
    WEFT_ENVIRONMENT(X)
#undef X
        WEFT_ENV_COUNT
} weft_env;

const char *weft_env_get(weft_env variable); /* the default when unset or empty; NULL never */
bool weft_env_is_set(weft_env variable);
/* A number or a switch. The status names variable, value and what is allowed. */
weft_status weft_env_number(weft_env variable, int *out_number) WEFT_MUST_USE;
/* Every variable that is set, against its row. */
weft_status weft_env_check(void) WEFT_MUST_USE;
const char *weft_env_name(weft_env variable);
const char *weft_env_help(weft_env variable);
const char *weft_env_default(weft_env variable);
const weft_env_values *weft_env_allowed(weft_env variable);

#endif
