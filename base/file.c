/* Files on POSIX. A writer never leaves a half-written file under the final name: the data goes to a fresh file in the
   same folder, is synced, and is renamed over the path. Only regular files are read and replaced: opening a pipe would
   wait for its other end, and a rename over a device removes the device. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

enum { NAME_ATTEMPTS = 100, SUFFIX_BYTES = 48 };

weft_status weft_file_error(const char *action, const char *path, int error) {
    char buffer[128];
    const char *text = strerror_r(error, buffer, sizeof buffer);
    weft_code code = error == ENOENT ? WEFT_NOT_FOUND : error == ENOMEM ? WEFT_OUT_OF_MEMORY : WEFT_IO;
    bool full = error == ENOSPC || error == EDQUOT;
    return WEFT_STATUS(code, "cannot %s %s: %s%s", action, path, text,
                       full ? "; the disk is full, or its quota used up" : "");
}

weft_status weft_file_map(const char *path, weft_file *out_file) {
    *out_file = (weft_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return weft_file_error("open", path, errno);
    weft_status status = NULL;
    struct stat info;
    if (fstat(fd, &info)) {
        status = weft_file_error("inspect", path, errno);
    } else if (!S_ISREG(info.st_mode)) {
        status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s is not a regular file", path);
    } else if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = weft_file_error("map", path, errno);
        else
            *out_file = (weft_file){.data = data, .bytes = (size_t)info.st_size};
    }
    (void)close(fd);
    return status;
}

void weft_file_unmap(weft_file *file) {
    union {
        const void *constant;
        void *plain;
    } data = {file->data};
    if (file->data) (void)munmap(data.plain, file->bytes);
    *file = (weft_file){0};
}

static void writer_free(weft_file_writer *writer) {
    if (writer->temporary) weft_free(writer->allocator, writer->temporary, strlen(writer->path) + SUFFIX_BYTES);
    if (writer->path) weft_free(writer->allocator, writer->path, strlen(writer->path) + 1);
    *writer = (weft_file_writer){.allocator = writer->allocator};
}

/* The file behind a symbolic link is replaced, not the link. out_mode: the permissions to keep, 0 for a new file. */
static weft_status resolve(const char **path, char *buffer, mode_t *out_mode) {
    struct stat info;
    *out_mode = 0;
    if (!(*path)[0]) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the name of the file to write is empty");
    if (lstat(*path, &info)) return errno == ENOENT ? NULL : weft_file_error("write", *path, errno);
    if (S_ISLNK(info.st_mode)) {
        if (!realpath(*path, buffer) || stat(buffer, &info)) return weft_file_error("follow the link", *path, errno);
        *path = buffer;
    }
    if (S_ISDIR(info.st_mode)) return weft_file_error("write", *path, EISDIR);
    if (!S_ISREG(info.st_mode))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "cannot write %s: it is not a regular file", *path);
    *out_mode = info.st_mode & 07777;
    return NULL;
}

weft_status weft_file_writer_open(weft_allocator allocator, const char *path, weft_file_writer *out_writer) {
    char resolved[PATH_MAX];
    mode_t mode;
    *out_writer = (weft_file_writer){.allocator = allocator};
    WEFT_TRY(resolve(&path, resolved, &mode), "opening a file to write");
    size_t bytes = strlen(path) + 1;
    char *copy = weft_allocate(allocator, bytes), *temporary = weft_allocate(allocator, bytes - 1 + SUFFIX_BYTES);
    if (!copy || !temporary) {
        weft_free(allocator, copy, bytes);
        weft_free(allocator, temporary, bytes - 1 + SUFFIX_BYTES);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a file name");
    }
    memcpy(copy, path, bytes);
    out_writer->path = copy;
    out_writer->temporary = temporary;
    int fd = -1;
    for (int attempt = 0; attempt < NAME_ATTEMPTS && fd < 0; attempt++) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        (void)snprintf(temporary, bytes - 1 + SUFFIX_BYTES, "%s.%lx.%lx%x", path, (unsigned long)getpid(),
                       (unsigned long)now.tv_nsec, (unsigned)attempt);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd >= 0 && mode) (void)fchmod(fd, mode); /* where the system refuses, the file has the default ones */
    if (fd >= 0) out_writer->file = fdopen(fd, "wb");
    if (out_writer->file) return NULL;
    weft_status status = weft_file_error("create", path, errno);
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(temporary);
    }
    writer_free(out_writer);
    return status;
}

/* Makes the rename durable; failing to open or sync a folder is no reason to report a failed write. */
static void sync_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash && slash != path) *slash = 0;
    int fd = open(slash ? (slash == path ? "/" : path) : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (slash) *slash = '/';
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

weft_status weft_file_writer_commit(weft_file_writer *writer) {
    errno = 0;
    if (fflush(writer->file) || ferror(writer->file) || fsync(fileno(writer->file))) {
        weft_status status = weft_file_error("write", writer->path, errno ? errno : EIO);
        weft_file_writer_abandon(writer);
        return status;
    }
    int failed = fclose(writer->file);
    writer->file = NULL;
    if (failed || rename(writer->temporary, writer->path)) {
        weft_status status = weft_file_error("write", writer->path, errno);
        weft_file_writer_abandon(writer);
        return status;
    }
    sync_folder(writer->path);
    writer_free(writer);
    return NULL;
}

void weft_file_writer_abandon(weft_file_writer *writer) {
    if (writer->file) (void)fclose(writer->file);
    if (writer->temporary) (void)unlink(writer->temporary);
    writer_free(writer);
}

weft_status weft_file_write_all(weft_allocator allocator, const char *path, const void *data, size_t bytes) {
    weft_file_writer writer;
    WEFT_TRY(weft_file_writer_open(allocator, path, &writer), "writing %s", path);
    if (bytes && fwrite(data, 1, bytes, writer.file) != bytes) {
        weft_status status = weft_file_error("write", path, errno);
        weft_file_writer_abandon(&writer);
        return status;
    }
    return weft_file_writer_commit(&writer);
}

weft_status weft_folder_create(const char *path) {
    char partial[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof partial)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a folder name of %zu bytes", length);
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (partial[i] != '/' && partial[i]) continue;
        char kept = partial[i];
        partial[i] = 0;
        if (mkdir(partial, 0777) && errno != EEXIST) return weft_file_error("create folder", partial, errno);
        partial[i] = kept;
    }
    struct stat info;
    if (stat(path, &info)) return weft_file_error("create folder", path, errno);
    return S_ISDIR(info.st_mode) ? NULL : WEFT_STATUS(WEFT_IO, "%s is not a folder", path);
}
