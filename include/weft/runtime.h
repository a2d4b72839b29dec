/* Running programs. libweft-rt holds everything here: no compiler, no dependency beyond libc and libm.

   A program is immutable and thread-safe; a session holds the memory of one caller (workspace, states) and is
   thread-compatible. Sessions of one program share weights and code. */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include "weft/device.h"
#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_program weft_program;
typedef struct weft_session weft_session;

typedef struct weft_load_options {
    size_t struct_bytes;
    const char
        *device;    /* default "cpu"; "cuda:1" ... A device that is missing is an error, never replaced by another */
    bool untrusted; /* take data only: native code in the file is not executed (the program must be re-lowered by
                       libweft) */
    bool verify;    /* check the CRC of every entry, weights included; the manifest and code are always checked */
} weft_load_options;
#define WEFT_LOAD_OPTIONS_INIT {sizeof(weft_load_options), 0, false, false}

/* Loads an artifact: manifest first, then the best code for this machine. */
WEFT_API weft_status weft_program_load(weft_context *context, const char *path, const weft_load_options *options,
                                       weft_program **out_program) WEFT_MUST_USE;
WEFT_API void weft_program_retain(weft_program *program);
WEFT_API void weft_program_release(weft_program *program);

typedef struct weft_port_info {
    const char *name;
    weft_dtype dtype;
    int rank;
    int64_t shape[WEFT_MAX_RANK]; /* -1 where symbolic */
} weft_port_info;
WEFT_API int weft_program_input_count(const weft_program *program);
WEFT_API int weft_program_output_count(const weft_program *program);
WEFT_API void weft_program_input(const weft_program *program, int index, weft_port_info *out_info);
WEFT_API void weft_program_output(const weft_program *program, int index, weft_port_info *out_info);
/* The CPU variant or architecture that runs: "x86-64-v4". */
WEFT_API const char *weft_program_arch(const weft_program *program);
/* Bytes of temporaries for given input shapes (flattened, in input order), and of weights. */
WEFT_API weft_status weft_program_memory(const weft_program *program, int input_count, const int64_t *const *shapes,
                                         int64_t *out_temporary_bytes, int64_t *out_weight_bytes) WEFT_MUST_USE;

WEFT_API weft_status weft_session_create(weft_program *program, weft_session **out_session) WEFT_MUST_USE;
WEFT_API void weft_session_release(weft_session *session);
/* Runs the program. outputs[i] NULL: a new tensor that the caller releases. Not NULL: written in place, its dtype and
   shape must fit. On an error no output is created. */
WEFT_API weft_status weft_session_call(weft_session *session, int input_count, weft_tensor *const *inputs,
                                       int output_count, weft_tensor **outputs) WEFT_MUST_USE;

/* States (parameters, moments, caches) belong to the session and keep their values between calls. Reading returns a
   copy that the caller releases; writing needs a packed tensor of the state's dtype and shape. */
WEFT_API int weft_program_state_count(const weft_program *program);
WEFT_API const char *weft_program_state_name(const weft_program *program, int index);
WEFT_API weft_status weft_session_read_state(weft_session *session, const char *name,
                                             weft_tensor **out_tensor) WEFT_MUST_USE;
WEFT_API weft_status weft_session_write_state(weft_session *session, const char *name,
                                              const weft_tensor *tensor) WEFT_MUST_USE;
/* Would it be taken? Changes nothing: for those who write several, and all or none. */
WEFT_API weft_status weft_session_check_state(const weft_session *session, const char *name,
                                              const weft_tensor *tensor) WEFT_MUST_USE;
/* Gives every state of `to` the value of the state of that name in `from`, on the device: parameters from the session
   that trains to one that evaluates. NOT_FOUND when `from` lacks one, INVALID_ARGUMENT when sizes or devices differ. */
WEFT_API weft_status weft_session_copy_states(const weft_session *from, weft_session *to) WEFT_MUST_USE;
/* Frees cached workspace memory. */
WEFT_API void weft_session_trim(weft_session *session);

#ifdef __cplusplus
}
#endif
#endif
