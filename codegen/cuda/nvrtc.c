/* See nvrtc.h. The library stays loaded: unloading a library with its own threads is not safe. */
#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

typedef struct nvrtc_program *nvrtc_program;

/* name, parameters; all return int */
#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(nvrtcVersion, (int *, int *))                                                                                    \
    X(nvrtcCreateProgram,                                                                                              \
      (nvrtc_program *, const char *, const char *, int, const char *const *, const char *const *))                    \
    X(nvrtcDestroyProgram, (nvrtc_program *))                                                                          \
    X(nvrtcCompileProgram, (nvrtc_program, int, const char *const *))                                                  \
    X(nvrtcGetProgramLogSize, (nvrtc_program, size_t *))                                                               \
    X(nvrtcGetProgramLog, (nvrtc_program, char *))                                                                     \
    X(nvrtcGetCUBINSize, (nvrtc_program, size_t *))                                                                    \
    X(nvrtcGetCUBIN, (nvrtc_program, char *))                                                                          \
    X(nvrtcGetPTXSize, (nvrtc_program, size_t *))                                                                      \
    X(nvrtcGetPTX, (nvrtc_program, char *))

struct weft_nvrtc {
    weft_context *context;
    void *library;
#define X(name, parameters) int(*name) parameters;
    NVRTC_FUNCTIONS(X)
#undef X
};

static const char *const library_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                            "/usr/local/cuda/lib64/libnvrtc.so", "/usr/local/cuda/lib/libnvrtc.so"};

static weft_status find_symbols(weft_nvrtc *nvrtc) {
#define X(name, parameters)                                                                                            \
    *(void **)&nvrtc->name = dlsym(nvrtc->library, #name);                                                             \
    if (!nvrtc->name) return WEFT_STATUS(WEFT_UNAVAILABLE, "this NVRTC has no " #name ": it is too old");
    NVRTC_FUNCTIONS(X)
#undef X
    return NULL;
}

weft_status weft_nvrtc_open(weft_context *context, weft_nvrtc **out_nvrtc) {
    *out_nvrtc = NULL;
    void *library = NULL;
    for (size_t i = 0; i < sizeof library_names / sizeof *library_names && !library; i++)
        library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return WEFT_STATUS(
            WEFT_UNAVAILABLE,
            "NVRTC was not found (tried libnvrtc.so.13, .12, .so on the loader's path and /usr/local/cuda): "
            "install the CUDA toolkit or put its library folder on LD_LIBRARY_PATH");
    weft_nvrtc *nvrtc = weft_allocate(context->allocator, sizeof *nvrtc);
    if (!nvrtc) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "opening NVRTC");
    nvrtc->context = context;
    nvrtc->library = library;
    weft_status status = find_symbols(nvrtc);
    if (status)
        weft_nvrtc_close(nvrtc);
    else
        *out_nvrtc = nvrtc;
    return status;
}

void weft_nvrtc_version(const weft_nvrtc *nvrtc, int *out_major, int *out_minor) {
    if (nvrtc->nvrtcVersion(out_major, out_minor)) *out_major = *out_minor = 0;
}

void weft_nvrtc_close(weft_nvrtc *nvrtc) {
    if (nvrtc) weft_free(nvrtc->context->allocator, nvrtc, sizeof *nvrtc);
}

void weft_nvrtc_output_deinit(const weft_nvrtc *nvrtc, weft_nvrtc_output *output) {
    weft_allocator allocator = nvrtc->context->allocator;
    weft_free(allocator, output->cubin, output->cubin_bytes);
    weft_free(allocator, output->ptx, output->ptx_bytes);
    weft_free(allocator, output->log, output->log_bytes);
    *output = (weft_nvrtc_output){0};
}

static weft_status take(const weft_nvrtc *nvrtc, nvrtc_program program, int (*size)(nvrtc_program, size_t *),
                        int (*get)(nvrtc_program, char *), void **out_data, size_t *out_bytes) {
    if (size(program, out_bytes) || *out_bytes == 0) return NULL;
    *out_data = weft_allocate(nvrtc->context->allocator, *out_bytes);
    if (!*out_data) {
        *out_bytes = 0;
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "output of NVRTC");
    }
    if (get(program, *out_data)) return WEFT_STATUS(WEFT_INTERNAL, "NVRTC gave no output");
    return NULL;
}

/* The largest number in front of `words` in the log. */
static int64_t largest_before(const char *log, const char *words) {
    int64_t largest = 0;
    for (const char *at = strstr(log, words); at; at = strstr(at + 1, words)) {
        const char *digit = at;
        while (digit > log && digit[-1] >= '0' && digit[-1] <= '9') digit--;
        int64_t value = strtoll(digit, NULL, 10);
        if (value > largest) largest = value;
    }
    return largest;
}

static weft_status read_log(const char *name, weft_nvrtc_output *output) {
    const char *log = output->log ? output->log : "";
    output->registers = (int)largest_before(log, " registers");
    output->spill_bytes = largest_before(log, " bytes spill stores");
    output->stack_bytes = largest_before(log, " bytes stack frame");
    for (const char *at = strstr(log, "(C75"); at; at = strstr(at + 1, "(C75")) {
        int code = atoi(at + 2);
        if (code == 7508 || (code >= 7510 && code <= 7520)) {
            const char *end = strchr(at, '\n'), *start = at;
            while (start > log && start[-1] != '\n') start--;
            return WEFT_STATUS(WEFT_INTERNAL, "%s: ptxas serialises or drops what the kernel relies on: %.*s", name,
                               (int)(end ? end - start : (long)strlen(start)), start);
        }
    }
    return NULL;
}

static weft_status compile(const weft_nvrtc *nvrtc, nvrtc_program program, const char *name, const char *arch,
                           weft_nvrtc_output *output) {
    char target[48];
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    const char *options[] = {target,         "-std=c++17",         "-default-device",
                             "--fmad=false", "--ptxas-options=-v", "-diag-suppress=177"};
    int failed = nvrtc->nvrtcCompileProgram(program, (int)(sizeof options / sizeof *options), options);
    void *log = NULL;
    weft_status status =
        take(nvrtc, program, nvrtc->nvrtcGetProgramLogSize, nvrtc->nvrtcGetProgramLog, &log, &output->log_bytes);
    output->log = log;
    if (status) return status;
    if (failed)
        return WEFT_STATUS(WEFT_INTERNAL, "%s for %s: NVRTC error %d: %.1500s", name, arch, failed,
                           output->log ? output->log : "");
    status = read_log(name, output);
    if (!status)
        status =
            take(nvrtc, program, nvrtc->nvrtcGetCUBINSize, nvrtc->nvrtcGetCUBIN, &output->cubin, &output->cubin_bytes);
    if (!status)
        status = take(nvrtc, program, nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, &output->ptx, &output->ptx_bytes);
    return status;
}

weft_status weft_nvrtc_compile(const weft_nvrtc *nvrtc, const char *source, const char *name, const char *arch,
                               weft_nvrtc_output *out_output) {
    *out_output = (weft_nvrtc_output){0};
    nvrtc_program program = NULL;
    if (nvrtc->nvrtcCreateProgram(&program, source, name, 0, NULL, NULL))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "NVRTC takes no program");
    weft_status status = compile(nvrtc, program, name, arch, out_output);
    (void)nvrtc->nvrtcDestroyProgram(&program);
    if (status) weft_nvrtc_output_deinit(nvrtc, out_output);
    return status;
}
