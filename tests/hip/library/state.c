/* Calls counted and made to fail, memory, and what the library knows of ELF. */
#include "tests/hip/library/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hip/library/fake.h"

enum { FUNCTIONS = 64 };

typedef struct counted {
    char name[40];
    int calls, fails_at, result;
} counted;

fake fake_state = {.lock = PTHREAD_MUTEX_INITIALIZER};
static counted functions[FUNCTIONS];

static counted *find_counted(const char *name) {
    for (int i = 0; i < FUNCTIONS; i++) {
        if (!functions[i].name[0]) snprintf(functions[i].name, sizeof functions[i].name, "%s", name);
        if (!strcmp(functions[i].name, name)) return &functions[i];
    }
    return &functions[FUNCTIONS - 1];
}

EXPORT void fake_hip_fail(const char *function, int nth, int result) {
    (void)pthread_mutex_lock(&fake_state.lock);
    counted *c = find_counted(function);
    c->fails_at = c->calls + nth, c->result = result;
    (void)pthread_mutex_unlock(&fake_state.lock);
}

EXPORT int fake_hip_calls(const char *function) {
    (void)pthread_mutex_lock(&fake_state.lock);
    int calls = find_counted(function)->calls;
    (void)pthread_mutex_unlock(&fake_state.lock);
    return calls;
}

EXPORT int fake_hip_live(void) {
    (void)pthread_mutex_lock(&fake_state.lock);
    const fake *f = &fake_state;
    int live = (int)f->block_count + f->events + f->modules + f->graphs;
    for (const fake_stream *s = f->streams; s; s = s->next) live++;
    (void)pthread_mutex_unlock(&fake_state.lock);
    return live;
}

EXPORT long fake_hip_matrix(void) {
    (void)pthread_mutex_lock(&fake_state.lock);
    long count = fake_state.machine ? (long)amdgcn_machine_counts(fake_state.machine).matrix : 0;
    (void)pthread_mutex_unlock(&fake_state.lock);
    return count;
}

EXPORT void fake_hip_reset(void) { fake_state.fault = SUCCESS; }

int fake_enter(const char *function) {
    (void)pthread_mutex_lock(&fake_state.lock);
    counted *c = find_counted(function);
    if (++c->calls == c->fails_at) return c->result;
    return SUCCESS;
}

int fake_leave(int result) {
    (void)pthread_mutex_unlock(&fake_state.lock);
    return result;
}

int fake_start(void) {
    fake *f = &fake_state;
    if (f->arch[0]) return f->devices > 0 ? SUCCESS : NO_DEVICE;
    const char *arch = getenv("WEFT_FAKE_HIP_ARCH"), *devices = getenv("WEFT_FAKE_HIP_DEVICES");
    snprintf(f->arch, sizeof f->arch, "%s", arch ? arch : "gfx90a");
    f->devices = devices ? atoi(devices) : 1;
    weft_status status = amdgcn_machine_create(f->arch, &f->machine);
    if (!status) return f->devices > 0 ? SUCCESS : NO_DEVICE;
    (void)weft_status_format(status, f->message, sizeof f->message);
    weft_status_release(status);
    f->devices = 0;
    return NO_DEVICE;
}

/* -- memory */

int fake_block_add(void *memory, size_t bytes, bool device) {
    fake *f = &fake_state;
    if (f->block_count == f->block_capacity) {
        size_t capacity = f->block_capacity ? 2 * f->block_capacity : 64;
        fake_block *more = realloc(f->blocks, capacity * sizeof *more);
        if (!more) return OUT_OF_MEMORY;
        f->blocks = more, f->block_capacity = capacity;
    }
    if (device) {
        weft_status status = amdgcn_machine_map(f->machine, memory, bytes, true);
        if (status) {
            weft_status_release(status);
            return OUT_OF_MEMORY;
        }
    }
    f->blocks[f->block_count++] = (fake_block){memory, bytes, device};
    return SUCCESS;
}

bool fake_block_remove(void *memory) {
    fake *f = &fake_state;
    for (size_t i = 0; i < f->block_count; i++) {
        if (f->blocks[i].memory != memory) continue;
        if (f->blocks[i].device) amdgcn_machine_unmap(f->machine, memory);
        f->blocks[i] = f->blocks[--f->block_count];
        return true;
    }
    return false;
}

bool fake_block_holds(const void *memory, size_t bytes) {
    const fake *f = &fake_state;
    uintptr_t at = (uintptr_t)memory;
    for (size_t i = 0; i < f->block_count; i++) {
        uintptr_t start = (uintptr_t)f->blocks[i].memory;
        if (f->blocks[i].device && at >= start && at - start <= f->blocks[i].bytes &&
            bytes <= f->blocks[i].bytes - (at - start))
            return true;
    }
    return false;
}

/* -- ELF64, little-endian */

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

size_t fake_elf_bytes(const unsigned char *data) {
    if (memcmp(data, "\177ELF", 4) != 0 || number(data + 18, 2) != 224) return 0; /* EM_AMDGPU */
    return number(data + 40, 8) + number(data + 58, 2) * number(data + 60, 2);
}

/* Where an address lies in the file; 0 = in no segment. */
static uint64_t file_offset(const unsigned char *data, size_t bytes, uint64_t address) {
    uint64_t headers = number(data + 32, 8);
    for (uint64_t i = 0; i < number(data + 56, 2) && headers + 56 * (i + 1) <= bytes; i++) {
        const unsigned char *h = data + headers + 56 * i;
        uint64_t offset = number(h + 8, 8), start = number(h + 16, 8), size = number(h + 32, 8);
        if (number(h, 4) == 1 && address >= start && address - start < size) return offset + (address - start);
    }
    return 0;
}

bool fake_elf_kernel(const unsigned char *data, size_t bytes, const char *name, size_t *out_argument_bytes) {
    char wanted[NAME_BYTES + 4];
    snprintf(wanted, sizeof wanted, "%s.kd", name);
    uint64_t sections = number(data + 40, 8), count = number(data + 60, 2);
    for (uint64_t i = 0; i < count && sections + 64 * (i + 1) <= bytes; i++) {
        const unsigned char *s = data + sections + 64 * i;
        if (number(s + 4, 4) != 11) continue; /* dynamic symbols */
        const unsigned char *names = data + sections + 64 * number(s + 40, 4);
        uint64_t first = number(s + 24, 8), size = number(s + 32, 8), text = number(names + 24, 8);
        for (uint64_t at = first; at + 24 <= first + size && at + 24 <= bytes; at += 24) {
            uint64_t spelt = text + number(data + at, 4);
            if (spelt + strlen(wanted) >= bytes || strcmp((const char *)data + spelt, wanted) != 0) continue;
            uint64_t descriptor = file_offset(data, bytes, number(data + at + 8, 8));
            if (!descriptor || descriptor + 64 > bytes) return false;
            *out_argument_bytes = number(data + descriptor + 8, 4);
            return true;
        }
    }
    return false;
}
