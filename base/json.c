/* The JSON reader: recursive descent with a depth limit over RFC 8259. Beyond the grammar it rejects what would make
   two readers disagree: duplicate keys, NUL characters, invalid UTF-8, lone surrogates. Children of open arrays and
   objects gather on one stack and move to the arena when their parent closes. */
#include <string.h>

#include "base/json.h"
#include "base/map.h"
#include "base/text.h"

enum { DEPTH_LIMIT = 100 };

typedef struct weft_json_item {
    const char *key;
    weft_json value;
} weft_json_item;

typedef struct weft_json_parser {
    weft_arena *arena;
    const unsigned char *text;
    size_t bytes, at;
    int depth;
    weft_json_item *items;
    size_t item_count, item_capacity;
} weft_json_parser;

#define BAD(parser, ...) bad_at((parser)->at, __LINE__, __VA_ARGS__)
static weft_status bad_at(size_t at, int line, const char *what) {
    return weft_status_create(WEFT_INVALID_DATA, __FILE__, line, "JSON, byte %zu: %s", at, what);
}

static weft_status no_memory(void) { return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for JSON"); }

/* 0 at the end: a NUL byte in the text is invalid everywhere anyway. */
static unsigned char peek(const weft_json_parser *p) { return p->at < p->bytes ? p->text[p->at] : 0; }

static void skip_space(weft_json_parser *p) {
    while (p->at < p->bytes && p->text[p->at] && strchr(" \t\r\n", p->text[p->at])) p->at++;
}

static bool take_word(weft_json_parser *p, const char *word) {
    size_t length = strlen(word);
    if (p->bytes - p->at < length || memcmp(p->text + p->at, word, length)) return false;
    p->at += length;
    return true;
}

static weft_status parse_hex4(weft_json_parser *p, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        unsigned char c = peek(p);
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = c - (uint32_t)'0';
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (uint32_t)(c | 32) - 'a' + 10;
        else
            return BAD(p, "four hexadecimal digits expected");
        *out = *out * 16 + digit;
    }
    return NULL;
}

static size_t put_utf8(char *out, uint32_t c) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n == 1) {
        out[0] = (char)c;
        return 1;
    }
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)((0xf00u >> n & 0xf0u) | c);
    return n;
}

/* After a backslash. Writes at most four bytes, never more than the escape has. */
static weft_status parse_escape(weft_json_parser *p, char *out, size_t *out_bytes) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    unsigned char c = peek(p);
    const char *found = c ? strchr(names, c) : NULL;
    *out_bytes = 1;
    if (found) {
        out[0] = values[found - names];
        p->at++;
        return NULL;
    }
    if (c != 'u') return BAD(p, "unknown escape");
    p->at++;
    uint32_t code, low;
    WEFT_TRY(parse_hex4(p, &code), "reading an escape");
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || !take_word(p, "\\u")) return BAD(p, "lone surrogate");
        WEFT_TRY(parse_hex4(p, &low), "reading an escape");
        if (low < 0xdc00 || low >= 0xe000) return BAD(p, "lone surrogate");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    if (code == 0) return BAD(p, "NUL character in a string");
    *out_bytes = put_utf8(out, code);
    return NULL;
}

