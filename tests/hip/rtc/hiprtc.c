/* A libhiprtc: HIP C through clang++-19, which makes code objects for AMD GPUs without ROCm. The source must need no
   header, as none is given. WEFT_FAKE_HIPRTC makes it fail as old versions of the library do: abort, hang, garbage
   (code that is none), empty, error (a log of the compiler's). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

#define EXPORT __attribute__((visibility("default")))

enum { OPTIONS_MAX = 20, COMPILATION = 6 /* HIPRTC_ERROR_COMPILATION */ };

typedef struct program {
    char *source;
    void *code;
    size_t code_bytes;
    char log[2000];
} program;

static bool fails_by(const char *how) {
    const char *asked = getenv("WEFT_FAKE_HIPRTC");
    return asked && !strcmp(asked, how);
}

EXPORT int hiprtcVersion(int *major, int *minor) {
    *major = 6, *minor = 0;
    return 0;
}

EXPORT int hiprtcCreateProgram(program **out_program, const char *source, const char *name, int headers,
                               const char **header_texts, const char **header_names) {
    (void)name, (void)headers, (void)header_texts, (void)header_names;
    *out_program = calloc(1, sizeof **out_program);
    if (!*out_program) return 1;
    (*out_program)->source = strdup(source);
    return (*out_program)->source ? 0 : 1;
}

static int refuse(program *p, const char *why) {
    (void)snprintf(p->log, sizeof p->log, "%s", why);
    return COMPILATION;
}

EXPORT int hiprtcCompileProgram(program *p, int count, const char **options) {
    const char *arguments[OPTIONS_MAX] = {
        "clang++-19", "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib",
        "-o",         "-",  "-"};
    int at = 10;
    if (count > OPTIONS_MAX - at - 1) return refuse(p, "too many options");
    for (int i = 0; i < count; i++) arguments[at++] = options[i];
    if (fails_by("abort")) {
        (void)fprintf(stderr, "LLVM ERROR: out of thin air\n");
        abort();
    }
    while (fails_by("hang")) (void)usleep(1000);
    if (fails_by("error")) return refuse(p, "kernels:1:1: error: an error that was asked for");
    weft_process process = {.arguments = arguments,
                            .input = p->source,
                            .input_bytes = strlen(p->source),
                            .limit_ns = INT64_C(300000000000)};
    weft_status status = weft_process_run(weft_allocator_system(), &process, &p->code, &p->code_bytes);
    if (!status) return 0;
    int result = refuse(p, weft_status_message(status));
    weft_status_release(status);
    return result;
}

EXPORT int hiprtcGetProgramLogSize(program *p, size_t *out_bytes) {
    *out_bytes = strlen(p->log) + 1;
    return 0;
}

EXPORT int hiprtcGetProgramLog(program *p, char *log) {
    memcpy(log, p->log, strlen(p->log) + 1);
    return 0;
}

EXPORT int hiprtcGetCodeSize(program *p, size_t *out_bytes) {
    *out_bytes = fails_by("empty") ? 0 : p->code_bytes;
    return 0;
}

EXPORT int hiprtcGetCode(program *p, char *code) {
    memcpy(code, p->code, p->code_bytes);
    if (fails_by("garbage")) memset(code, 'x', p->code_bytes);
    return 0;
}
