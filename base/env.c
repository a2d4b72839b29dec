/* The only file that reads the environment; the variables and their values are the table in context.h. A value that the
   table does not know is a mistake of whoever set it and one status, never the default. */
#include <stdlib.h>
#include <string.h>

#include "base/context.h"

typedef struct weft_env_row {
    const char *name;
    weft_env_values values;
    const char *fallback, *help;
} weft_env_row;

static const weft_env_row rows[] = {
#define X(id, name, values, fallback, help) {name, values, fallback, help},
    WEFT_ENVIRONMENT(X)
#undef X
};

const char *weft_env_get(weft_env variable) {
    const char *value = getenv(rows[variable].name);
    return value && *value ? value : rows[variable].fallback;
}

bool weft_env_is_set(weft_env variable) { return getenv(rows[variable].name) != NULL; }

const char *weft_env_name(weft_env variable) { return rows[variable].name; }

const char *weft_env_help(weft_env variable) { return rows[variable].help; }

const char *weft_env_default(weft_env variable) { return rows[variable].fallback; }

const weft_env_values *weft_env_allowed(weft_env variable) { return &rows[variable].values; }

/* Digits and nothing else. */
static bool read_number(const char *text, int low, int high, int *out_number) {
    int value = 0;
    for (; *text >= '0' && *text <= '9' && value <= high; text++) value = 10 * value + (*text - '0');
    *out_number = value;
    return !*text && value >= low && value <= high;
}

static bool is_choice(const char *text, const char *choices) {
    size_t length = strlen(text);
    for (; *choices; choices += *choices == '|') {
        size_t word = strcspn(choices, "|");
        if (word == length && memcmp(choices, text, length) == 0) return true;
        choices += word;
    }
    return false;
}

weft_status weft_env_number(weft_env variable, int *out_number) {
    const weft_env_row *row = &rows[variable];
    const char *text = weft_env_get(variable);
    if (!read_number(text, row->values.low, row->values.high, out_number))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s=%s is no number from %d to %d", row->name, text, row->values.low,
                           row->values.high);
    return NULL;
}

weft_status weft_env_check(void) {
    for (int i = 0; i < WEFT_ENV_COUNT; i++) {
        const weft_env_values *values = &rows[i].values;
        const char *text = weft_env_get((weft_env)i);
        int number;
        if (values->kind == WEFT_ENV_KIND_NUMBER) WEFT_TRY(weft_env_number((weft_env)i, &number), "the environment");
        if (values->kind == WEFT_ENV_KIND_CHOICE && *text && !is_choice(text, values->choices))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s=%s is none of %s", rows[i].name, text, values->choices);
    }
    return NULL;
}
