/* What a public call must be given. Every function that returns a status starts with these lines: a missing object,
   path or list is the caller's mistake and a status, not a crash. Descriptors are copied as far as the caller knows
   them. */
#ifndef WEFT_BASE_NEED_H
#define WEFT_BASE_NEED_H

#include "weft/status.h"

/* what: "the graph" */
#define WEFT_NEED(pointer, what)                                                                                       \
    do {                                                                                                               \
        if (!(pointer)) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s is missing", what);                              \
    } while (0)
/* A list of count entries. */
#define WEFT_NEED_LIST(pointer, count, what)                                                                           \
    do {                                                                                                               \
        if ((count) > 0) WEFT_NEED(pointer, what);                                                                     \
    } while (0)

/* own: a descriptor with its defaults; options: the caller's, or NULL, which leaves them. A caller that was compiled
   when the descriptor had fewer fields says so by struct_bytes and gets the defaults of the rest. A struct_bytes that
   no INIT can have set, 0 above all, is a mistake, and the fields behind it are not looked at. One rule for all of
   include/weft; init: what sets it. */
weft_status weft_options_read(void *own, size_t own_bytes, const void *options, const char *init) WEFT_MUST_USE;
#define WEFT_OPTIONS_READ(own, options, init) weft_options_read(&(own), sizeof(own), (options), #init)

#endif
