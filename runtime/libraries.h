/* Vendor libraries, found with dlopen at run time: one table of names, search order and remedy. The runtime links none
   of them. */
#ifndef WEFT_RUNTIME_LIBRARIES_H
#define WEFT_RUNTIME_LIBRARIES_H

#include "base/context.h"

typedef struct weft_library {
    const char *name;       /* "cuda": the key */
    const char *what;       /* for people */
    const char *files[6];   /* tried in order; NULL-terminated; the dynamic linker's search path first, then folders */
    const char *folders[4]; /* tried with every file */
    const char *symbol;     /* must exist */
    const char *version_symbol; /* int f(int *): version as the library counts, or NULL */
    const char *remedy;
} weft_library;

/* Terminated by a row without a name. */
extern const weft_library weft_libraries[];

/* Opens row `name`. The handle stays open for the life of the process (vendor libraries do not survive dlclose).
   UNAVAILABLE names what was tried and the remedy. */
weft_status weft_library_open(weft_allocator allocator, const char *name, void **out_handle) WEFT_MUST_USE;
/* A function of it; NOT_FOUND names library and symbol. */
weft_status weft_library_symbol(void *handle, const char *library, const char *symbol,
                                void *out_function) WEFT_MUST_USE;

#endif
