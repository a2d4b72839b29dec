/* The arrows between folders (every include runs along them), and edits that must not change what is compiled. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Suite *edits_suite(void);

/* A folder and the folders whose headers it may include; "weft" is include/weft. */
typedef struct arrow {
    const char *folder, *to[8];
} arrow;
static const arrow arrows[] = {
    {"include", {"weft"}},
    {"base", {"base", "weft"}},
    {"ir", {"ir", "base", "weft"}},
    {"frontend", {"frontend", "ir", "base", "weft"}},
    {"passes", {"passes", "ir", "base", "weft"}},
    {"codegen", {"codegen", "passes", "ir", "base", "weft"}},
    {"runtime", {"runtime", "base", "weft"}},
    {"compile", {"compile", "codegen", "passes", "ir", "runtime", "base", "weft"}},
    {"stdlib", {"stdlib", "base", "weft"}},
    {"examples", {"examples", "weft"}},
};

static int files, bad;

static void check_include(const arrow *from, const char *path, int line, const char *name) {
    const char *slash = strchr(name, '/');
    if (!slash) return; /* beside the file, or generated */
    size_t length = (size_t)(slash - name);
    for (int i = 0; i < 8 && from->to[i]; i++)
        if (strlen(from->to[i]) == length && !strncmp(from->to[i], name, length)) return;
    fprintf(stderr, "%s:%d: %s may not include \"%s\"\n", path, line, from->folder, name);
    bad++;
}

static void check_file(const arrow *from, const char *path) {
    char text[1024], name[512];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    for (int line = 1; fgets(text, sizeof text, file); line++)
        if (sscanf(text, " # include \"%511[^\"]\"", name) == 1) check_include(from, path, line, name);
    fclose(file);
    files++;
}

static void check_folder(const arrow *from, const char *path) {
    DIR *folder = opendir(path);
    ck_assert_msg(folder != NULL, "%s is missing", path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char inner[1024];
        struct stat info;
        if (entry->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (stat(inner, &info)) continue;
        const char *dot = strrchr(entry->d_name, '.');
        if (S_ISDIR(info.st_mode))
            check_folder(from, inner);
        else if (dot && (!strcmp(dot, ".c") || !strcmp(dot, ".h") || !strcmp(dot, ".def") || !strcmp(dot, ".cpp")))
            check_file(from, inner);
    }
    closedir(folder);
}

START_TEST(includes) {
    const arrow *from = &arrows[_i];
    char path[1024];
    files = bad = 0;
    snprintf(path, sizeof path, "%s/%s", WEFT_SOURCE_DIR, from->folder);
    check_folder(from, path);
    ck_assert_msg(files > 0, "%s holds no source", path);
    ck_assert_msg(bad == 0, "%d includes of %s run against the arrows", bad, from->folder);
}
END_TEST

/* The check itself finds an include that is wrong. */
START_TEST(finds_wrong_include) {
    bad = 0;
    check_include(&arrows[1], "base/x.c", 1, "ir/graph.h");
    check_include(&arrows[1], "base/x.c", 1, "base/map.h");
    ck_assert_int_eq(bad, 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("arrows");
    TCase *all = tcase_create("includes");
    tcase_add_loop_test(all, includes, 0, (int)(sizeof arrows / sizeof *arrows));
    tcase_add_test(all, finds_wrong_include);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_add_suite(runner, edits_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
