/* A JSON reader (RFC 8259) for manifests and safetensors headers: strict, depth-limited, numbers as double and int64.
   Nodes live in the caller's arena; strings are unescaped and terminated. Hostile input gives INVALID_DATA with offset.
 */
#ifndef WEFT_BASE_JSON_H
#define WEFT_BASE_JSON_H

#include <stdint.h>

#include "base/arena.h"

typedef enum weft_json_kind {
    WEFT_JSON_NULL,
    WEFT_JSON_BOOL,
    WEFT_JSON_NUMBER,
    WEFT_JSON_STRING,
    WEFT_JSON_ARRAY,
    WEFT_JSON_OBJECT
} weft_json_kind;

typedef struct weft_json {
    weft_json_kind kind;
    bool boolean, is_integer;
    double number;
    int64_t integer;
    const char *string;
    size_t length;              /* of string, array, object */
    const char **keys;          /* object */
    struct weft_json *children; /* array, object */
} weft_json;

weft_status weft_json_parse(weft_arena *arena, const char *text, size_t bytes, weft_json **out_json) WEFT_MUST_USE;
const weft_json *weft_json_find(const weft_json *object, const char *key); /* NULL */

#endif
