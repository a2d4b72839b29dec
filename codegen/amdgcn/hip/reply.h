/* What weft-hiprtc (cli/hiprtc) writes to its standard output: this magic, one of the letters, and behind it a code
   object or text. Anything else means that it did not come to its end. */
#ifndef WEFT_CODEGEN_AMDGCN_HIP_REPLY_H
#define WEFT_CODEGEN_AMDGCN_HIP_REPLY_H

#define WEFT_HIPRTC_MAGIC "WEFTHIP1"
enum {
    WEFT_HIPRTC_MAGIC_BYTES = 8,
    WEFT_HIPRTC_CODE = 'c',       /* a code object */
    WEFT_HIPRTC_VERSION = 'v',    /* of the library, as text */
    WEFT_HIPRTC_REFUSED = 'r',    /* the compiler's log */
    WEFT_HIPRTC_UNAVAILABLE = 'u' /* why there is no library */
};

#endif
