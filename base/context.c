/* The context: options resolved once (option, then environment, then default), immutable afterwards. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/need.h"
#include "base/printable.h"
#include "base/text.h"

static int core_count(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count <= WEFT_THREADS_MAX ? (int)count : 1;
}

static weft_status choose_threads(int requested, int *out_count) {
    if (requested == 0) WEFT_TRY(weft_env_number(WEFT_ENV_THREADS, &requested), "the number of threads");
    if (requested == 0) requested = core_count();
    *out_count = requested > WEFT_THREADS_MAX ? WEFT_THREADS_MAX : requested;
    return NULL;
}

/* Checked already. */
static bool is_on(weft_env variable) { return strcmp(weft_env_get(variable), "1") == 0; }

/* NULL without memory. */
static char *choose_cache_folder(weft_allocator allocator, const char *requested) {
    weft_text text;
    weft_text_init(allocator, &text);
    const char *xdg = weft_env_get(WEFT_ENV_XDG_CACHE_HOME), *home = weft_env_get(WEFT_ENV_HOME);
    if (requested)
        weft_text_append(&text, "%s", requested);
    else if (weft_env_is_set(WEFT_ENV_CACHE))
        weft_text_append(&text, "%s", weft_env_get(WEFT_ENV_CACHE));
    else if (xdg[0])
        weft_text_append(&text, "%s/weft", xdg);
    else if (home[0])
        weft_text_append(&text, "%s/.cache/weft", home);
    size_t bytes = text.length + 1;
    char *folder = text.failed ? NULL : weft_allocate(allocator, bytes);
    if (folder) memcpy(folder, weft_text_string(&text), bytes);
    weft_text_deinit(&text);
    return folder;
}

weft_status weft_context_create(const weft_context_options *options, weft_context **out_context) {
    WEFT_NEED(out_context, "out_context");
    *out_context = NULL;
    weft_context_options chosen = WEFT_CONTEXT_OPTIONS_INIT;
    WEFT_TRY(WEFT_OPTIONS_READ(chosen, options, WEFT_CONTEXT_OPTIONS_INIT), "creating a context");
    if (chosen.thread_count < 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "thread_count %d is negative", chosen.thread_count);
    int thread_count = 1;
    WEFT_TRY(weft_env_check(), "creating a context");
    WEFT_TRY(choose_threads(chosen.thread_count, &thread_count), "creating a context");
    weft_allocator allocator = chosen.allocator.resize ? chosen.allocator : weft_allocator_system();
    weft_context *context = weft_allocate(allocator, sizeof *context);
    if (!context) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a context");
    atomic_init(&context->references, 1);
    context->allocator = allocator;
    context->log = chosen.log;
    context->log_self = chosen.log_self;
    context->log_level = chosen.log_level ? chosen.log_level : WEFT_LOG_INFO;
    context->thread_count = thread_count;
    context->poison = is_on(WEFT_ENV_POISON);
    context->verify = is_on(WEFT_ENV_VERIFY);
    context->cache_folder = choose_cache_folder(allocator, chosen.cache_folder);
    if (!context->cache_folder || pthread_mutex_init(&context->device_lock, NULL)) {
        if (context->cache_folder) weft_free(allocator, context->cache_folder, strlen(context->cache_folder) + 1);
        weft_free(allocator, context, sizeof *context);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a context");
    }
    *out_context = context;
    return NULL;
}

void weft_context_retain(weft_context *context) {
    if (context) atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void weft_context_release(weft_context *context) {
    if (!context || atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) return;
    weft_allocator allocator = context->allocator;
    (void)pthread_mutex_destroy(&context->device_lock);
    weft_free(allocator, context->cache_folder, strlen(context->cache_folder) + 1);
    weft_free(allocator, context, sizeof *context);
}

void weft_string_release(weft_context *context, char *text) {
    if (text) weft_free(context->allocator, text, strlen(text) + 1);
}

void weft_context_log(const weft_context *context, weft_log_level level, const char *format, ...) {
    if (!context || !context->log || level > context->log_level) return;
    weft_text text;
    weft_text_init(context->allocator, &text);
    va_list arguments;
    va_start(arguments, format);
    weft_text_append_list(&text, format, arguments);
    va_end(arguments);
    size_t bytes = weft_printable(weft_text_string(&text), NULL, 0) + 1;
    char *shown = text.failed ? NULL : weft_allocate(context->allocator, bytes);
    if (shown) weft_printable(weft_text_string(&text), shown, bytes);
    context->log(context->log_self, level, shown ? shown : "(no memory for a log message)");
    weft_free(context->allocator, shown, bytes);
    weft_text_deinit(&text);
}
