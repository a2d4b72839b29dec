/* What the files of the library share. One lock; every entry point takes it. Read next: state.c, queue.c, entry.c. */
#ifndef WEFT_TESTS_HIP_STATE_H
#define WEFT_TESTS_HIP_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/amdgcn/emulator/emulator.h"

#define EXPORT __attribute__((visibility("default")))

/* hipError_t */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    ILLEGAL_STATE = 401,
    LAUNCH_FAILURE = 719,
    CAPTURE_UNSUPPORTED = 900
};

enum { ARGUMENTS_BYTES = 1024, NAME_BYTES = 128 };

typedef struct fake_module {
    amdgcn_code *code;
    const unsigned char *data;
    unsigned char *copy;
    size_t bytes;
    struct fake_function *functions;
} fake_module;

typedef struct fake_function {
    fake_module *owner;
    char name[NAME_BYTES];
    size_t argument_bytes;
    struct fake_function *next;
} fake_function;

typedef struct fake_event {
    int64_t time_ns;
    bool recorded, pending;
} fake_event;

/* One queued thing: a launch, a copy, a fill or an event's record. */
typedef struct fake_command {
    const fake_function *function;
    unsigned blocks, threads, shared_bytes;
    unsigned char arguments[ARGUMENTS_BYTES];
    void *to;
    const void *from;
    void *staged; /* owned: bytes that came from the host */
    size_t bytes;
    bool fills;
    int value;
    fake_event *mark;
} fake_command;

typedef struct fake_commands {
    fake_command *list;
    size_t count, capacity;
} fake_commands;

typedef struct fake_stream {
    fake_commands queue, captured;
    bool capturing;
    struct fake_stream *next;
} fake_stream;

typedef struct fake_block {
    void *memory;
    size_t bytes;
    bool device;
} fake_block;

typedef struct fake {
    pthread_mutex_t lock;
    amdgcn_machine *machine;
    char arch[32];
    int devices;
    fake_block *blocks;
    size_t block_count, block_capacity;
    fake_stream *streams;
    int events, modules, graphs;
    int fault; /* sticky: every later call that touches the device gives it */
    char message[512];
} fake;

extern fake fake_state;

/* Counts the call; the result that it has to give at once, or SUCCESS. Takes the lock: leave unlocks and passes on. */
int fake_enter(const char *function);
int fake_leave(int result);
int fake_start(void); /* machine and devices; SUCCESS or NO_DEVICE */

int fake_block_add(void *memory, size_t bytes, bool device);
bool fake_block_remove(void *memory);
/* [memory, memory + bytes) lies in one device block. */
bool fake_block_holds(const void *memory, size_t bytes);

/* Takes over what command->staged owns, whatever happens. */
int fake_queue(fake_stream *stream, const fake_command *command);
int fake_drain(fake_stream *stream);
void fake_drain_all(void);
void fake_clear(fake_commands *commands);
int fake_repeat(fake_stream *stream, const fake_commands *captured);

/* The size that an ELF file's header promises; 0 = none. */
size_t fake_elf_bytes(const unsigned char *data);
/* Bytes of arguments of a kernel; false when the file has no such kernel. */
bool fake_elf_kernel(const unsigned char *data, size_t bytes, const char *name, size_t *out_argument_bytes);

#endif
