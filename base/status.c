/* weft_status: a tagged pointer. Records come from aligned_alloc with 32-byte alignment, so the low five bits hold the
   code; a status below 32 is a bare code without a record (the out-of-memory case).
   Invariant: a record's contexts are listed innermost first; file names are string literals and are not copied. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "weft/status.h"

enum { RECORD_ALIGN = 32 };

typedef struct weft_status_context {
    struct weft_status_context *next;
    const char *file;
    int line;
    char text[];
} weft_status_context;

struct weft_status_record {
    weft_status_context *first, *last; /* first: the message itself */
};

static weft_status tag(struct weft_status_record *record, weft_code code) {
    return (weft_status)((uintptr_t)record | (uintptr_t)code);
}

static struct weft_status_record *record_of(weft_status status) {
    return (struct weft_status_record *)((uintptr_t)status & ~(uintptr_t)(RECORD_ALIGN - 1));
}

/* NULL without memory. */
static weft_status_context *context_create(const char *file, int line, const char *format, va_list arguments)
    WEFT_PRINTF(3, 0);
static weft_status_context *context_create(const char *file, int line, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    size_t bytes = length < 0 ? 1 : (size_t)length + 1;
    char *raw = malloc(bytes);
    if (!raw) return NULL;
    if (length < 0 || vsnprintf(raw, bytes, format, arguments) < 0) raw[0] = 0;
    size_t shown = weft_printable(raw, NULL, 0) + 1;
    weft_status_context *context = malloc(sizeof *context + shown);
    if (context) {
        context->next = NULL;
        context->file = file;
        context->line = line;
        weft_printable(raw, context->text, shown);
    }
    free(raw);
    return context;
}

weft_status weft_status_create(weft_code code, const char *file, int line, const char *format, ...) {
    if (code == WEFT_OK) return NULL;
    struct weft_status_record *record = aligned_alloc(RECORD_ALIGN, RECORD_ALIGN);
    if (!record) return tag(NULL, code);
    va_list arguments;
    va_start(arguments, format);
    record->first = record->last = context_create(file, line, format, arguments);
    va_end(arguments);
    if (!record->first) {
        free(record);
        return tag(NULL, code);
    }
    return tag(record, code);
}

weft_status weft_status_annotate(weft_status status, const char *file, int line, const char *format, ...) {
    struct weft_status_record *record = record_of(status);
    if (!record) return status;
    va_list arguments;
    va_start(arguments, format);
    weft_status_context *context = context_create(file, line, format, arguments);
    va_end(arguments);
    if (context) {
        record->last->next = context;
        record->last = context;
    }
    return status;
}

weft_code weft_status_code(weft_status status) { return (weft_code)((uintptr_t)status & (RECORD_ALIGN - 1)); }

const char *weft_status_message(weft_status status) {
    if (!status) return "";
    struct weft_status_record *record = record_of(status);
    return record ? record->first->text : weft_code_name(weft_status_code(status));
}

/* snprintf at an offset that may lie past the end; returns the new length. */
static size_t put(char *buffer, size_t capacity, size_t length, const char *format, ...) WEFT_PRINTF(4, 5);
static size_t put(char *buffer, size_t capacity, size_t length, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int added = length < capacity ? vsnprintf(buffer + length, capacity - length, format, arguments)
                                  : vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    return length + (added < 0 ? 0 : (size_t)added);
}

size_t weft_status_format(weft_status status, char *buffer, size_t capacity_bytes) {
    if (capacity_bytes) buffer[0] = 0;
    if (!status) return 0;
    const char *name = weft_code_name(weft_status_code(status));
    size_t length = put(buffer, capacity_bytes, 0, "%s", name);
    struct weft_status_record *record = record_of(status);
    if (!record) return length;
    const weft_status_context *context = record->first;
    length = put(buffer, capacity_bytes, length, ": %s (%s:%d)", context->text, context->file, context->line);
    for (context = context->next; context; context = context->next)
        length = put(buffer, capacity_bytes, length, "\n  %s (%s:%d)", context->text, context->file, context->line);
    return length;
}

const char *weft_code_name(weft_code code) {
    switch (code) {
    case WEFT_OK: return "ok";
    case WEFT_INVALID_ARGUMENT: return "invalid argument";
    case WEFT_INVALID_DATA: return "invalid data";
    case WEFT_NOT_FOUND: return "not found";
    case WEFT_UNSUPPORTED: return "unsupported";
    case WEFT_OUT_OF_MEMORY: return "out of memory";
    case WEFT_OUT_OF_RANGE: return "out of range";
    case WEFT_IO: return "input/output error";
    case WEFT_GUARD_FAILED: return "guard failed";
    case WEFT_UNAVAILABLE: return "unavailable";
    case WEFT_INTERNAL: return "internal error";
    }
    return "unknown code";
}

void weft_status_release(weft_status status) {
    struct weft_status_record *record = record_of(status);
    if (!record) return;
    for (weft_status_context *context = record->first; context;) {
        weft_status_context *next = context->next;
        free(context);
        context = next;
    }
    free(record);
}
