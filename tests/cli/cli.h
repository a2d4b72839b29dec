/* Running the weft command in a folder of its own. */
#ifndef WEFT_TESTS_CLI_CLI_H
#define WEFT_TESTS_CLI_CLI_H

#include <check.h>
#include <stddef.h>

extern char cli_folder[512];
void cli_set_up(void); /* good.wir, good inputs and bad files: main.c */
void cli_tear_down(void);
/* `weft <arguments>` in the folder, the arguments a shell's: exit code, and the start of stderr; a signal fails. */
int cli_execute(const char *arguments, char *err, size_t capacity);
void cli_refuse(int code, const char *arguments, const char *part);
void cli_accept(const char *arguments);

TCase *cli_damage_tests(void);
TCase *cli_train_tests(void);
TCase *cli_vendor_tests(void);

#endif
