/* The only file that reads the environment; the variables are the table in context.h. */
#include <stdlib.h>

#include "base/context.h"

typedef struct weft_env_row {
    const char *name, *fallback, *help;
} weft_env_row;

static const weft_env_row rows[] = {
#define X(id, name, fallback, help) {name, fallback, help},
    WEFT_ENVIRONMENT(X)
#undef X
};

const char *weft_env_get(weft_env variable) {
    const char *value = getenv(rows[variable].name);
    return value ? value : rows[variable].fallback;
}

bool weft_env_is_set(weft_env variable) { return getenv(rows[variable].name) != NULL; }

const char *weft_env_name(weft_env variable) { return rows[variable].name; }

const char *weft_env_help(weft_env variable) { return rows[variable].help; }