/* Length of the valid UTF-8 sequence at the cursor (Unicode table 3-7); 0 = invalid. */
static size_t utf8_length(const weft_json_parser *p) {
    const unsigned char *s = p->text + p->at;
    size_t left = p->bytes - p->at, n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* At the opening quote. */
static weft_status parse_string(weft_json_parser *p, const char **out, size_t *out_length) {
    size_t end = p->at + 1; /* the raw length bounds the unescaped one */
    while (end < p->bytes && p->text[end] != '"') end += p->text[end] == '\\' ? 2 : 1;
    if (end >= p->bytes) return BAD(p, "string without end");
    char *buffer = weft_arena_allocate(p->arena, end - p->at);
    if (!buffer) return no_memory();
    size_t length = 0;
    for (p->at++; peek(p) != '"';) {
        unsigned char c = peek(p);
        size_t n = 1;
        if (c == '\\') {
            p->at++;
            WEFT_TRY(parse_escape(p, buffer + length, &n), "reading a string");
            length += n;
            continue;
        }
        if (c < 0x20) return BAD(p, "control character in a string");
        if (c >= 0x80 && !(n = utf8_length(p))) return BAD(p, "invalid UTF-8");
        memcpy(buffer + length, p->text + p->at, n);
        length += n;
        p->at += n;
    }
    p->at++;
    buffer[length] = 0;
    *out = buffer;
    *out_length = length;
    return NULL;
}

static bool skip_digits(weft_json_parser *p) {
    size_t start = p->at;
    while (peek(p) >= '0' && peek(p) <= '9') p->at++;
    return p->at > start;
}

static weft_status parse_number(weft_json_parser *p, weft_json *out) {
    size_t start = p->at;
    bool negative = peek(p) == '-', integer = true;
    if (negative) p->at++;
    size_t first = p->at;
    if (!skip_digits(p)) return BAD(p, "value expected");
    if (p->text[first] == '0' && p->at > first + 1) return BAD(p, "leading zero");
    size_t last = p->at;
    if (peek(p) == '.') {
        integer = false;
        p->at++;
        if (!skip_digits(p)) return BAD(p, "digit expected after the point");
    }
    if ((peek(p) | 32) == 'e') {
        integer = false;
        p->at++;
        if (peek(p) == '+' || peek(p) == '-') p->at++;
        if (!skip_digits(p)) return BAD(p, "digit expected in the exponent");
    }
    out->kind = WEFT_JSON_NUMBER;
    if (!weft_text_parse_double((const char *)p->text + start, p->at - start, &out->number))
        return BAD(p, "numeral too long");
    int64_t value = 0;
    for (size_t i = first; integer && i < last; i++) {
        int digit = p->text[i] - '0';
        integer = !__builtin_mul_overflow(value, 10, &value) &&
                  !__builtin_add_overflow(value, negative ? -digit : digit, &value);
    }
    out->is_integer = integer;
    out->integer = integer ? value : 0;
    return NULL;
}

static weft_status parse_value(weft_json_parser *p, weft_json *out);

/* Moves items [base, ...) into `out`, which closes. */
static weft_status close_container(weft_json_parser *p, size_t base, weft_json *out) {
    size_t count = p->item_count - base;
    bool object = out->kind == WEFT_JSON_OBJECT;
    out->length = count;
    out->children = weft_arena_allocate_array(p->arena, count, sizeof *out->children);
    if (object) out->keys = weft_arena_allocate_array(p->arena, count, sizeof *out->keys);
    if (!out->children || (object && !out->keys)) return no_memory();
    weft_map seen;
    weft_map_init(p->arena->allocator, &seen);
    weft_status status = NULL;
    for (size_t i = 0; i < count && !status; i++) {
        const weft_json_item *item = &p->items[base + i];
        out->children[i] = item->value;
        if (!object) continue;
        out->keys[i] = item->key;
        size_t bytes = strlen(item->key);
        if (weft_map_has(&seen, item->key, bytes))
            status = BAD(p, "duplicate key in an object");
        else if (!weft_map_put(&seen, item->key, bytes, NULL))
            status = no_memory();
    }
    weft_map_deinit(&seen);
    p->item_count = base;
    return status;
}

/* At the opening bracket. */
static weft_status parse_container(weft_json_parser *p, weft_json *out) {
    bool object = peek(p) == '{';
    unsigned char end = object ? '}' : ']';
    size_t base = p->item_count;
    out->kind = object ? WEFT_JSON_OBJECT : WEFT_JSON_ARRAY;
    if (++p->depth > DEPTH_LIMIT) return BAD(p, "nested too deeply");
    p->at++;
    skip_space(p);
    for (bool first = true; peek(p) != end; first = false) {
        if (!first) {
            if (peek(p) != ',') return BAD(p, "comma or end of container expected");
            p->at++;
            skip_space(p);
        }
        weft_json_item item = {0};
        if (object) {
            size_t length;
            if (peek(p) != '"') return BAD(p, "key expected");
            WEFT_TRY(parse_string(p, &item.key, &length), "reading a key");
            skip_space(p);
            if (peek(p) != ':') return BAD(p, "colon expected");
            p->at++;
            skip_space(p);
        }
        WEFT_TRY(parse_value(p, &item.value), "in a container");
        skip_space(p);
        if (!WEFT_ARRAY_RESERVE(p->arena->allocator, p->items, p->item_capacity, p->item_count + 1)) return no_memory();
        p->items[p->item_count++] = item;
    }
    p->at++;
    p->depth--;
    return close_container(p, base, out);
}

static weft_status parse_value(weft_json_parser *p, weft_json *out) {
    *out = (weft_json){.kind = WEFT_JSON_NULL};
    switch (peek(p)) {
    case '{':
    case '[': return parse_container(p, out);
    case '"': out->kind = WEFT_JSON_STRING; return parse_string(p, &out->string, &out->length);
    case 't':
    case 'f':
        out->kind = WEFT_JSON_BOOL;
        out->boolean = peek(p) == 't';
        return take_word(p, out->boolean ? "true" : "false") ? NULL : BAD(p, "value expected");
    case 'n': return take_word(p, "null") ? NULL : BAD(p, "value expected");
    default: return parse_number(p, out);
    }
}

weft_status weft_json_parse(weft_arena *arena, const char *text, size_t bytes, weft_json **out_json) {
    *out_json = NULL;
    weft_json_parser parser = {.arena = arena, .text = (const unsigned char *)text, .bytes = bytes};
    weft_json *root = weft_arena_allocate(arena, sizeof *root);
    if (!root) return no_memory();
    skip_space(&parser);
    weft_status status = parse_value(&parser, root);
    skip_space(&parser);
    if (!status && parser.at != bytes) status = BAD(&parser, "text after the end");
    weft_free(arena->allocator, parser.items, parser.item_capacity * sizeof *parser.items);
    if (!status) *out_json = root;
    return status;
}

const weft_json *weft_json_find(const weft_json *object, const char *key) {
    if (!object || object->kind != WEFT_JSON_OBJECT) return NULL;
    for (size_t i = 0; i < object->length; i++)
        if (!strcmp(object->keys[i], key)) return &object->children[i];
    return NULL;
}
