/* See config.h. Line by line: a table's heading sets the prefix of the keys below it. Invariant: `count` counts entries
   whose name is allocated, so that release frees what a failed read leaves. Read next: train.c. */
#include "cli/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { LINE_BYTES = 4096, NAME_BYTES = 256 };

typedef struct reader {
    cli_config *config;
    int line;
    char table[NAME_BYTES]; /* "" or "name." */
} reader;

static weft_status wrong(const reader *r, const char *what) {
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s", r->config->path, r->line, what);
}

static const char *skip_blanks(const char *at) {
    while (*at == ' ' || *at == '\t') at++;
    return at;
}

static bool is_end(const char *at) {
    at = skip_blanks(at);
    return !*at || *at == '#';
}

/* A bare key; returns what follows, NULL when there is none. */
static const char *read_key(const char *at, char *key) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_' || at[length] == '-') length++;
    if (!length || length >= NAME_BYTES / 2) return NULL;
    memcpy(key, at, length);
    key[length] = 0;
    return at + length;
}

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

/* A string in quotes; returns what follows. */
static weft_status read_string(const reader *r, const char *at, char *text, const char **out_rest) {
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    char quote = *at++;
    size_t length = 0;
    if (at[0] == quote && at[1] == quote) return wrong(r, "strings of several lines are not read");
    for (; *at && *at != quote; at++) {
        char c = *at;
        if (quote == '"' && c == '\\') {
            const char *found = *++at ? strchr(from, *at) : NULL;
            if (!found) return wrong(r, "this escape is not read");
            c = to[found - from];
        }
        text[length++] = c;
    }
    text[length] = 0;
    *out_rest = *at ? at + 1 : at;
    return *at ? NULL : wrong(r, "a string does not end");
}

/* The whole word is a number; underscores stand between digits. */
static weft_status read_number(const reader *r, const char *word, size_t length, cli_config_entry *entry) {
    char digits[64], *rest;
    size_t count = 0;
    bool is_float = false;
    for (size_t i = 0; i < length; i++) {
        bool between =
            i && i + 1 < length && isdigit((unsigned char)word[i - 1]) && isdigit((unsigned char)word[i + 1]);
        if (word[i] == '_' && between) continue;
        if (!strchr("0123456789+-.eE", word[i]) || count + 1 >= sizeof digits)
            return wrong(r, "a value is no string, number, true or false");
        is_float |= strchr(".eE", word[i]) != NULL;
        digits[count++] = word[i];
    }
    digits[count] = 0;
    errno = 0;
    entry->kind = is_float ? CLI_CONFIG_FLOAT : CLI_CONFIG_INTEGER;
    if (is_float)
        entry->number = strtod(digits, &rest);
    else
        entry->number = (double)(entry->integer = strtoll(digits, &rest, 10));
    return *rest || !count || errno ? wrong(r, "a number is malformed or out of range") : NULL;
}

static weft_status read_value(const reader *r, const char *at, cli_config_entry *entry) {
    char text[LINE_BYTES];
    const char *rest = at;
    if (*at == '"' || *at == '\'') {
        WEFT_TRY(read_string(r, at, text, &rest), "reading a value");
        entry->kind = CLI_CONFIG_TEXT;
        entry->text = copy_text(text);
        if (!entry->text) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reading a value");
    } else {
        size_t length = strcspn(at, " \t#");
        rest = at + length;
        bool yes = length == 4 && !strncmp(at, "true", 4), no = length == 5 && !strncmp(at, "false", 5);
        entry->kind = CLI_CONFIG_FLAG;
        entry->number = yes ? 1 : 0;
        if (!yes && !no) WEFT_TRY(read_number(r, at, length, entry), "reading a value");
    }
    return is_end(rest) ? NULL : wrong(r, "something follows a value");
}

static cli_config_entry *find(cli_config *config, const char *name) {
    for (int i = 0; i < config->count; i++)
        if (!strcmp(config->entries[i].name, name)) return &config->entries[i];
    return NULL;
}

static weft_status read_table(reader *r, const char *at) {
    char name[NAME_BYTES];
    at = read_key(skip_blanks(at + 1), name);
    if (!at || *skip_blanks(at) != ']' || !is_end(skip_blanks(at) + 1)) return wrong(r, "expected [name]");
    snprintf(r->table, sizeof r->table, "%.120s.", name);
    return NULL;
}

