/* The Objective-C runtime of the fake: messages, counts of references, pools; strings and errors. Read fake.h first. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/metal/fake/fake.h"

enum { POOLED_MAX = 4096, NAMES_MAX = 32 };

static struct {
    int live;
    fake_object *pooled[POOLED_MAX];
    int pooled_count, pools;
    struct {
        char name[32];
        int calls;
    } names[NAMES_MAX];
} fake; /* the driver's lock guards it */

void fake_die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "fake Metal: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    abort();
}

fake_object *fake_new(const fake_class *class) {
    fake_object *object = calloc(1, sizeof *object);
    if (!object) fake_die("no memory");
    object->class = class;
    object->references = 1;
    fake.live++;
    return object;
}

fake_object *fake_retain(fake_object *object) {
    if (object->references <= 0) fake_die("%s is retained after its end", object->class->name);
    object->references++;
    return object;
}

void fake_release(fake_object *object) {
    if (object->references <= 0) fake_die("%s is released after its end", object->class->name);
    if (--object->references > 0) return;
    if (object->class->destroy) object->class->destroy(object);
    for (int i = 0; i < 4; i++)
        if (object->parts[i]) fake_release(object->parts[i]);
    free(object->text);
    fake.live--;
    /* kept, so that whoever uses it again is found */
}

fake_object *fake_autorelease(fake_object *object) {
    if (fake.pools == 0) fake_die("%s is autoreleased without a pool", object->class->name);
    if (fake.pooled_count == POOLED_MAX) fake_die("too many objects in a pool");
    return fake.pooled[fake.pooled_count++] = object;
}

int fake_live_objects(void) { return fake.live; }

void *objc_autoreleasePoolPush(void) {
    fake.pools++;
    return (void *)(uintptr_t)(fake.pooled_count + 1);
}

void objc_autoreleasePoolPop(void *pool) {
    int first = (int)(uintptr_t)pool - 1;
    if (fake.pools-- == 0 || first < 0 || first > fake.pooled_count) fake_die("a pool ends that was not begun");
    while (fake.pooled_count > first) fake_release(fake.pooled[--fake.pooled_count]);
}

/* Names are themselves. */
const char *sel_registerName(const char *name) { return name; }

void *objc_getClass(const char *name) {
    if (!strcmp(name, "NSString")) return &fake_string_itself;
    if (!strcmp(name, "MTLCompileOptions")) return &fake_options_itself;
    return NULL;
}

static long answer_nothing(void) { return 0; }

static const fake_method common[] = {
    {"retain", (void (*)(void))fake_retain}, {"release", (void (*)(void))fake_release}, {NULL, NULL}};

void (*fake_lookup(const fake_object *self, const char *selector))(void) {
    if (!self) return (void (*)(void))answer_nothing;
    if (self->references <= 0) fake_die("%s is sent %s after its end", self->class->name, selector);
    const fake_method *const tables[] = {self->class->methods, common};
    for (int t = 0; t < 2; t++)
        for (const fake_method *method = tables[t]; method->name; method++)
            if (!strcmp(method->name, selector)) return method->function;
    fake_die("%s does not answer %s", self->class->name, selector);
}

/* Keeps every argument as it came and jumps to the method. */
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
        "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8, %rsp\n"
        "call fake_lookup@PLT\n"
        "add $8, %rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\njmp *%rax\n");

/* -- failures asked for */

static const char *find_name(const char *name, char sign) {
    const char *list = getenv("WEFT_FAKE_METAL");
    size_t length = strlen(name);
    for (const char *at = list ? list : ""; *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, name, length) && at[length] == sign) return at + length + 1;
    return NULL;
}

bool fake_fails(const char *name) {
    int i = 0;
    while (i < NAMES_MAX && fake.names[i].name[0] && strcmp(fake.names[i].name, name)) i++;
    if (i == NAMES_MAX) fake_die("too many names");
    snprintf(fake.names[i].name, sizeof fake.names[i].name, "%s", name);
    const char *wanted = find_name(name, ':');
    if (!wanted) { /* counts from the moment a failure is asked for */
        fake.names[i].calls = 0;
        return false;
    }
    return ++fake.names[i].calls == atoi(wanted);
}

int64_t fake_setting(const char *name, int64_t fallback) {
    const char *text = find_name(name, '=');
    return text ? atoll(text) : fallback;
}

/* -- NSString, NSError */

static fake_object *string_with(fake_object *self, const char *selector, const char *text) {
    (void)self, (void)selector;
    return fake_string(text);
}

static const char *string_bytes(fake_object *self) { return self->text; }

static const fake_method string_methods[] = {
    {"stringWithUTF8String:", (void (*)(void))string_with}, {"UTF8String", (void (*)(void))string_bytes}, {NULL, NULL}};
const fake_class fake_string_class = {"NSString", string_methods, NULL};
fake_object fake_string_itself = {.class = &fake_string_class, .references = 1};

fake_object *fake_string(const char *text) {
    fake_object *string = fake_new(&fake_string_class);
    string->text = strdup(text);
    return fake_autorelease(string);
}

static fake_object *error_description(fake_object *self) { return self->parts[0]; }
static long error_code(fake_object *self) { return (long)self->number; }

static const fake_method error_methods[] = {
    {"localizedDescription", (void (*)(void))error_description}, {"code", (void (*)(void))error_code}, {NULL, NULL}};
const fake_class fake_error_class = {"NSError", error_methods, NULL};

fake_object *fake_error(int code, const char *text) {
    fake_object *error = fake_new(&fake_error_class);
    error->number = code;
    error->parts[0] = fake_retain(fake_string(text));
    return fake_autorelease(error);
}
