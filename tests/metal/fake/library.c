/* Metal source -> a shared object. The text is the emitted one but for two additions that C++ needs: arrays in
   threadgroup memory become references into memory that outlives the call, and every kernel gets a record by name.
   Read fake.h first. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/metal/fake/fake.h"

static const char kernel_mark[] = "[[kernel, max_total_threads_per_threadgroup(",
                  shared_mark[] = "  threadgroup alignas(16) ";

struct fake_library {
    void *handle;
    char *source;
};

/* "  threadgroup alignas(16) float v12[64];" -> "SHIM_THREADGROUP(float, v12, 64)" */
static void write_shared(FILE *file, const char *line) {
    char type[64], name[64], count[32];
    if (sscanf(line, "%63s %63[^[][%31[0-9]];", type, name, count) != 3) fake_die("threadgroup memory: %.80s", line);
    fprintf(file, "  SHIM_THREADGROUP(%s, %s, %s)\n", type, name, count);
}

static void write_text(FILE *file, const char *source) {
    while (*source) {
        size_t length = strcspn(source, "\n");
        if (!strncmp(source, shared_mark, strlen(shared_mark)))
            write_shared(file, source + strlen(shared_mark));
        else
            fprintf(file, "%.*s\n", (int)length, source);
        source += length + (source[length] == '\n');
    }
}

static void write_kernels(FILE *file, const char *source) {
    for (const char *at = source; (at = strstr(at, kernel_mark)) != NULL; at++) {
        const char *name = strstr(at, "void ");
        if (!name) fake_die("a kernel without a name");
        fprintf(file, "SHIM_KERNEL(%.*s)\n", (int)strcspn(name + 5, "("), name + 5);
    }
}

/* The compiler's exit status; what it says lies in `log`. */
static int run_compiler(const char *source, const char *object, const char *log) {
    const char *level = getenv("WEFT_FAKE_METAL_O") ? getenv("WEFT_FAKE_METAL_O") : "-O1";
    char out[512];
    snprintf(out, sizeof out, "-o%s", object);
    char *const arguments[] = {(char[]){FAKE_CLANGXX},
                               (char[]){"-std=c++17"},
                               (char *)(uintptr_t)level,
                               (char[]){"-w"},
                               (char[]){"-march=x86-64-v3"},
                               (char[]){"-ffp-contract=off"},
                               (char[]){"-shared"},
                               (char[]){"-fPIC"},
                               (char[]){"-nostdlib"},
                               (char[]){"-fno-exceptions"},
                               (char[]){"-I" FAKE_SHIM},
                               (char[]){"-fuse-ld=lld"},
                               out,
                               (char[]){"-xc++"},
                               (char *)(uintptr_t)source,
                               (char[]){"-lm"},
                               (char[]){"-lgcc"},
                               NULL};
    pid_t child = fork();
    if (child == 0) {
        if (!freopen(log, "w", stderr)) _exit(126);
        execv(FAKE_CLANGXX, arguments);
        _exit(127);
    }
    int state = 0;
    if (child < 0 || waitpid(child, &state, 0) != child) return 126;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static char *read_start(const char *path) {
    char *text = calloc(1, 4001);
    FILE *file = fopen(path, "r");
    if (file && text) text[fread(text, 1, 4000, file)] = '\0';
    if (file) fclose(file);
    return text;
}

/* What the compiler said, or how it ended without a word. */
static char *complaint(int code, const char *log) {
    char *text = read_start(log);
    if (text && !*text) (void)snprintf(text, 4000, "%s ended with %d and said nothing", FAKE_CLANGXX, code);
    return text;
}

fake_library *fake_library_compile(const char *source, char **out_error) {
    char folder[] = "/tmp/weft-metal-XXXXXX", paths[3][64];
    static const char *const names[3] = {"kernels.metal", "kernels.so", "log"};
    if (!mkdtemp(folder)) fake_die("no temporary folder");
    for (int i = 0; i < 3; i++) snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
    FILE *file = fopen(paths[0], "w");
    if (!file) fake_die("no temporary file");
    write_text(file, source);
    write_kernels(file, source);
    fclose(file);
    fake_library *library = calloc(1, sizeof *library);
    int code = run_compiler(paths[0], paths[1], paths[2]);
    if (code == 0) library->handle = dlopen(paths[1], RTLD_NOW | RTLD_LOCAL);
    *out_error = library->handle ? NULL : code ? complaint(code, paths[2]) : strdup(dlerror());
    for (int i = 0; i < 3 && !getenv("WEFT_FAKE_METAL_KEEP"); i++) unlink(paths[i]);
    (void)rmdir(folder);
    if (library->handle) {
        fake_api *api = dlsym(library->handle, "shim");
        if (!api) fake_die("no shim in a library");
        *api = fake_threads;
        library->source = strdup(source);
        return library;
    }
    free(library);
    return NULL;
}

void fake_library_close(fake_library *library) {
    dlclose(library->handle);
    free(library->source);
    free(library);
}

const fake_code *fake_library_find(fake_library *library, const char *name) {
    char symbol[300];
    snprintf(symbol, sizeof symbol, "shim_kernel_%s", name);
    return dlsym(library->handle, symbol);
}

int fake_library_threads(fake_library *library, const char *name) {
    for (const char *at = library->source; (at = strstr(at, kernel_mark)) != NULL; at++) {
        const char *found = strstr(at, "void ");
        size_t length = found ? strcspn(found + 5, "(") : 0;
        if (found && length == strlen(name) && !strncmp(found + 5, name, length)) return atoi(at + strlen(kernel_mark));
    }
    return 0;
}
