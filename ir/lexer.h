/* Tokens of .wir: a cursor over text that may be hostile. The first problem stays; later calls fail quietly.
   Invariant: the cursor never passes the end; strings are unescaped into the arena. Read next: parse.c. */
#ifndef WEFT_IR_LEXER_H
#define WEFT_IR_LEXER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

typedef struct weft_lexer {
    const char *text, *at, *end;
    weft_arena *arena;
    weft_status status; /* NULL while all is well */
} weft_lexer;

/* Records "line:column: text" unless something failed before; always false. */
bool weft_lexer_fail(weft_lexer *lexer, weft_code code, const char *format, ...) WEFT_PRINTF(3, 4);
/* Skips spaces and comments; true at the end of the text. */
bool weft_lexer_at_end(weft_lexer *lexer);
/* Takes the punctuation or word when it is next; a word is not taken off the front of a longer one. */
bool weft_lexer_take(weft_lexer *lexer, const char *token);
bool weft_lexer_peek(weft_lexer *lexer, char c);
/* The same, a problem when it is not there. */
bool weft_lexer_expect(weft_lexer *lexer, const char *token);
/* [A-Za-z_][A-Za-z0-9_.]*, borrowed from the text. */
bool weft_lexer_word(weft_lexer *lexer, const char **out_word, size_t *out_bytes);
bool weft_lexer_string(weft_lexer *lexer, const char **out_text);
/* A word or a quoted string, terminated, in the arena. */
bool weft_lexer_name(weft_lexer *lexer, const char **out_text);
/* A decimal integer; numbers from 2^63 to 2^64 - 1 give their two's complement bits. */
bool weft_lexer_integer(weft_lexer *lexer, int64_t *out_value);
bool weft_lexer_double(weft_lexer *lexer, double *out_value);
/* An expression up to a comma, bracket or relation outside parentheses and quotes: borrowed, not empty. */
bool weft_lexer_expression(weft_lexer *lexer, const char **out_text, size_t *out_bytes);

#endif
