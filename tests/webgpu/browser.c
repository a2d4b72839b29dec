/* A small HTTP server (one request a connection, one at a time) and the life of the browser's process. */
#include "tests/webgpu/browser.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct server {
    int fd, port;
    int first, count; /* the page runs cases first ... count - 1 */
    browser_case *cases;
    const browser_job *job;
    char *log;
    bool done;
} server;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *browser_find(void) {
    static const char *const names[] = {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"};
    const char *given = getenv("WEFT_TEST_BROWSER");
    if (given) return access(given, X_OK) == 0 ? given : NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (access(names[i], X_OK) == 0) return names[i];
    return NULL;
}

static bool send_all(int fd, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static void reply(int fd, const char *status, const char *type, const void *data, size_t bytes) {
    char head[256];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
                          type, bytes);
    if (send_all(fd, head, (size_t)length)) send_all(fd, data, bytes);
}

static void reply_file(int fd, const char *path, const char *type) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t bytes = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        bytes = (size_t)ftell(file);
        text = malloc(bytes + 1);
        if (text && (fseek(file, 0, SEEK_SET) || fread(text, 1, bytes, file) != bytes)) bytes = 0;
    }
    if (file) fclose(file);
    reply(fd, text ? "200 OK" : "404 Not Found", type, text ? text : "", bytes);
    free(text);
}

/* Reads a request: the head into `head`, the body into *out_body (malloc). */
static bool receive(int fd, char *head, size_t room, unsigned char **out_body, size_t *out_bytes) {
    size_t used = 0;
    char *end = NULL;
    *out_body = NULL;
    *out_bytes = 0;
    while (!end && used + 1 < room) {
        ssize_t got = recv(fd, head + used, room - 1 - used, 0);
        if (got <= 0) return false;
        used += (size_t)got;
        head[used] = 0;
        end = strstr(head, "\r\n\r\n");
    }
    if (!end) return false;
    const char *length = strcasestr(head, "\r\nContent-Length:");
    size_t bytes = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    size_t have = used - (size_t)(end + 4 - head);
    if (bytes > (size_t)1 << 28 || have > bytes) return false;
    *out_body = malloc(bytes + 1);
    if (!*out_body) return false;
    memcpy(*out_body, end + 4, have);
    while (have < bytes) {
        ssize_t got = recv(fd, *out_body + have, bytes - have, 0);
        if (got <= 0) return false;
        have += (size_t)got;
    }
    (*out_body)[bytes] = 0;
    *out_bytes = bytes;
    return true;
}

static const char *type_of(const char *path) {
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".html")) return "text/html";
    return dot && !strcmp(dot, ".js") ? "text/javascript" : "application/octet-stream";
}

static void get(server *s, int fd, const char *path) {
    int number;
    char file[1024];
    if (!strcmp(path, "/")) {
        snprintf(file, sizeof file, WEFT_SOURCE_DIR "/tests/webgpu/%s", s->job->page);
        reply_file(fd, file, "text/html");
    } else if (s->job->folder && !strncmp(path, "/site/", 6) && !strchr(path + 6, '/')) {
        snprintf(file, sizeof file, "%s/%s", s->job->folder, path + 6);
        reply_file(fd, file, type_of(path));
    } else if (!strcmp(path, "/weft.js"))
        reply_file(fd, WEFT_SOURCE_DIR "/runtime/web/weft.js", "text/javascript");
    else if (!strcmp(path, "/range")) {
        char text[64];
        int length = snprintf(text, sizeof text, "[%d, %d]", s->first, s->count);
        reply(fd, "200 OK", "application/json", text, (size_t)length);
    } else if (sscanf(path, "/case/%d", &number) == 1 && number >= 0 && number < s->count)
        reply(fd, "200 OK", "application/json", s->cases[number].text, strlen(s->cases[number].text));
    else if (sscanf(path, "/data/%d", &number) == 1 && number >= 0 && number < s->count)
        reply(fd, "200 OK", "application/octet-stream", s->cases[number].data, s->cases[number].data_bytes);
    else
        reply(fd, "404 Not Found", "text/plain", "", 0);
}

