/* A Metal that is none: an Objective-C runtime of one function for messages, the classes that runtime/drivers/metal
   talks to, and a device that runs the emitted source on this processor: clang++ compiles it against
   tests/metal/shim, threads of a threadgroup are fibers. Built as a library with the names of Apple's, so the driver
   under test is the one that a Mac runs.

   It is stricter than a Mac: messages that no class has, objects released twice and objects that outlive their pool end
   the process; commands run when somebody waits, not before; buffers end at a page that nobody may touch; threadgroup
   memory starts poisoned; threads run in one order in even threadgroups, in the other in odd ones.
   WEFT_FAKE_METAL injects failures: "name:n,..." = the nth call of that name fails (README.md lists the names).
   Read next: objects.c, device.c, library.c, threads.c. */
#ifndef WEFT_TESTS_METAL_FAKE_FAKE_H
#define WEFT_TESTS_METAL_FAKE_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_class fake_class;
typedef struct fake_object fake_object;

struct fake_object {
    const fake_class *class;
    int references;
    void *data;  /* of the class: see device.c */
    size_t size; /* bytes, counts */
    fake_object *parts[4];
    int64_t number;
    char *text;
};

typedef struct fake_method {
    const char *name;
    void (*function)(void); /* called with the method's type */
} fake_method;

struct fake_class {
    const char *name;
    const fake_method *methods; /* ended by a row without a name */
    void (*destroy)(fake_object *self);
};

/* -- objects.c */
fake_object *fake_new(const fake_class *class); /* owned by the caller */
fake_object *fake_autorelease(fake_object *object);
fake_object *fake_retain(fake_object *object);
void fake_release(fake_object *object);
_Noreturn void fake_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
fake_object *fake_string(const char *text); /* autoreleased */
fake_object *fake_error(int code, const char *text);
/* Is this the call that WEFT_FAKE_METAL wants to fail? Counts calls of the name. */
bool fake_fails(const char *name);
/* The value of "name=value" in WEFT_FAKE_METAL, or fallback. */
int64_t fake_setting(const char *name, int64_t fallback);
/* Objects that are alive: for tests. */
int fake_live_objects(void);

extern const fake_class fake_string_class, fake_error_class, fake_array_class, fake_options_class, fake_device_class;
/* Classes that receive messages themselves. */
extern fake_object fake_string_itself, fake_options_itself;

/* -- library.c: source -> code. NULL with a message in *out_error (from malloc). */
typedef struct fake_library fake_library;
fake_library *fake_library_compile(const char *source, char **out_error);
void fake_library_close(fake_library *library);

/* As shim_kernel of tests/metal/shim/metal_stdlib. */
typedef struct fake_call {
    void **bound;
    uint32_t local, group, groups;
} fake_call;
typedef struct fake_code {
    void (*run)(const fake_call *call);
    int count;
    unsigned char align[32];
} fake_code;
const fake_code *fake_library_find(fake_library *library, const char *name);
int fake_library_threads(fake_library *library, const char *name); /* its max_total_threads_per_threadgroup */

/* -- threads.c: all threadgroups of a dispatch; NULL or what went wrong. `shared` remembers threadgroup memory. */
typedef struct fake_shared {
    void *storage[64];
    size_t bytes[64];
    int count;
} fake_shared;
const char *fake_dispatch(const fake_code *code, fake_shared *shared, void **bound, uint32_t groups, int threads);

/* What libraries call: the shim's own record. */
typedef struct fake_api {
    void (*barrier)(void *site);
    uint32_t *(*exchange)(uint32_t value, void *site);
    uint32_t (*lane)(void);
    void (*share)(void *storage, unsigned long bytes);
} fake_api;
extern const fake_api fake_threads;

#endif
