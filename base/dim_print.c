/* Text form of symbolic extents: B*4+1, (H//2)*W, max(a,b)-1. Names that are no identifiers are quoted as in JSON.

   Grammar: sum = ["-"] product {("+" | "-") product}; product = factor {("*" | "//" | "%") factor};
   factor = number | "-" factor | name | ("min" | "max") "(" sum "," sum ")" | "(" sum ")". */
#include "base/dim_table.h"

#include <string.h>

static bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

static void print_name(const char *name, weft_text *text) {
    bool plain = is_name_start(name[0]) && strcmp(name, "min") != 0 && strcmp(name, "max") != 0;
    for (const char *c = name; *c && plain; c++) plain = is_name_part(*c);
    if (plain)
        weft_text_append(text, "%s", name);
    else
        weft_text_append_quoted(text, name, strlen(name));
}

/* Operands of // and %: sums, products and negative numbers in parentheses. */
static void print_operand(const weft_dim_table *table, weft_dim dim, weft_text *text) {
    weft_dim_node node = weft_dim_get(table, dim);
    bool open = node.kind == WEFT_DIM_ADD || node.kind == WEFT_DIM_MULTIPLY ||
                (node.kind == WEFT_DIM_NUMBER && node.number < 0);
    if (open) weft_text_append(text, "(");
    weft_dim_print(table, dim, text);
    if (open) weft_text_append(text, ")");
}

static void print_atom(const weft_dim_table *table, weft_dim atom, weft_text *text) {
    weft_dim_node node = weft_dim_get(table, atom);
    if (node.kind == WEFT_DIM_SYMBOL) {
        print_name(weft_dim_symbol_get(table, (int)node.a)->name, text);
    } else if (node.kind == WEFT_DIM_MINIMUM || node.kind == WEFT_DIM_MAXIMUM) {
        weft_text_append(text, node.kind == WEFT_DIM_MINIMUM ? "min(" : "max(");
        weft_dim_print(table, node.a, text);
        weft_text_append(text, ",");
        weft_dim_print(table, node.b, text);
        weft_text_append(text, ")");
    } else {
        weft_text_append(text, "(");
        print_operand(table, node.a, text);
        weft_text_append(text, node.kind == WEFT_DIM_FLOOR_DIVIDE ? "//" : "%%");
        print_operand(table, node.b, text);
        weft_text_append(text, ")");
    }
}

void weft_dim_print(const weft_dim_table *table, weft_dim dim, weft_text *text) {
    if (dim >= 0) {
        weft_text_append(text, "%lld", (long long)dim);
        return;
    }
    if (!weft_dim_is_usable(table, dim)) {
        weft_text_append(text, dim == WEFT_DIM_ANY ? "?" : "invalid");
        return;
    }
    weft_dim_poly poly = weft_dim_entry_get(table, dim)->poly;
    for (int i = 0; i < poly.count; i++) {
        const weft_dim_term *term = &poly.terms[i];
        int64_t factor = term->coefficient;
        if (factor < 0) factor = -factor;
        if (term->coefficient < 0 || i) weft_text_append(text, term->coefficient < 0 ? "-" : "+");
        for (int k = 0; k < term->count; k++) {
            if (k) weft_text_append(text, "*");
            print_atom(table, term->atoms[k], text);
        }
        if (factor != 1 || !term->count) weft_text_append(text, "%s%lld", term->count ? "*" : "", (long long)factor);
    }
}

enum { DEPTH_MAX = 64 };

typedef struct parser {
    weft_dim_table *table;
    const char *text, *at, *end;
    int depth;
    const char *problem; /* first one */
} parser;

static weft_dim fail(parser *p, const char *problem) {
    if (!p->problem) p->problem = problem;
    return WEFT_DIM_INVALID;
}

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
}

static bool take(parser *p, const char *token) {
    size_t length = strlen(token);
    skip_space(p);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, token, length) != 0) return false;
    p->at += length;
    return true;
}

static weft_dim parse_sum(parser *p);

static weft_dim parse_number(parser *p) {
    int64_t value = 0;
    for (; p->at < p->end && is_digit(*p->at); p->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p->at - '0', &value))
            return fail(p, "number too large");
    return value;
}

static weft_dim symbol_named(parser *p, const char *name, size_t length) {
    for (int i = 0; i < weft_dim_symbol_count(p->table); i++) {
        const char *candidate = weft_dim_symbol_get(p->table, i)->name;
        if (strlen(candidate) == length && !memcmp(candidate, name, length)) return weft_dim_symbol_value(p->table, i);
    }
    return fail(p, "unknown symbol");
}