/* Takes the body when it keeps it: returns true. */
static bool post(server *s, const char *path, unsigned char *body, size_t bytes) {
    int number;
    double load_ms, run_ms;
    if (sscanf(path, "/result/%d/%lf/%lf", &number, &load_ms, &run_ms) == 3 && number >= 0 && number < s->count &&
        !s->cases[number].result) {
        s->cases[number].result = body;
        s->cases[number].result_bytes = bytes;
        s->cases[number].load_ms = load_ms;
        s->cases[number].run_ms = run_ms;
        return true;
    }
    if (sscanf(path, "/error/%d", &number) == 1 && number >= 0 && number < s->count && !s->cases[number].error) {
        s->cases[number].error = (char *)body;
        return true;
    }
    if (!strcmp(path, "/log")) {
        free(s->log);
        s->log = (char *)body;
        return true;
    }
    if (!strcmp(path, "/done")) s->done = true;
    return false;
}

static void serve_one(server *s, int fd) {
    char head[8192], method[8], path[256];
    unsigned char *body;
    size_t bytes;
    struct timeval patience = {10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    bool kept = false;
    if (receive(fd, head, sizeof head, &body, &bytes) && sscanf(head, "%7s %255s", method, path) == 2) {
        if (!strcmp(method, "GET"))
            get(s, fd, path);
        else {
            kept = post(s, path, body, bytes);
            reply(fd, "200 OK", "text/plain", "", 0);
        }
    }
    if (!kept) free(body);
    close(fd);
}

static int listen_on_loopback(int *out_port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&address, &length)) {
        if (fd >= 0) close(fd);
        return -1;
    }
    *out_port = ntohs(address.sin_port);
    return fd;
}

/* Workgroup memory starts as zeros. SwiftShader takes a constant for that and compiles a store for each of its words, a
   second for 8 KB; without the extension it is a loop. */
static const char no_constant_zeros[] = "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension";

/* In a process group of its own, so that its helpers end with it. */
static pid_t start_browser(const char *program, const char *profile, int port) {
    char url[64], directory[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
    snprintf(directory, sizeof directory, "--user-data-dir=%s", profile);
    pid_t child = fork();
    if (child != 0) {
        if (child > 0) setpgid(child, child);
        return child;
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves no browser behind */
    int null = open("/dev/null", O_RDWR);
    if (null >= 0 && !getenv("WEFT_TEST_BROWSER_LOG")) {
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
    }
    execl(program, program, "--headless=new", "--no-sandbox", "--disable-gpu-sandbox", "--enable-unsafe-webgpu",
          "--use-webgpu-adapter=swiftshader", no_constant_zeros, "--enable-features=Vulkan",
          "--disable-background-networking", "--disable-component-update", "--disable-domain-reliability",
          "--disable-sync", "--disable-extensions", "--no-first-run", "--no-default-browser-check", "--no-pings",
          "--disable-breakpad", "--metrics-recording-only", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
          directory, url, (char *)NULL);
    _exit(127);
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *ftw) {
    (void)info, (void)flag, (void)ftw;
    return remove(path);
}

/* The first case without an answer. */
static int unanswered(const server *s) {
    int i = s->first;
    while (i < s->count && (s->cases[i].result || s->cases[i].error)) i++;
    return i;
}

/* One browser, until the page is done, the browser is gone, or a case gives no answer until `patience` has passed. */
static void run_once(server *s, const char *program, double patience, double end) {
    char profile[] = "/tmp/weft-browser-XXXXXX";
    if (!mkdtemp(profile)) return;
    pid_t child = start_browser(program, profile, s->port);
    int waiting = -1;
    double since = now();
    bool alive = child > 0;
    while (alive && !s->done && now() < end) {
        struct pollfd wait = {.fd = s->fd, .events = POLLIN};
        if (poll(&wait, 1, 200) > 0) {
            int connection = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
            if (connection >= 0) serve_one(s, connection);
        }
        alive = waitpid(child, NULL, WNOHANG) == 0;
        if (unanswered(s) != waiting) waiting = unanswered(s), since = now();
        if (now() > since + patience) break;
    }
    if (alive) {
        kill(-child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    nftw(profile, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

bool browser_run(const browser_job *job, char **out_log) {
    server s = {.count = job->count, .cases = job->cases, .job = job};
    s.fd = listen_on_loopback(&s.port);
    double end = now() + job->seconds;
    while (s.fd >= 0 && !s.done && now() < end) {
        run_once(&s, job->program, job->case_seconds, end);
        int stuck = unanswered(&s);
        if (s.done || stuck == job->count || now() >= end) break;
        char words[64];
        snprintf(words, sizeof words, "no answer within %d s", job->case_seconds);
        job->cases[stuck].error = strdup(words);
        s.first = stuck + 1;
    }
    if (s.fd >= 0) close(s.fd);
    *out_log = s.log;
    return s.done;
}