static weft_status read_line(reader *r, const char *at) {
    char key[NAME_BYTES], name[2 * NAME_BYTES];
    cli_config *config = r->config;
    at = skip_blanks(at);
    if (is_end(at)) return NULL;
    if (*at == '[') return read_table(r, at);
    at = read_key(at, key);
    if (!at || *(at = skip_blanks(at)) != '=') return wrong(r, "expected key = value");
    snprintf(name, sizeof name, "%s%s", r->table, key);
    if (find(config, name)) return wrong(r, "a key is given twice");
    if (config->count == CLI_CONFIG_MAX) return wrong(r, "too many keys");
    cli_config_entry *entry = &config->entries[config->count];
    *entry = (cli_config_entry){.line = r->line, .name = copy_text(name)};
    if (!entry->name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reading a key");
    config->count++;
    return read_value(r, skip_blanks(at + 1), entry);
}

/* One line of the file, without its end, into text. */
static weft_status copy_line(const reader *r, const char *from, size_t length, char *text) {
    while (length && from[length - 1] == '\r') length--;
    if (length >= LINE_BYTES) return wrong(r, "the line is too long");
    if (memchr(from, 0, length)) return wrong(r, "there is a zero byte in the line");
    memcpy(text, from, length);
    text[length] = 0;
    return NULL;
}

weft_status cli_config_read(const char *path, cli_config *out_config) {
    char line[LINE_BYTES];
    reader r = {.config = out_config};
    *out_config = (cli_config){.path = path};
    weft_file file;
    WEFT_TRY(weft_file_map(path, &file), "reading %s", path);
    weft_status status = NULL;
    const char *at = file.data, *end = at ? at + file.bytes : at;
    while (!status && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        r.line++;
        status = copy_line(&r, at, (size_t)(stop - at), line);
        if (!status) status = read_line(&r, line);
        at = stop < end ? stop + 1 : end;
    }
    weft_file_unmap(&file);
    if (status) cli_config_release(out_config);
    return status;
}

void cli_config_release(cli_config *config) {
    for (int i = 0; i < config->count; i++) {
        free(config->entries[i].name);
        free(config->entries[i].text);
    }
    weft_status_release(config->problem);
    config->count = 0;
    config->problem = NULL;
}

/* The entry, when it has one of two kinds. */
static const cli_config_entry *ask(cli_config *config, const char *name, cli_config_kind kind, cli_config_kind also,
                                   const char *what) {
    cli_config_entry *entry = find(config, name);
    if (config->asked_count < CLI_CONFIG_MAX) config->asked[config->asked_count++] = name;
    if (!entry) return NULL;
    entry->asked = true;
    if (entry->kind == kind || entry->kind == also) return entry;
    if (!config->problem)
        config->problem = WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s is not %s", config->path, entry->line, name, what);
    return NULL;
}

const char *cli_config_text(cli_config *config, const char *name, const char *fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_CONFIG_TEXT, CLI_CONFIG_TEXT, "a string");
    return entry ? entry->text : fallback;
}

double cli_config_number(cli_config *config, const char *name, double fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_CONFIG_FLOAT, CLI_CONFIG_INTEGER, "a number");
    return entry ? entry->number : fallback;
}

long long cli_config_integer(cli_config *config, const char *name, long long fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_CONFIG_INTEGER, CLI_CONFIG_INTEGER, "a whole number");
    return entry ? entry->integer : fallback;
}

long long cli_config_count(cli_config *config, const char *name, long long fallback, long long least) {
    const cli_config_entry *entry = ask(config, name, CLI_CONFIG_INTEGER, CLI_CONFIG_INTEGER, "a whole number");
    if (!entry) return fallback;
    if (entry->integer >= least && entry->integer <= INT_MAX) return entry->integer;
    if (!config->problem)
        config->problem = WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s is not from %lld to %d", config->path, entry->line,
                                      name, least, INT_MAX);
    return fallback;
}

bool cli_config_flag(cli_config *config, const char *name, bool fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_CONFIG_FLAG, CLI_CONFIG_FLAG, "true or false");
    return entry ? entry->number != 0 : fallback;
}

/* Edits between two names: insertions, deletions, exchanges (Levenshtein 1966). */
static int edits_between(const char *a, const char *b) {
    int row[NAME_BYTES];
    int length = (int)strlen(b);
    if (length >= NAME_BYTES) return INT_MAX;
    for (int j = 0; j <= length; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int exchanged = diagonal + (a[i - 1] != b[j - 1]), kept = row[j];
            int shorter = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = exchanged < shorter ? exchanged : shorter;
            diagonal = kept;
        }
    }
    return row[length];
}

/* The question that an unknown key was nearest to: the same key of another table, else few edits away; NULL = none. */
static const char *nearest(const cli_config *config, const char *name) {
    const char *found = NULL, *key = strrchr(name, '.');
    int least = (int)strlen(name) / 3 + 1;
    for (int i = 0; i < config->asked_count; i++) {
        const char *other = config->asked[i], *other_key = strrchr(other, '.');
        int edits = key && other_key && !strcmp(key, other_key) ? 1 : edits_between(name, other);
        if (edits < least || (edits == least && !found)) least = edits, found = other;
    }
    return found;
}

static weft_status unknown(const cli_config *config, const cli_config_entry *entry) {
    const char *hint = nearest(config, entry->name);
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: nothing is called %s here%s%s%s", config->path, entry->line,
                       entry->name, hint ? "; did you mean " : "", hint ? hint : "", hint ? "?" : "");
}

weft_status cli_config_finish(cli_config *config) {
    weft_status problem = config->problem;
    config->problem = NULL;
    if (problem) return problem;
    for (int i = 0; i < config->count; i++)
        if (!config->entries[i].asked) return unknown(config, &config->entries[i]);
    return NULL;
}
