/* Spelling of the enumerations of base/program.h in manifests, shared by writer and reader. */
#ifndef WEFT_BASE_PROGRAM_SCHEMA_H
#define WEFT_BASE_PROGRAM_SCHEMA_H

static const char *const weft_buffer_kind_names[] = {"input", "output", "constant", "persistent",
                                                     "state", "temp",   "alias"};
static const char *const weft_step_kind_names[] = {"launch", "copy", "while", "cond", "read_dim", "loop"};
static const char *const weft_relation_names[] = {"==", "!=", "<", "<="};
static const char *const weft_origin_names[] = {"declared", "anonymous", "data"};

#endif
