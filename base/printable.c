/* See printable.h. */
#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The character at text and its bytes; 0 bytes: no UTF-8. The text ends in a 0, which no sequence contains. */
static size_t decode(const unsigned char *text, uint32_t *out_character) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
    if (length < 2) {
        *out_character = first;
        return length;
    }
    uint32_t character = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        character = character << 6 | (text[i] & 0x3fu);
    }
    *out_character = character;
    bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
    return first > 0xf4 || character < least[length] || character > 0x10ffff || is_surrogate ? 0 : length;
}

static bool is_shown(uint32_t c) {
    if (c < 0x20) return c == '\n' || c == '\t';
    return (c < 0x7f || c >= 0xa0) && !(c >= 0x202a && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069);
}

size_t weft_printable(const char *text, char *out, size_t capacity) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)text;
    size_t length = 0, end = 0;
    bool whole = capacity > 0; /* everything so far had room: no piece of an escape or a character is written */
    while (*at) {
        uint32_t character;
        size_t bytes = decode(at, &character), added;
        char piece[4];
        bool shown = bytes > 0 && is_shown(character);
        if (shown) {
            memcpy(piece, at, bytes);
            at += bytes, added = bytes;
        } else {
            piece[0] = '\\', piece[1] = 'x', piece[2] = digits[*at >> 4], piece[3] = digits[*at & 15];
            at++, added = 4;
        }
        whole = whole && length + added < capacity;
        if (whole) memcpy(out + length, piece, added), end = length + added;
        length += added;
    }
    if (capacity > 0) out[end] = 0;
    return length;
}
