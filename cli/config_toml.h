/* TOML files through toml++ (C++), behind one C function. Invariant: no exception leaves it. Built only where the
   library is (cli/CMakeLists.txt); without it cli/config.c says what is missing. Read next: config_toml.cpp, config.h.
   Source: TOML 1.0.0, https://toml.io/en/v1.0.0. */
#ifndef WEFT_CLI_CONFIG_TOML_H
#define WEFT_CLI_CONFIG_TOML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parser makes a table of each dot of a key and frees them one inside the other: larger files could use up the
   stack. Names that are longer are given as they are, tables too. */
enum { CLI_TOML_MAX_BYTES = 1 << 15, CLI_TOML_NAME_BYTES = 256 };

typedef enum cli_toml_kind {
    CLI_TOML_TEXT,
    CLI_TOML_INTEGER,
    CLI_TOML_FLOAT,
    CLI_TOML_FLAG,
    CLI_TOML_TABLE, /* an empty one */
    CLI_TOML_OTHER  /* an array, a date or a time */
} cli_toml_kind;

/* A value; keys of nested tables are joined by dots, keys with a dot, a quote or a control character are quoted.
   Everything is borrowed for the call. */
typedef struct cli_toml_value {
    const char *name;
    int line; /* from 1 */
    cli_toml_kind kind;
    const char *text; /* TEXT: `bytes` bytes, which may hold zeros, and one behind them */
    size_t bytes;
    int64_t integer;
    double number;
    int flag;
} cli_toml_value;

/* Called for every value and every empty table, in no particular order; nonzero stops the walk. */
typedef int (*cli_toml_visit)(void *self, const cli_toml_value *value);

typedef enum cli_toml_result {
    CLI_TOML_READ,
    CLI_TOML_STOPPED,
    CLI_TOML_WRONG, /* message and line say what */
    CLI_TOML_NO_MEMORY
} cli_toml_result;

/* Text of `bytes` bytes in UTF-8. message: at least one byte, always ended. */
cli_toml_result cli_toml_walk(const char *text, size_t bytes, cli_toml_visit visit, void *self, int *out_line,
                              char *message, size_t message_bytes);

#ifdef __cplusplus
}
#endif

#endif
