/* Configuration files in TOML 1.0.0, read through toml++ (config_toml.h): settings by "table.key" with defaults. A key
   that nobody asked for, a wrong type and a number that is none are errors with file, line and the nearest key. */
#ifndef WEFT_CLI_CONFIG_H
#define WEFT_CLI_CONFIG_H

#include <stdbool.h>

#include "cli/config_toml.h"
#include "weft/status.h"

enum { CLI_CONFIG_MAX = 128 };

typedef struct cli_config_entry {
    char *name; /* "table.key" */
    cli_toml_kind kind;
    char *text;
    double number; /* of integers too; FLAG: 0 or 1 */
    long long integer;
    int line;
    bool asked;
} cli_config_entry;

typedef struct cli_config {
    const char *path;
    int count;
    cli_config_entry entries[CLI_CONFIG_MAX];
    weft_status problem; /* the first in the file or in a question */
    int asked_count;
    const char *asked[CLI_CONFIG_MAX]; /* names of all questions, for hints; borrowed */
} cli_config;

weft_status cli_config_read(const char *path, cli_config *out_config) WEFT_MUST_USE;
void cli_config_release(cli_config *config);
/* Values by "table.key"; fallback when the file has none. Texts are borrowed, and so are names until the end. */
const char *cli_config_text(cli_config *config, const char *name, const char *fallback);
double cli_config_number(cli_config *config, const char *name, double fallback);
long long cli_config_integer(cli_config *config, const char *name, long long fallback);
/* A whole number from least to INT_MAX. */
long long cli_config_count(cli_config *config, const char *name, long long fallback, long long least);
bool cli_config_flag(cli_config *config, const char *name, bool fallback);
/* After the last question: wrong types, then keys that nobody asked for, each with the nearest one that was. */
weft_status cli_config_finish(cli_config *config) WEFT_MUST_USE;

#endif
