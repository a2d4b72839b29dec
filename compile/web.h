/* The files of runtime/web, which cmake/WeftEmbed.cmake puts into the library. */
#ifndef WEFT_COMPILE_WEB_H
#define WEFT_COMPILE_WEB_H

#include <stddef.h>

typedef struct weft_web_file {
    const char *name;
    const unsigned char *data;
    size_t bytes;
} weft_web_file;

extern const weft_web_file weft_web_files[]; /* ends with a NULL name */

#endif
