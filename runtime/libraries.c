/* The table of vendor libraries and the only dlopen of the project. */
#include "runtime/libraries.h"

#include <dlfcn.h>
#include <string.h>

#include "base/text.h"

#define CUDA_FOLDERS {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/wsl/lib", NULL}
#define ROCM_FOLDERS {"/opt/rocm/lib", NULL}

const weft_library weft_libraries[] = {
    {"cuda",
     "NVIDIA driver",
     {"libcuda.so.1", "libcuda.so", NULL},
     {"/usr/lib/wsl/lib", NULL},
     "cuInit",
     "cuDriverGetVersion",
     "install the NVIDIA driver; in a container, start it with the NVIDIA runtime"},
    {"nvrtc",
     "NVIDIA run-time compiler",
     {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL},
     CUDA_FOLDERS,
     "nvrtcCompileProgram",
     NULL,
     "install the CUDA toolkit or put the folder of libnvrtc.so into LD_LIBRARY_PATH"},
    {"nccl",
     "NVIDIA collectives",
     {"libnccl.so.2", "libnccl.so", NULL},
     CUDA_FOLDERS,
     "ncclAllReduce",
     "ncclGetVersion",
     "install libnccl2 or put its folder into LD_LIBRARY_PATH"},
    {"hip",
     "AMD runtime",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL},
     ROCM_FOLDERS,
     "hipInit",
     "hipRuntimeGetVersion",
     "install ROCm, or the AMD driver with its HIP runtime"},
    {"hiprtc",
     "AMD run-time compiler",
     {"libhiprtc.so.6", "libhiprtc.so.7", "libhiprtc.so", NULL},
     ROCM_FOLDERS,
     "hiprtcCompileProgram",
     NULL,
     "install ROCm with hiprtc"},
    {"metal",
     "Metal",
     {"Metal", NULL},
     {"/System/Library/Frameworks/Metal.framework", NULL},
     "MTLCopyAllDevices",
     NULL,
     "Metal exists on Apple's systems only"},
    {"objc",
     "Objective-C runtime",
     {"libobjc.A.dylib", NULL},
     {"/usr/lib", NULL},
     "objc_msgSend",
     NULL,
     "it is a part of Apple's systems"},
    {"vulkan",
     "Vulkan loader",
     {"libvulkan.so.1", "libvulkan.so", NULL},
     {NULL},
     "vkGetInstanceProcAddr",
     NULL,
     "install libvulkan1 and a Vulkan driver"},
    {"webgpu",
     "wgpu-native",
     {"libwgpu_native.so", "libwgpu_native-release.so", "libwgpu_native.dylib", NULL},
     {NULL},
     "wgpuDevicePoll",
     NULL,
     "install wgpu-native, or put the folder of its library (the Python package wgpu has one) into LD_LIBRARY_PATH"},
    {"openblas",
     "OpenBLAS",
     {"libopenblas.so.0", "libopenblas.so", NULL},
     {NULL},
     "cblas_sgemm",
     NULL,
     "install libopenblas0"},
    {"mpi",
     "MPI",
     {"libmpi.so.40", "libmpi.so.12", "libmpi.so", NULL},
     {NULL},
     "MPI_Init",
     NULL,
     "install an MPI, for example libopenmpi3"},
    {0},
};

/* The handle of the first file that opens and has the symbol; NULL otherwise, tried then says what happened. */
static void *open_first(const weft_library *row, weft_text *tried) {
    for (int folder = -1; folder < 0 || row->folders[folder]; folder++)
        for (int file = 0; row->files[file]; file++) {
            char path[512];
            weft_text joined;
            const char *name = row->files[file];
            weft_text_init(tried->allocator, &joined);
            if (folder >= 0) weft_text_append(&joined, "%s/%s", row->folders[folder], name);
            const char *candidate = folder < 0 ? name : weft_text_string(&joined);
            bool fits = strlen(candidate) < sizeof path;
            if (fits) memcpy(path, candidate, strlen(candidate) + 1);
            weft_text_deinit(&joined);
            if (!fits) continue;
            void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (handle && dlsym(handle, row->symbol)) return handle;
            weft_text_append(tried, "%s%s%s", tried->length ? ", " : "", path, handle ? " (without the symbol)" : "");
            if (handle) (void)dlclose(handle);
        }
    return NULL;
}

weft_status weft_library_open(weft_allocator allocator, const char *name, void **out_handle) {
    *out_handle = NULL;
    for (const weft_library *row = weft_libraries; row->name; row++) {
        if (strcmp(row->name, name) != 0) continue;
        weft_text tried;
        weft_text_init(allocator, &tried);
        *out_handle = open_first(row, &tried);
        weft_status status = *out_handle ? NULL
                                         : WEFT_STATUS(WEFT_UNAVAILABLE, "%s not found (tried %s): %s", row->what,
                                                       weft_text_string(&tried), row->remedy);
        weft_text_deinit(&tried);
        return status;
    }
    return WEFT_STATUS(WEFT_NOT_FOUND, "no library \"%s\" in the table", name);
}

weft_status weft_library_symbol(void *handle, const char *library, const char *symbol, void *out_function) {
    void *address = dlsym(handle, symbol);
    memcpy(out_function, &address, sizeof address); /* object to function pointer, as POSIX has it */
    return address ? NULL : WEFT_STATUS(WEFT_NOT_FOUND, "%s has no symbol %s: it is too old", library, symbol);
}
