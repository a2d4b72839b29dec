/* The growable string. Numbers are written and read independently of the process's locale. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

void weft_text_init(weft_allocator allocator, weft_text *out_text) { *out_text = (weft_text){.allocator = allocator}; }

void weft_text_deinit(weft_text *text) {
    if (text->data) text->allocator.resize(text->allocator.self, text->data, text->capacity, 0, 1);
    weft_text_init(text->allocator, text);
}

/* Room for `bytes` more and the terminator. */
static bool reserve(weft_text *text, size_t bytes) {
    size_t needed;
    if (text->failed) return false;
    if (!weft_size_add(text->length, bytes, &needed) || !weft_size_add(needed, 1, &needed) ||
        (needed > text->capacity && needed < 64 &&
         !WEFT_ARRAY_RESERVE(text->allocator, text->data, text->capacity, 64)) ||
        !WEFT_ARRAY_RESERVE(text->allocator, text->data, text->capacity, needed))
        text->failed = true;
    return !text->failed;
}

void weft_text_append_list(weft_text *text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) text->failed = true;
    if (length < 0 || !reserve(text, (size_t)length)) return;
    if (vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments) != length) {
        text->failed = true;
        text->data[text->length] = 0;
        return;
    }
    text->length += (size_t)length;
}

void weft_text_append(weft_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    weft_text_append_list(text, format, arguments);
    va_end(arguments);
}

void weft_text_append_bytes(weft_text *text, const char *data, size_t bytes) {
    if (!reserve(text, bytes)) return;
    if (bytes) memcpy(text->data + text->length, data, bytes);
    text->length += bytes;
    text->data[text->length] = 0;
}

void weft_text_append_quoted(weft_text *text, const char *data, size_t bytes) {
    weft_text_append_bytes(text, "\"", 1);
    size_t start = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        weft_text_append_bytes(text, data + start, i - start);
        start = i + 1;
        switch (c) {
        case '"': weft_text_append_bytes(text, "\\\"", 2); break;
        case '\\': weft_text_append_bytes(text, "\\\\", 2); break;
        case '\n': weft_text_append_bytes(text, "\\n", 2); break;
        case '\r': weft_text_append_bytes(text, "\\r", 2); break;
        case '\t': weft_text_append_bytes(text, "\\t", 2); break;
        default: weft_text_append(text, "\\u%04x", c);
        }
    }
    weft_text_append_bytes(text, data + start, bytes - start);
    weft_text_append_bytes(text, "\"", 1);
}

/* The fewest significant digits of a finite positive value that read back; the value is 0.d1d2... * 10^exponent. */
static int shortest_digits(double value, char digits[32], int *out_exponent) {
    for (int precision = 0;; precision++) {
        char buffer[64];
        if (snprintf(buffer, sizeof buffer, "%.*e", precision, value) < 0) return 0;
        if (precision < 17 && strtod(buffer, NULL) != value) continue; /* both in the same locale */
        int count = 0;
        const char *c = buffer;
        for (; *c != 'e'; c++)
            if (*c >= '0' && *c <= '9') digits[count++] = *c;
        *out_exponent = atoi(c + 1) + 1;
        return count;
    }
}

void weft_text_append_double(weft_text *text, double value) {
    if (isnan(value)) {
        weft_text_append_bytes(text, "nan", 3);
        return;
    }
    if (signbit(value)) weft_text_append_bytes(text, "-", 1);
    value = fabs(value);
    if (isinf(value)) {
        weft_text_append_bytes(text, "inf", 3);
        return;
    }
    if (value == 0) {
        weft_text_append_bytes(text, "0", 1);
        return;
    }
    char digits[32];
    int exponent = 0, count = shortest_digits(value, digits, &exponent);
    if (exponent < -4 || exponent > 17) { /* d.ddde±x */
        weft_text_append_bytes(text, digits, 1);
        if (count > 1) weft_text_append(text, ".%.*s", count - 1, digits + 1);
        weft_text_append(text, "e%d", exponent - 1);
    } else if (exponent <= 0) {
        weft_text_append(text, "0.%.*s%.*s", -exponent, "0000", count, digits);
    } else if (count <= exponent) {
        weft_text_append(text, "%.*s%.*s", count, digits, exponent - count, "00000000000000000");
    } else {
        weft_text_append(text, "%.*s.%.*s", exponent, digits, count - exponent, digits + exponent);
    }
}

bool weft_text_parse_double(const char *text, size_t bytes, double *out_value) {
    char buffer[512]; /* longer numerals than this carry no information that weft writes */
    if (bytes == 0 || bytes >= sizeof buffer || text[0] == ' ' || memchr(text, 0, bytes)) return false;
    memcpy(buffer, text, bytes);
    buffer[bytes] = 0;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) return false;
    char *end = NULL;
    *out_value = strtod_l(buffer, &end, c_locale);
    freelocale(c_locale);
    return end == buffer + bytes;
}

const char *weft_text_string(const weft_text *text) { return text->data ? text->data : ""; }

weft_status weft_text_status(const weft_text *text) {
    return text->failed ? WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a text of %zu bytes", text->length) : NULL;
}
