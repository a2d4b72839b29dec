/* Messages to Objective-C objects from C. See metal.h. */
#include <string.h>

#include "runtime/drivers/metal/metal.h"
#include "runtime/libraries.h"

static weft_status load_functions(weft_allocator allocator, metal_api *api) {
    void *objc = NULL, *metal = NULL;
    WEFT_TRY(weft_library_open(allocator, "metal", &metal), "starting Metal");
    WEFT_TRY(weft_library_open(allocator, "objc", &objc), "starting Metal");
    const struct {
        const char *symbol;
        void *to;
    } rows[] = {{"objc_getClass", &api->get_class},
                {"sel_registerName", &api->register_name},
                {"objc_msgSend", &api->send},
                {"objc_autoreleasePoolPush", &api->push_pool},
                {"objc_autoreleasePoolPop", &api->pop_pool}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        WEFT_TRY(weft_library_symbol(objc, "the Objective-C runtime", rows[i].symbol, rows[i].to), "starting Metal");
    WEFT_TRY(weft_library_symbol(metal, "Metal", "MTLCopyAllDevices", &api->all_devices), "starting Metal");
    return NULL;
}

weft_status weft_metal_api_open(weft_allocator allocator, metal_api *api) {
    WEFT_TRY(load_functions(allocator, api), "loading libraries");
#define X(field, method) api->field = api->register_name(method);
    METAL_METHODS(X)
#undef X
    api->string = api->get_class("NSString");
    api->options = api->get_class("MTLCompileOptions");
    if (!api->string || !api->options)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "the Objective-C runtime has no class %s",
                           api->string ? "MTLCompileOptions" : "NSString");
    return NULL;
}

metal_id weft_metal_get(const metal_api *api, metal_id self, metal_sel selector) {
    return ((metal_id(*)(metal_id, metal_sel))api->send)(self, selector);
}

unsigned long weft_metal_number(const metal_api *api, metal_id self, metal_sel selector) {
    return ((unsigned long (*)(metal_id, metal_sel))api->send)(self, selector);
}

void weft_metal_tell(const metal_api *api, metal_id self, metal_sel selector) {
    ((void (*)(metal_id, metal_sel))api->send)(self, selector);
}

const char *weft_metal_text(const metal_api *api, metal_id string) {
    const char *text = string ? weft_metal_get(api, string, api->bytes_of) : NULL;
    return text ? text : "";
}

const char *weft_metal_error(const metal_api *api, metal_id error) {
    const char *text = error ? weft_metal_text(api, weft_metal_get(api, error, api->description)) : "";
    return text[0] ? text : "no reason given";
}
