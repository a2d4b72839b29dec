/* Prints the generated pages of docs/ from the tables they describe: tables ops|environment.
   docs.sh calls it and compares; what a page says about a row is the row. */
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "ir/graph.h"

typedef struct row {
    const char *name, *class, *flags, *attributes, *jvp, *transpose, *batch;
    int low, high, results;
} row;

#define HOOK(name)   ""
#define NONE(reason) reason
static const row rows[] = {
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, transpose, batch)  \
    {#id, #class, #flags, attributes, jvp, transpose, batch, low, high, results},
#include "ir/ops.def"
#undef WEFT_OP
};

static void print_count(int low, int high) {
    if (high < 0)
        printf("%d or more", low);
    else if (low == high)
        printf("%d", low);
    else
        printf("%d to %d", low, high);
}

/* Flags as the row spells them, in lower case; 0 = none. */
static void print_flags(const char *flags) {
    if (!strcmp(flags, "0")) return;
    for (const char *at = flags; *at; at++) {
        if (at[0] == ' ' && at[1] == '|')
            at += 1, putchar(',');
        else if (at[0] == '|' && at[1] == ' ')
            continue;
        else if (at[0] == ' ' && at[1] == '0')
            break;
        else
            putchar(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    }
}

static void print_attributes(const char *text) {
    while (*text) {
        size_t length = strcspn(text, " ");
        printf("`%.*s`", (int)length, text);
        text += length;
        if (*text) text++, printf(" ");
    }
}

static void print_ops(void) {
    printf(
        "# Operations of the graph IR\n\n"
        "Printed from `ir/ops.def`, which also states the semantics of each; `sh tests/project/docs.sh build/release --write` prints it anew.\n"
        "An attribute with ? is optional. Derivatives and batching (vmap): yes, or the reason why there is no hook in that column. Derived operations\n"
        "have a decomposition into core ones (docs/add-an-op.md).\n\n"
        "| op | class | operands | results | attributes | flags | forward derivative | transpose | batch |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        printf("| %s | %s | ", r->name, !strcmp(r->class, "CORE") ? "core" : "derived");
        print_count(r->low, r->high);
        printf(" | ");
        if (r->results < 0)
            printf("text");
        else
            printf("%d", r->results);
        printf(" | ");
        print_attributes(r->attributes);
        printf(" | ");
        print_flags(r->flags);
        printf(" | %s | %s | %s |\n", *r->jvp ? r->jvp : "yes", *r->transpose ? r->transpose : "yes",
               *r->batch ? r->batch : "yes");
    }
}

static void print_values(const weft_env_values *values) {
    if (values->kind == WEFT_ENV_KIND_TEXT) printf("text");
    if (values->kind == WEFT_ENV_KIND_NUMBER)
        printf(values->high > 1 ? "%d to %d" : "%d or %d", values->low, values->high);
    for (const char *at = values->choices; *at; at += *at == '|') {
        int word = (int)strcspn(at, "|");
        printf("%s%.*s", at == values->choices ? "" : ", ", word, at);
        at += word;
    }
}

static void print_environment(void) {
    printf(
        "# Environment variables\n\n"
        "Printed from the table in `base/context.h`; `base/env.c` is the only file that reads them. A value in the descriptor of a\n"
        "context (`include/weft/context.h`) wins over its variable. Empty is as unset where nothing else is said; a value that is\n"
        "not among those named here is one status of `weft_context_create`, a name in `WEFT_DUMP` that is no pass one of the compiler.\n\n"
        "| variable | values | default | what it does |\n|---|---|---|---|\n");
    for (int i = 0; i < WEFT_ENV_COUNT; i++) {
        const char *fallback = weft_env_default((weft_env)i), *quote = *fallback ? "`" : "";
        printf("| `%s` | ", weft_env_name((weft_env)i));
        print_values(weft_env_allowed((weft_env)i));
        printf(" | %s%s%s | %s |\n", quote, *fallback ? fallback : "unset", quote, weft_env_help((weft_env)i));
    }
}

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "ops")) return print_ops(), 0;
    if (count == 2 && !strcmp(arguments[1], "environment")) return print_environment(), 0;
    fprintf(stderr, "usage: tables ops|environment\n");
    return 2;
}
