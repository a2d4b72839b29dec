/* The operator table, expanded from operators.def; also printed for the documentation. */
#include "base/need.h"
#include <string.h>

#include "frontend/onnx/import.h"

static const weft_onnx_operator operators[] = {
#define WEFT_ONNX_OPERATOR(name, domain, first, last, attributes, handler)                                             \
    {name, domain, first, last, attributes, weft_onnx_import_##handler},
#include "frontend/onnx/operators.def"
#undef WEFT_ONNX_OPERATOR
};

enum { OPERATOR_COUNT = (int)(sizeof operators / sizeof *operators) };

const weft_onnx_operator *weft_onnx_operator_find(const char *domain, const char *name) {
    if (!name) return NULL;
    if (!domain || strcmp(domain, "ai.onnx") == 0) domain = "";
    for (int i = 0; i < OPERATOR_COUNT; i++)
        if (strcmp(operators[i].name, name) == 0 && strcmp(operators[i].domain, domain) == 0) return &operators[i];
    return NULL;
}

bool weft_onnx_operator_has(const weft_onnx_operator *row, const char *attribute) {
    size_t length = strlen(attribute);
    for (const char *at = row->attributes; *at;) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, attribute, length) == 0) return true;
        at += word;
        while (*at == ' ') at++;
    }
    return false;
}

weft_status weft_onnx_operator_table(weft_context *context, char **out_text) {
    WEFT_NEED(out_text, "out_text");
    WEFT_NEED(context, "the context");
    weft_text text;
    weft_text_init(context->allocator, &text);
    weft_text_append(&text, "| operator | domain | versions | attributes |\n|---|---|---|---|\n");
    for (int i = 0; i < OPERATOR_COUNT; i++)
        weft_text_append(&text, "| %s | %s | %d-%d | %s |\n", operators[i].name,
                         *operators[i].domain ? operators[i].domain : "ai.onnx", operators[i].first, operators[i].last,
                         operators[i].attributes);
    return weft_onnx_text_take(context, &text, out_text);
}
