/* See process.h. posix_spawn, three memory files, a wait that looks at the clock. */
#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { FILES = 3, ERROR_TAIL = 400, OUTPUT_MAX = 1 << 28 };

static weft_status open_files(const weft_process *process, int files[FILES]) {
    static const char *const names[FILES] = {"input", "output", "errors"};
    for (int i = 0; i < FILES; i++) {
        files[i] = memfd_create(names[i], MFD_CLOEXEC);
        if (files[i] < 0) return WEFT_STATUS(WEFT_UNAVAILABLE, "a file in memory for %s", process->arguments[0]);
    }
    const char *at = process->input;
    for (size_t left = process->input_bytes; left > 0;) {
        ssize_t wrote = write(files[0], at, left);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "input of %s", process->arguments[0]);
        at += wrote, left -= (size_t)wrote;
    }
    return lseek(files[0], 0, SEEK_SET) == 0 ? NULL : WEFT_STATUS(WEFT_UNAVAILABLE, "rewinding a file in memory");
}

static weft_status start(const weft_process *process, const int files[FILES], pid_t *out_pid) {
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions)) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "starting a process");
    int problem = 0;
    for (int i = 0; i < FILES && !problem; i++) problem = posix_spawn_file_actions_adddup2(&actions, files[i], i);
    union { /* the prototype has writable strings for historical reasons; they are not written to */
        const char *const *given;
        char *const *taken;
    } arguments = {.given = process->arguments};
    if (!problem) problem = posix_spawnp(out_pid, arguments.taken[0], &actions, NULL, arguments.taken, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem == ENOENT) return WEFT_STATUS(WEFT_NOT_FOUND, "no program %s", process->arguments[0]);
    char buffer[128];
    return problem ? WEFT_STATUS(WEFT_UNAVAILABLE, "starting %s: %s", process->arguments[0],
                                 strerror_r(problem, buffer, sizeof buffer))
                   : NULL;
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static weft_status stop(pid_t pid, int *out_code, weft_status why) {
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, out_code, 0) < 0 && errno == EINTR) {}
    return why;
}

/* What it writes is memory of this machine: a program that writes without end is stopped. */
static bool is_flood(const int files[FILES]) {
    struct stat info;
    for (int i = 1; i < FILES; i++)
        if (fstat(files[i], &info) == 0 && info.st_size > OUTPUT_MAX) return true;
    return false;
}

/* *out_code: what waitpid says; 0 where the host program has taken the child's end away (SIGCHLD ignored). */
static weft_status wait_for(const weft_process *process, pid_t pid, const int files[FILES], int *out_code) {
    int64_t end = now_ns() + process->limit_ns;
    long pause_ns = 200000;
    *out_code = 0;
    for (;;) {
        pid_t done = waitpid(pid, out_code, WNOHANG);
        if (done == pid || (done < 0 && errno == ECHILD)) return NULL;
        if (is_flood(files))
            return stop(
                pid, out_code,
                WEFT_STATUS(WEFT_UNAVAILABLE, "%s wrote more than %d bytes", process->arguments[0], (int)OUTPUT_MAX));
        if (now_ns() >= end)
            return stop(pid, out_code,
                        WEFT_STATUS(WEFT_UNAVAILABLE, "%s took longer than %lld ms", process->arguments[0],
                                    (long long)(process->limit_ns / 1000000)));
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (pause_ns < 5000000) pause_ns += pause_ns / 4;
    }
}

static weft_status failure(const weft_process *process, int errors, int code) {
    char text[ERROR_TAIL + 1] = "";
    struct stat info;
    off_t from = fstat(errors, &info) == 0 && info.st_size > ERROR_TAIL ? info.st_size - ERROR_TAIL : 0;
    ssize_t length = pread(errors, text, ERROR_TAIL, from);
    text[length > 0 ? length : 0] = 0;
    while (length > 0 && text[length - 1] == '\n') text[--length] = 0;
    if (WIFSIGNALED(code))
        return WEFT_STATUS(WEFT_INTERNAL, "%s died of signal %d: %s", process->arguments[0], WTERMSIG(code), text);
    return WEFT_STATUS(WEFT_INTERNAL, "%s ended with code %d: %s", process->arguments[0], WEXITSTATUS(code), text);
}

static weft_status read_output(weft_allocator allocator, int file, void **out_output, size_t *out_bytes) {
    struct stat info;
    if (fstat(file, &info)) return WEFT_STATUS(WEFT_UNAVAILABLE, "size of a file in memory");
    size_t bytes = (size_t)info.st_size, done = 0;
    char *data = weft_allocate(allocator, bytes);
    if (!data) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "output of %zu bytes", bytes);
    while (done < bytes) {
        ssize_t got = pread(file, data + done, bytes - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            weft_free(allocator, data, bytes);
            return WEFT_STATUS(WEFT_UNAVAILABLE, "reading a file in memory");
        }
        done += (size_t)got;
    }
    *out_output = data;
    *out_bytes = bytes;
    return NULL;
}

weft_status weft_process_run(weft_allocator allocator, const weft_process *process, void **out_output,
                             size_t *out_bytes) {
    int files[FILES] = {-1, -1, -1}, code = 0;
    pid_t pid = 0;
    *out_output = NULL;
    *out_bytes = 0;
    weft_status status = open_files(process, files);
    if (!status) status = start(process, files, &pid);
    if (!status) status = wait_for(process, pid, files, &code);
    if (!status && code != 0) status = failure(process, files[2], code);
    if (!status) status = read_output(allocator, files[1], out_output, out_bytes);
    for (int i = 0; i < FILES; i++)
        if (files[i] >= 0) (void)close(files[i]);
    return status;
}
