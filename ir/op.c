/* The op table and the attribute table as data: ops.def and attributes.def expanded once each.
   Invariant: immutable. Read next: graph.h. */
#include <string.h>

#include "ir/graph.h"

/* Flag names as the rows spell them. */
enum {
    ELEMENTWISE = WEFT_FLAG_ELEMENTWISE,
    COMMUTATIVE = WEFT_FLAG_COMMUTATIVE,
    VIEW = WEFT_FLAG_VIEW,
    EFFECT = WEFT_FLAG_EFFECT,
    REGION = WEFT_FLAG_REGION,
    TERMINATOR = WEFT_FLAG_TERMINATOR
};

static const weft_op_info ops[WEFT_OP_COUNT] = {
#define WEFT_OP(id, class, low, high, results, flags, attributes, ...)                                                 \
    [WEFT_OP_##id] = {#id, WEFT_CLASS_##class, low, high, results, flags, attributes},
#include "ir/ops.def"
#undef WEFT_OP
};

static const struct {
    const char *name;
    weft_attribute_kind kind;
} attributes[WEFT_ATTR_COUNT] = {
#define WEFT_ATTRIBUTE(name, kind) [WEFT_ATTR_##name] = {#name, WEFT_ATTR_KIND_##kind},
#include "ir/attributes.def"
#undef WEFT_ATTRIBUTE
};

const weft_op_info *weft_op_get(weft_op op) { return &ops[op]; }

weft_op weft_op_find(const char *name, size_t bytes) {
    for (int i = 0; i < WEFT_OP_COUNT; i++)
        if (strlen(ops[i].name) == bytes && memcmp(ops[i].name, name, bytes) == 0) return (weft_op)i;
    return WEFT_OP_COUNT;
}

weft_attribute_name weft_attribute_find(const char *name, size_t bytes) {
    for (int i = 0; i < WEFT_ATTR_COUNT; i++)
        if (strlen(attributes[i].name) == bytes && memcmp(attributes[i].name, name, bytes) == 0)
            return (weft_attribute_name)i;
    return WEFT_ATTR_COUNT;
}

bool weft_op_attribute(weft_op op, int index, weft_attribute_name *out_name, bool *out_optional) {
    const char *at = ops[op].attributes;
    for (;;) {
        at += strspn(at, " ");
        if (!*at) return false;
        size_t length = strcspn(at, " ?");
        if (index-- == 0) {
            *out_name = weft_attribute_find(at, length);
            *out_optional = at[length] == '?';
            return true;
        }
        at += length + (at[length] == '?');
    }
}

const char *weft_attribute_string(weft_attribute_name name) { return attributes[name].name; }
weft_attribute_kind weft_attribute_kind_of(weft_attribute_name name) { return attributes[name].kind; }
