/* See config.h. Invariant: `count` counts entries whose name is allocated, so that release frees what a failed read
   leaves. Read next: config_toml.h, train.c. */
#include "cli/config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { NAME_BYTES = CLI_TOML_NAME_BYTES, MESSAGE_BYTES = 512 };

static cli_config_entry *find(cli_config *config, const char *name) {
    for (int i = 0; i < config->count; i++)
        if (!strcmp(config->entries[i].name, name)) return &config->entries[i];
    return NULL;
}

#ifdef WEFT_HAVE_TOML
static char *copy_text(const char *text, size_t bytes) {
    char *copy = malloc(bytes + 1);
    if (copy) memcpy(copy, text, bytes);
    if (copy) copy[bytes] = 0;
    return copy;
}

/* One value of the file; stops at the first problem. */
static int add(void *self, const cli_toml_value *value) {
    cli_config *config = self;
    if (config->count == CLI_CONFIG_MAX || strlen(value->name) >= NAME_BYTES ||
        (value->kind == CLI_TOML_TEXT && memchr(value->text, 0, value->bytes))) {
        config->problem = WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s", config->path, value->line,
                                      config->count == CLI_CONFIG_MAX     ? "too many keys"
                                      : strlen(value->name) >= NAME_BYTES ? "a key is too long"
                                                                          : "there is a zero byte in the string");
        return 1;
    }
    cli_config_entry *entry = &config->entries[config->count];
    *entry = (cli_config_entry){.line = value->line, .kind = value->kind, .integer = value->integer};
    entry->number = value->kind == CLI_TOML_INTEGER ? (double)value->integer
                    : value->kind == CLI_TOML_FLAG  ? value->flag
                                                    : value->number;
    entry->name = copy_text(value->name, strlen(value->name));
    if (entry->name) config->count++;
    if (entry->name && value->kind == CLI_TOML_TEXT) entry->text = copy_text(value->text, value->bytes);
    if (entry->name && (value->kind != CLI_TOML_TEXT || entry->text)) return 0;
    config->problem = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reading %s", config->path);
    return 1;
}

static weft_status parse(cli_config *config, const weft_file *file) {
    char message[MESSAGE_BYTES];
    int line;
    cli_toml_result result =
        cli_toml_walk(file->data ? file->data : "", file->bytes, add, config, &line, message, sizeof message);
    if (result == CLI_TOML_NO_MEMORY) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reading %s", config->path);
    if (result == CLI_TOML_WRONG) return WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s", config->path, line, message);
    weft_status problem = config->problem;
    config->problem = NULL;
    return problem;
}
#else
static weft_status parse(cli_config *config, const weft_file *file) {
    (void)file;
    return WEFT_STATUS(WEFT_UNSUPPORTED,
                       "%s: this build has no toml++ to read TOML with: install libtomlplusplus-dev "
                       "and a C++ compiler, configure and build again",
                       config->path);
}
#endif

weft_status cli_config_read(const char *path, cli_config *out_config) {
    *out_config = (cli_config){.path = path};
    weft_file file;
    WEFT_TRY(weft_file_map(path, &file), "reading %s", path);
    weft_status status = parse(out_config, &file);
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
static const cli_config_entry *ask(cli_config *config, const char *name, cli_toml_kind kind, cli_toml_kind also,
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
    const cli_config_entry *entry = ask(config, name, CLI_TOML_TEXT, CLI_TOML_TEXT, "a string");
    return entry ? entry->text : fallback;
}

double cli_config_number(cli_config *config, const char *name, double fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_TOML_FLOAT, CLI_TOML_INTEGER, "a number");
    if (!entry || isfinite(entry->number)) return entry ? entry->number : fallback;
    if (!config->problem)
        config->problem = WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s is not finite", config->path, entry->line, name);
    return fallback;
}

long long cli_config_integer(cli_config *config, const char *name, long long fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_TOML_INTEGER, CLI_TOML_INTEGER, "a whole number");
    return entry ? entry->integer : fallback;
}

long long cli_config_count(cli_config *config, const char *name, long long fallback, long long least) {
    const cli_config_entry *entry = ask(config, name, CLI_TOML_INTEGER, CLI_TOML_INTEGER, "a whole number");
    if (!entry) return fallback;
    if (entry->integer >= least && entry->integer <= INT_MAX) return entry->integer;
    if (!config->problem)
        config->problem = WEFT_STATUS(WEFT_INVALID_DATA, "%s:%d: %s is not from %lld to %d", config->path, entry->line,
                                      name, least, INT_MAX);
    return fallback;
}

bool cli_config_flag(cli_config *config, const char *name, bool fallback) {
    const cli_config_entry *entry = ask(config, name, CLI_TOML_FLAG, CLI_TOML_FLAG, "true or false");
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

/* An empty table in which somebody asked for something. */
static bool is_known_table(const cli_config *config, const cli_config_entry *entry) {
    size_t length = strlen(entry->name);
    for (int i = 0; entry->kind == CLI_TOML_TABLE && i < config->asked_count; i++)
        if (!strncmp(config->asked[i], entry->name, length) && config->asked[i][length] == '.') return true;
    return false;
}

weft_status cli_config_finish(cli_config *config) {
    weft_status problem = config->problem;
    config->problem = NULL;
    if (problem) return problem;
    const cli_config_entry *first = NULL;
    for (int i = 0; i < config->count; i++) {
        const cli_config_entry *entry = &config->entries[i];
        if (entry->asked || is_known_table(config, entry)) continue;
        if (!first || entry->line < first->line) first = entry;
    }
    return first ? unknown(config, first) : NULL;
}
