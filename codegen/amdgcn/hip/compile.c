/* Code objects by AMD's run-time compiler: kernels -> HIP C -> weft-hiprtc, a process of its own -> one image.

   The library runs in another process because versions of it abort where they should fail, keep threads and take
   seconds to load: whatever happens there, an end by a signal, a hang, output that is no code, is one status here.
   Groups of kernels are made by size, so that the code does not depend on the number of threads. Read next: print.h,
   reply.h, base/process.h, cli/hiprtc/main.c. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/thread.h"
#include "codegen/amdgcn/compiler.h"
#include "codegen/amdgcn/hip/print.h"
#include "codegen/amdgcn/hip/reply.h"
#include "codegen/amdgcn/image.h"

enum { GROUP_INSTRUCTIONS = 6000, GROUP_KERNELS = 32, LOG_SHOWN = 1500 };

static const char helper_name[] = "weft-hiprtc";

/* -- the process */

/* WEFT_HIPRTC; else the file beside the running program where it exists; else a name for PATH. */
static weft_status find_helper(char path[PATH_MAX]) {
    const char *given = weft_env_get(WEFT_ENV_HIPRTC);
    size_t given_length = strlen(given);
    if (given_length >= PATH_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s is a path of %zu bytes; at most %d",
                           weft_env_name(WEFT_ENV_HIPRTC), given_length, PATH_MAX - 1);
    ssize_t length = *given ? -1 : readlink("/proc/self/exe", path, PATH_MAX - sizeof helper_name);
    if (length > 0) {
        path[length] = 0;
        char *slash = strrchr(path, '/');
        if (slash) {
            memcpy(slash + 1, helper_name, sizeof helper_name);
            if (access(path, X_OK) == 0) return NULL;
        }
    }
    (void)snprintf(path, PATH_MAX, "%s", *given ? given : helper_name);
    return NULL;
}

/* A path that was given and leads nowhere is named. */
static weft_status missing_helper(const char *path) {
    const char *variable = weft_env_name(WEFT_ENV_HIPRTC);
    if (*weft_env_get(WEFT_ENV_HIPRTC))
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s=%s: there is no such program; name that of this build, %s", variable,
                           path, helper_name);
    return WEFT_STATUS(WEFT_UNAVAILABLE,
                       "HIP C is compiled by the program %s of this build, which is neither "
                       "beside the running program nor in PATH: install it, or name it in %s",
                       helper_name, variable);
}

/* The reply's letter; a letter that stands for a failure becomes that status, with the text behind it. */
static weft_status read_reply(const char *helper, const char *reply, size_t bytes, char *out_kind) {
    if (bytes <= WEFT_HIPRTC_MAGIC_BYTES || memcmp(reply, WEFT_HIPRTC_MAGIC, WEFT_HIPRTC_MAGIC_BYTES) != 0)
        return WEFT_STATUS(WEFT_INTERNAL, "%s gave %zu bytes that are no reply", helper, bytes);
    const char *text = reply + WEFT_HIPRTC_MAGIC_BYTES + 1;
    int shown =
        bytes - WEFT_HIPRTC_MAGIC_BYTES - 1 < LOG_SHOWN ? (int)(bytes - WEFT_HIPRTC_MAGIC_BYTES - 1) : LOG_SHOWN;
    *out_kind = reply[WEFT_HIPRTC_MAGIC_BYTES];
    switch (*out_kind) {
    case WEFT_HIPRTC_CODE:
    case WEFT_HIPRTC_VERSION: return NULL;
    case WEFT_HIPRTC_REFUSED: return WEFT_STATUS(WEFT_INTERNAL, "HIP RTC: %.*s", shown, text);
    case WEFT_HIPRTC_UNAVAILABLE: return WEFT_STATUS(WEFT_UNAVAILABLE, "%.*s", shown, text);
    default: return WEFT_STATUS(WEFT_INTERNAL, "%s gave an unknown reply", helper);
    }
}

/* what: an architecture, whose source `input` is, or --version. The reply is kept from its text on. */
static weft_status run_helper(weft_allocator allocator, const char *what, const char *name, const char *input,
                              size_t input_bytes, char wanted, weft_code_image *out) {
    char helper[PATH_MAX], kind = 0;
    int seconds;
    *out = (weft_code_image){0};
    WEFT_TRY(weft_env_number(WEFT_ENV_HIPRTC_SECONDS, &seconds), "starting %s", helper_name);
    WEFT_TRY(find_helper(helper), "starting %s", helper_name);
    const char *const arguments[] = {helper, what, name, NULL};
    weft_process process = {
        .arguments = arguments, .input = input, .input_bytes = input_bytes, .limit_ns = INT64_C(1000000000) * seconds};
    weft_code_image reply = {0};
    weft_status status = weft_process_run(allocator, &process, &reply.data, &reply.bytes);
    if (weft_status_code(status) == WEFT_NOT_FOUND) {
        weft_status_release(status);
        return missing_helper(helper);
    }
    if (!status) status = read_reply(helper, reply.data, reply.bytes, &kind);
    if (!status && kind != wanted) status = WEFT_STATUS(WEFT_INTERNAL, "%s gave another reply than asked", helper);
    size_t head = WEFT_HIPRTC_MAGIC_BYTES + 1;
    if (!status) out->data = weft_allocate(allocator, reply.bytes - head + 1);
    if (!status && !out->data) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a code object of %zu bytes", reply.bytes);
    if (!status) {
        out->bytes = reply.bytes - head; /* and a 0 behind, for text */
        memcpy(out->data, (const char *)reply.data + head, out->bytes);
    }
    weft_free(allocator, reply.data, reply.bytes);
    return status;
}