static weft_dim parse_choice(parser *p, bool minimum) {
    if (!take(p, "(")) return fail(p, "expected (");
    weft_dim a = parse_sum(p);
    if (!take(p, ",")) return fail(p, "expected ,");
    weft_dim b = parse_sum(p);
    if (!take(p, ")")) return fail(p, "expected )");
    return minimum ? weft_dim_minimum(p->table, a, b) : weft_dim_maximum(p->table, a, b);
}

/* Compares against the quoted form of every symbol: no second unescaper. */
static weft_dim parse_quoted(parser *p) {
    weft_dim found = WEFT_DIM_INVALID;
    weft_text quoted;
    weft_text_init(p->table->allocator, &quoted);
    for (int i = 0; i < weft_dim_symbol_count(p->table) && found == WEFT_DIM_INVALID; i++) {
        const char *name = weft_dim_symbol_get(p->table, i)->name;
        quoted.length = 0;
        weft_text_append_quoted(&quoted, name, strlen(name));
        if (!quoted.failed && quoted.length <= (size_t)(p->end - p->at) && !memcmp(p->at, quoted.data, quoted.length)) {
            p->at += quoted.length;
            found = weft_dim_symbol_value(p->table, i);
        }
    }
    weft_text_deinit(&quoted);
    return found == WEFT_DIM_INVALID ? fail(p, "unknown symbol") : found;
}

static weft_dim parse_factor(parser *p) {
    skip_space(p);
    if (p->at == p->end) return fail(p, "unexpected end");
    if (is_digit(*p->at)) return parse_number(p);
    if (*p->at == '"') return parse_quoted(p);
    if (is_name_start(*p->at)) {
        const char *name = p->at;
        while (p->at < p->end && is_name_part(*p->at)) p->at++;
        size_t length = (size_t)(p->at - name);
        if (length == 3 && !memcmp(name, "min", 3)) return parse_choice(p, true);
        if (length == 3 && !memcmp(name, "max", 3)) return parse_choice(p, false);
        return symbol_named(p, name, length);
    }
    if (*p->at != '(' && *p->at != '-') return fail(p, "unexpected character");
    bool negate = *p->at++ == '-';
    weft_dim result;
    if (p->depth >= DEPTH_MAX) return fail(p, "nested too deeply");
    p->depth++;
    if (negate) {
        result = weft_dim_subtract(p->table, 0, parse_factor(p));
    } else {
        result = parse_sum(p);
        if (!take(p, ")")) fail(p, "expected )");
    }
    p->depth--;
    return result;
}

static weft_dim parse_product(parser *p) {
    weft_dim result = parse_factor(p);
    while (!p->problem) {
        if (take(p, "*"))
            result = weft_dim_multiply(p->table, result, parse_factor(p));
        else if (take(p, "//"))
            result = weft_dim_divide_floor(p->table, result, parse_factor(p));
        else if (take(p, "%"))
            result = weft_dim_modulo(p->table, result, parse_factor(p));
        else
            break;
    }
    return result;
}

static weft_dim parse_sum(parser *p) {
    if (p->depth >= DEPTH_MAX) return fail(p, "nested too deeply");
    p->depth++;
    weft_dim result = take(p, "-") ? weft_dim_subtract(p->table, 0, parse_product(p)) : parse_product(p);
    while (!p->problem) {
        if (take(p, "+"))
            result = weft_dim_add(p->table, result, parse_product(p));
        else if (take(p, "-"))
            result = weft_dim_subtract(p->table, result, parse_product(p));
        else
            break;
    }
    p->depth--;
    return result;
}

weft_status weft_dim_parse(weft_dim_table *table, const char *text, size_t bytes, weft_dim *out_dim) {
    parser p = {table, text, text, text + bytes, 0, NULL};
    *out_dim = WEFT_DIM_ANY;
    if (bytes == 1 && text[0] == '?') return NULL;
    weft_dim dim = parse_sum(&p);
    skip_space(&p);
    if (p.at != p.end) fail(&p, "unexpected text");
    *out_dim = p.problem ? WEFT_DIM_INVALID : dim;
    if (p.problem)
        return WEFT_STATUS(WEFT_INVALID_DATA, "extent \"%.*s\": %s at offset %d", (int)(bytes < 200 ? bytes : 200),
                           text, p.problem, (int)(p.at - p.text));
    if (dim == WEFT_DIM_INVALID)
        return WEFT_STATUS(WEFT_INVALID_DATA, "extent \"%.*s\": overflow, division by zero or no memory",
                           (int)(bytes < 200 ? bytes : 200), text);
    return NULL;
}
