/* Text from files and callers on its way to a reader's terminal: names of models and files may hold anything, an escape
   sequence among it. Statuses and log messages pass through here, so that whoever makes one needs not think of it. */
#ifndef WEFT_BASE_PRINTABLE_H
#define WEFT_BASE_PRINTABLE_H

#include <stddef.h>

/* As snprintf: at most capacity - 1 characters and a 0; returns the length that all of it has. Kept: printable UTF-8,
   newline, tab. Everything else becomes \xNN, byte by byte: control characters of both sets (C0, C1), marks that turn
   the direction of writing, and bytes that are no UTF-8 (Unicode, table 3-7). */
size_t weft_printable(const char *text, char *out, size_t capacity);

#endif