static void free_output(weft_allocator allocator, weft_code_image *output) {
    if (output->data) weft_free(allocator, output->data, output->bytes + 1);
    *output = (weft_code_image){0};
}

/* -- groups of kernels */

typedef struct job {
    weft_allocator allocator;
    const char *arch;
    weft_kernel *const *kernels;
    int group_count, *first; /* and one past the last kernel */
    weft_code_image *code;
    weft_status *statuses;
} job;

static weft_status compile_group(const job *j, int64_t group) {
    int first = j->first[group], count = j->first[group + 1] - first;
    const char *name = j->kernels[first]->name;
    weft_text source;
    weft_text_init(j->allocator, &source);
    weft_status status = weft_hip_print(count, j->kernels + first, &source);
    weft_code_image *code = &j->code[group];
    if (!status)
        status =
            run_helper(j->allocator, j->arch, name, weft_text_string(&source), source.length, WEFT_HIPRTC_CODE, code);
    if (!status && !weft_amdgcn_code_is_whole(code->data, code->bytes))
        status = WEFT_STATUS(WEFT_INTERNAL, "HIP RTC gave %zu bytes that are no code object", code->bytes);
    weft_text_deinit(&source);
    return status ? weft_status_annotate(status, __FILE__, __LINE__, "compiling %s and the next %d kernels for %s",
                                         name, count - 1, j->arch)
                  : NULL;
}

static void work(void *self, int thread, int64_t lo, int64_t hi) {
    (void)thread;
    job *j = self;
    for (int64_t group = lo; group < hi; group++) j->statuses[group] = compile_group(j, group);
}

static void split(int kernel_count, job *j) {
    size_t instructions = 0;
    for (int i = 0; i < kernel_count; i++) {
        int start = j->group_count ? j->first[j->group_count - 1] : 0;
        if (i == 0 || instructions + j->kernels[i]->instr_count > GROUP_INSTRUCTIONS || i - start >= GROUP_KERNELS) {
            j->first[j->group_count++] = i;
            instructions = 0;
        }
        instructions += j->kernels[i]->instr_count;
    }
    j->first[j->group_count] = kernel_count;
}

static weft_status run(job *j, int thread_count) {
    weft_pool *pool;
    if (thread_count > j->group_count) thread_count = j->group_count;
    WEFT_TRY(weft_pool_create(j->allocator, thread_count < 1 ? 1 : thread_count, &pool), "starting compile threads");
    weft_pool_run(pool, j->group_count, 1, work, j);
    weft_pool_release(pool);
    weft_status first = NULL;
    for (int i = 0; i < j->group_count; i++) {
        if (!first)
            first = j->statuses[i];
        else
            weft_status_release(j->statuses[i]);
    }
    return first;
}

static weft_status compile(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    weft_allocator allocator = context->allocator;
    size_t room = (size_t)kernel_count + 1;
    job j = {.allocator = allocator,
             .arch = capability->arch,
             .kernels = kernels,
             .first = weft_allocate(allocator, room * sizeof *j.first),
             .code = weft_allocate(allocator, room * sizeof *j.code),
             .statuses = weft_allocate(allocator, room * sizeof *j.statuses)};
    weft_status status = NULL;
    if (!j.first || !j.code || !j.statuses) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to compile %d kernels", kernel_count);
    } else {
        split(kernel_count, &j);
        status = run(&j, thread_count);
        if (!status) status = weft_amdgcn_image_pack(allocator, j.group_count, j.first, j.code, out_image);
    }
    for (int i = 0; j.code && i < j.group_count; i++) free_output(allocator, &j.code[i]);
    weft_free(allocator, j.first, room * sizeof *j.first);
    weft_free(allocator, j.code, room * sizeof *j.code);
    weft_free(allocator, j.statuses, room * sizeof *j.statuses);
    return status;
}

static void describe(weft_context *context, weft_text *text) {
    weft_code_image version;
    weft_status status = run_helper(context->allocator, "--version", NULL, NULL, 0, WEFT_HIPRTC_VERSION, &version);
    weft_text_append(text, "HIP RTC %s", status ? "not found" : (const char *)version.data);
    free_output(context->allocator, &version);
    weft_status_release(status); /* the compile reports it with its reason */
}

static weft_status print(const weft_kernel *kernel, weft_text *text) {
    weft_kernel copy = *kernel, *one = &copy;
    return weft_hip_print(1, &one, text);
}

const weft_amdgcn_compiler weft_amdgcn_hiprtc = {
    .name = "hiprtc", .compile = compile, .describe = describe, .print = print};
