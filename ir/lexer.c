/* The tokens of lexer.h. */
#include "ir/lexer.h"

#include <stdio.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word(char c) { return is_word_start(c) || is_digit(c) || c == '.'; }

bool weft_lexer_fail(weft_lexer *lexer, weft_code code, const char *format, ...) {
    if (lexer->status) return false;
    int line = 1, column = 1;
    for (const char *at = lexer->text; at < lexer->at; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
    }
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    lexer->status = WEFT_STATUS(code, "%d:%d: %s", line, column, text);
    return false;
}

bool weft_lexer_at_end(weft_lexer *lexer) {
    for (;;) {
        while (lexer->at < lexer->end && strchr(" \t\r\n", *lexer->at) && *lexer->at) lexer->at++;
        if (lexer->end - lexer->at < 2 || lexer->at[0] != '/' || lexer->at[1] != '/') break;
        while (lexer->at < lexer->end && *lexer->at != '\n') lexer->at++;
    }
    return lexer->at == lexer->end;
}

bool weft_lexer_peek(weft_lexer *lexer, char c) { return !weft_lexer_at_end(lexer) && *lexer->at == c; }

bool weft_lexer_take(weft_lexer *lexer, const char *token) {
    size_t length = strlen(token);
    if (lexer->status || weft_lexer_at_end(lexer)) return false;
    if ((size_t)(lexer->end - lexer->at) < length || memcmp(lexer->at, token, length) != 0) return false;
    const char *after = lexer->at + length;
    if (is_word_start(*token) && after < lexer->end && is_word(*after)) return false;
    lexer->at = after;
    return true;
}

bool weft_lexer_expect(weft_lexer *lexer, const char *token) {
    if (weft_lexer_take(lexer, token)) return true;
    return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "expected %s", token);
}

bool weft_lexer_word(weft_lexer *lexer, const char **out_word, size_t *out_bytes) {
    if (lexer->status) return false;
    if (weft_lexer_at_end(lexer) || !is_word_start(*lexer->at))
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "expected a name");
    *out_word = lexer->at;
    while (lexer->at < lexer->end && is_word(*lexer->at)) lexer->at++;
    *out_bytes = (size_t)(lexer->at - *out_word);
    return true;
}

/* -- strings */

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* \uXXXX: code points below the surrogates, as UTF-8; zero would end the string early and is refused. */
static bool unescape_unicode(weft_lexer *lexer, char **out) {
    int code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = lexer->at < lexer->end ? hex_digit(*lexer->at) : -1;
        if (digit < 0) return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "bad \\u escape");
        code = code * 16 + digit;
        lexer->at++;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "\\u%04x is not a character", code);
    if (code < 0x80)
        *(*out)++ = (char)code;
    else if (code < 0x800) {
        *(*out)++ = (char)(0xc0 | code >> 6);
        *(*out)++ = (char)(0x80 | (code & 0x3f));
    } else {
        *(*out)++ = (char)(0xe0 | code >> 12);
        *(*out)++ = (char)(0x80 | (code >> 6 & 0x3f));
        *(*out)++ = (char)(0x80 | (code & 0x3f));
    }
    return true;
}

static bool unescape(weft_lexer *lexer, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = *lexer->at++;
    if (c == 'u') return unescape_unicode(lexer, out);
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "unknown escape");
    *(*out)++ = to[found - from];
    return true;
}

bool weft_lexer_string(weft_lexer *lexer, const char **out_text) {
    *out_text = "";
    if (!weft_lexer_expect(lexer, "\"")) return false;
    const char *close = lexer->at;
    while (close < lexer->end && *close != '"' && *close != '\n' && *close) close += *close == '\\' ? 2 : 1;
    if (close >= lexer->end || *close != '"') return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "a string does not end");
    /* no escape is longer than what it stands for */
    char *copy = weft_arena_allocate(lexer->arena, (size_t)(close - lexer->at) + 1), *out = copy;
    if (!copy) return weft_lexer_fail(lexer, WEFT_OUT_OF_MEMORY, "a string");
    while (lexer->at < close) {
        if (*lexer->at != '\\')
            *out++ = *lexer->at++;
        else if (lexer->at++, !unescape(lexer, &out))
            return false;
    }
    lexer->at = close + 1;
    *out = 0;
    *out_text = copy;
    return true;
}

bool weft_lexer_name(weft_lexer *lexer, const char **out_text) {
    const char *word;
    size_t bytes;
    *out_text = "";
    if (weft_lexer_peek(lexer, '"')) return weft_lexer_string(lexer, out_text);
    if (!weft_lexer_word(lexer, &word, &bytes)) return false;
    *out_text = weft_arena_copy_string(lexer->arena, word, bytes);
    return *out_text ? true : weft_lexer_fail(lexer, WEFT_OUT_OF_MEMORY, "a name");
}

/* -- numbers */

bool weft_lexer_integer(weft_lexer *lexer, int64_t *out_value) {
    *out_value = 0;
    bool negative = weft_lexer_take(lexer, "-");
    if (lexer->status) return false;
    if (lexer->at == lexer->end || !is_digit(*lexer->at))
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "expected an integer");
    uint64_t value = 0;
    for (; lexer->at < lexer->end && is_digit(*lexer->at); lexer->at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*lexer->at - '0'), &value))
            return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "an integer has more than 64 bits");
    if (negative && value > (uint64_t)INT64_MAX + 1)
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "an integer has more than 64 bits");
    *out_value = (int64_t)(negative ? 0 - value : value);
    return true;
}

bool weft_lexer_double(weft_lexer *lexer, double *out_value) {
    *out_value = 0;
    if (lexer->status) return false;
    weft_lexer_at_end(lexer);
    const char *start = lexer->at;
    while (lexer->at < lexer->end && (is_word(*lexer->at) || *lexer->at == '-' || *lexer->at == '+')) lexer->at++;
    if (weft_text_parse_double(start, (size_t)(lexer->at - start), out_value)) return true;
    lexer->at = start;
    return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "expected a number");
}

bool weft_lexer_expression(weft_lexer *lexer, const char **out_text, size_t *out_bytes) {
    if (lexer->status) return false;
    weft_lexer_at_end(lexer);
    const char *start = lexer->at;
    int depth = 0;
    bool quoted = false;
    for (; lexer->at < lexer->end && *lexer->at != '\n'; lexer->at++) {
        char c = *lexer->at;
        if (c == '"') quoted = !quoted;
        if (quoted && c == '\\' && lexer->end - lexer->at > 1) lexer->at++;
        if (quoted) continue;
        if (c == '(') depth++;
        if (c == ')' && depth-- == 0) break;
        if (depth == 0 && (c == ',' || c == ']' || c == '=' || c == '!' || c == '<')) break;
    }
    *out_text = start;
    *out_bytes = (size_t)(lexer->at - start);
    while (*out_bytes && start[*out_bytes - 1] == ' ') --*out_bytes;
    if (*out_bytes == 0) return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "expected an extent");
    return true;
}
