/* A growable string with a sticky error: printers append without checking and ask once at the end. Thread-compatible.
 */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>

#include "weft/allocator.h"

typedef struct weft_text {
    weft_allocator allocator;
    char *data; /* terminated; NULL while empty */
    size_t length, capacity;
    bool failed; /* out of memory at some append */
} weft_text;

void weft_text_init(weft_allocator allocator, weft_text *out_text);
void weft_text_deinit(weft_text *text);
void weft_text_append(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_append_list(weft_text *text, const char *format, va_list arguments) WEFT_PRINTF(2, 0);
void weft_text_append_bytes(weft_text *text, const char *data, size_t bytes);
/* Quoted and escaped as JSON wants it; .wir uses the same quoting. */
void weft_text_append_quoted(weft_text *text, const char *data, size_t bytes);
/* Shortest decimal that reads back to the same double; inf, -inf, nan as words. */
void weft_text_append_double(weft_text *text, double value);
/* Reads all of text as a double (also inf, -inf, nan, hexadecimal), whatever the locale; false when it is none. */
bool weft_text_parse_double(const char *text, size_t bytes, double *out_value);
/* "" for an empty text. */
const char *weft_text_string(const weft_text *text);
weft_status weft_text_status(const weft_text *text) WEFT_MUST_USE;

#endif
