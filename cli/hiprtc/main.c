/* weft-hiprtc: HIP C on standard input, a code object on standard output. Run by codegen/amdgcn/hip as a process of its
   own; usage: weft-hiprtc ARCH [NAME] < source, or weft-hiprtc --version. Output: codegen/amdgcn/hip/reply.h. Exit code
   0 whenever there is a reply. The library writes to standard error and may abort: nothing of it is caught here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/amdgcn/hip/reply.h"
#include "runtime/libraries.h"
#include "weft/allocator.h"

typedef struct hiprtc_program_object *hiprtc_program;

/* name, parameters; all return int, 0 = success */
#define HIPRTC_FUNCTIONS(X)                                                                                            \
    X(hiprtcVersion, (int *, int *))                                                                                   \
    X(hiprtcCreateProgram, (hiprtc_program *, const char *, const char *, int, const char **, const char **))          \
    X(hiprtcCompileProgram, (hiprtc_program, int, const char **))                                                      \
    X(hiprtcGetProgramLogSize, (hiprtc_program, size_t *))                                                             \
    X(hiprtcGetProgramLog, (hiprtc_program, char *))                                                                   \
    X(hiprtcGetCodeSize, (hiprtc_program, size_t *))                                                                   \
    X(hiprtcGetCode, (hiprtc_program, char *))

typedef struct hiprtc {
#define X(name, parameters) int(*name) parameters;
    HIPRTC_FUNCTIONS(X)
#undef X
} hiprtc;

static int reply(char kind, const void *data, size_t bytes) {
    bool wrote = fwrite(WEFT_HIPRTC_MAGIC, 1, WEFT_HIPRTC_MAGIC_BYTES, stdout) == WEFT_HIPRTC_MAGIC_BYTES &&
                 fputc(kind, stdout) == kind && fwrite(data, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    return wrote ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int reply_text(char kind, const char *text) { return reply(kind, text, strlen(text)); }

static int reply_status(char kind, weft_status status) {
    int code = reply_text(kind, weft_status_message(status));
    weft_status_release(status);
    return code;
}

static weft_status open_library(hiprtc *out) {
    void *library;
    WEFT_TRY(weft_library_open(weft_allocator_system(), "hiprtc", &library), "opening HIP RTC");
#define X(name, parameters) WEFT_TRY(weft_library_symbol(library, "hiprtc", #name, &out->name), "opening HIP RTC");
    HIPRTC_FUNCTIONS(X)
#undef X
    return NULL;
}

static char *read_source(void) {
    size_t bytes = 0, capacity = 1 << 20;
    char *source = malloc(capacity);
    while (source) {
        size_t got = fread(source + bytes, 1, capacity - bytes - 1, stdin);
        bytes += got;
        source[bytes] = 0;
        if (got == 0) return source;
        if (capacity - bytes > 1) continue;
        char *grown = realloc(source, capacity *= 2);
        if (!grown) free(source);
        source = grown;
    }
    return NULL;
}

/* What the compiler said; from malloc, NULL: nothing. */
static char *read_log(const hiprtc *api, hiprtc_program program) {
    size_t bytes = 0;
    if (api->hiprtcGetProgramLogSize(program, &bytes) || bytes == 0) return NULL;
    char *log = calloc(1, bytes + 1);
    if (log && api->hiprtcGetProgramLog(program, log)) log[0] = 0;
    return log;
}

static int compile(const hiprtc *api, const char *source, const char *arch, const char *name) {
    char target[80], problem[120];
    (void)snprintf(target, sizeof target, "--offload-arch=%s", arch);
    const char *options[] = {target, "-O3", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing"};
    hiprtc_program program = NULL;
    int result = api->hiprtcCreateProgram(&program, source, name, 0, NULL, NULL);
    if (result) {
        (void)snprintf(problem, sizeof problem, "hiprtcCreateProgram gives error %d", result);
        return reply_text(WEFT_HIPRTC_REFUSED, problem);
    }
    result = api->hiprtcCompileProgram(program, (int)(sizeof options / sizeof *options), options);
    if (result) {
        char *log = read_log(api, program);
        (void)snprintf(problem, sizeof problem, "hiprtcCompileProgram gives error %d", result);
        int code = reply_text(WEFT_HIPRTC_REFUSED, log && *log ? log : problem);
        free(log);
        return code;
    }
    size_t bytes = 0;
    char *object = api->hiprtcGetCodeSize(program, &bytes) || bytes == 0 ? NULL : malloc(bytes);
    int code = object && api->hiprtcGetCode(program, object) == 0
                   ? reply(WEFT_HIPRTC_CODE, object, bytes)
                   : reply_text(WEFT_HIPRTC_REFUSED, "the compiled program has no code");
    free(object);
    return code; /* the program is left to the end of the process: nothing more can go wrong */
}

int main(int count, char **arguments) {
    hiprtc api;
    if (count < 2) {
        (void)fprintf(stderr, "usage: weft-hiprtc ARCH [NAME] < source > reply, or weft-hiprtc --version\n");
        return 2;
    }
    weft_status status = open_library(&api);
    if (status) return reply_status(WEFT_HIPRTC_UNAVAILABLE, status);
    if (!strcmp(arguments[1], "--version")) {
        char text[60];
        int major = 0, minor = 0;
        (void)api.hiprtcVersion(&major, &minor);
        (void)snprintf(text, sizeof text, "%d.%d", major, minor);
        return reply_text(WEFT_HIPRTC_VERSION, text);
    }
    char *source = read_source();
    int code = source ? compile(&api, source, arguments[1], count > 2 ? arguments[2] : "kernels")
                      : reply_text(WEFT_HIPRTC_REFUSED, "no memory for the source");
    free(source);
    return code;
}
