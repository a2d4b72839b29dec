/* Errors of every Weft call.

   weft_status is NULL on success. Otherwise it owns a message, the file:line that raised it and a chain of contexts;
   the code sits in the low bits of the pointer, so that "out of memory" itself needs no memory.
   Ownership: whoever receives a status releases it (weft_status_release) or passes it on.
   Threading: a status belongs to one thread at a time. */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEFT_MUST_USE                    __attribute__((warn_unused_result))
#define WEFT_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define WEFT_MUST_USE
#define WEFT_PRINTF(format_index, first)
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

typedef struct weft_status_record *weft_status;

typedef enum weft_code {
    WEFT_OK = 0,
    WEFT_INVALID_ARGUMENT = 1, /* the caller's value is wrong */
    WEFT_INVALID_DATA = 2,     /* a file or message is damaged or hostile */
    WEFT_NOT_FOUND = 3,        /* a file, symbol, entry point or device is missing */
    WEFT_UNSUPPORTED = 4,      /* right, but this build or target cannot do it */
    WEFT_OUT_OF_MEMORY = 5,    /* host or device memory */
    WEFT_OUT_OF_RANGE = 6,     /* a symbol out of its bounds, an index out of its shape */
    WEFT_IO = 7,               /* the operating system refused a read or a write; a full disk */
    WEFT_GUARD_FAILED = 8,     /* the program was compiled for other shapes */
    WEFT_UNAVAILABLE = 9,      /* a driver or library is not usable now */
    WEFT_INTERNAL = 10         /* a bug in Weft */
} weft_code;

/* Creates a status. Never fails: without memory it returns the bare code. Control characters of the text, but for
   newline and tab, and bytes that are no UTF-8 become \xNN, so that no name from a file writes to a terminal as it
   likes. */
WEFT_API weft_status weft_status_create(weft_code code, const char *file, int line, const char *format, ...)
    WEFT_PRINTF(4, 5) WEFT_MUST_USE;

/* Adds one line of context; returns the same status. NULL stays NULL. */
WEFT_API weft_status weft_status_annotate(weft_status status, const char *file, int line, const char *format, ...)
    WEFT_PRINTF(4, 5) WEFT_MUST_USE;

WEFT_API weft_code weft_status_code(weft_status status);

/* The innermost message, borrowed from the status ("" for NULL). */
WEFT_API const char *weft_status_message(weft_status status);

/* Writes message, location and contexts into buffer (always terminated); returns the full length. */
WEFT_API size_t weft_status_format(weft_status status, char *buffer, size_t capacity_bytes);

/* Name of a code, "invalid argument" for WEFT_INVALID_ARGUMENT. */
WEFT_API const char *weft_code_name(weft_code code);

/* Frees the status. NULL is fine. */
WEFT_API void weft_status_release(weft_status status);

#define WEFT_STATUS(code, ...) weft_status_create((code), __FILE__, __LINE__, __VA_ARGS__)

/* Returns from the calling function with one more line of context if expr failed. */
#define WEFT_TRY(expr, ...)                                                                                            \
    do {                                                                                                               \
        weft_status weft_try_status_ = (expr);                                                                         \
        if (weft_try_status_) return weft_status_annotate(weft_try_status_, __FILE__, __LINE__, __VA_ARGS__);          \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
