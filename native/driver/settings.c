/* What the environment says, the log, and failures on demand. */
#include "driver.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREFIX "ANYNPU_DRIVER_"
#define LINE 512

const char *setting(const char *name) {
    char whole[64];
    snprintf(whole, sizeof whole, PREFIX "%s", name);
    const char *value = getenv(whole);
    return value && *value ? value : NULL;
}

/* A number, decimal or after 0x; text moves past it. */
static uint32_t read_number(const char **text) {
    const char *at = *text;
    uint32_t base = 10, value = 0;
    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    }
    for (;; at++) {
        char c = *at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : base;
        if (digit >= base)
            break;
        value = value * base + digit;
    }
    *text = at;
    return value;
}

uint32_t number_setting(const char *name, uint32_t otherwise) {
    const char *text = setting(name);
    return text ? read_number(&text) : otherwise;
}

static int log_descriptor(void) {
    static int descriptor = -2;
    if (descriptor == -2) {
        const char *path = setting("LOG");
        int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
        descriptor = !path ? -1
                     : strcmp(path, "-") == 0
                         ? STDERR_FILENO
                         : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
    }
    return descriptor;
}

void say(const char *format, ...) {
    int descriptor = log_descriptor();
    if (descriptor < 0)
        return;
    char line[LINE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (length > LINE - 2)
        length = LINE - 2;
    line[length++] = '\n';
    if (write(descriptor, line, (size_t)length) < 0)
        return; /* a log that can't be written is no reason to fail */
}

/* FAULTS has rules KIND@FIRST[+]=ERRNO with commas between them; FIRST counts from 1. */
int demanded_failure(enum fault kind) {
    static const char *const names[FAULTS] = {"action", "submit",  "create",
                                              "map",    "destroy", "sync"};
    static uint32_t counts[FAULTS];
    uint32_t call = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
    size_t length = strlen(names[kind]);
    for (const char *rule = setting("FAULTS"); rule && *rule; rule += *rule == ',') {
        if (strncmp(rule, names[kind], length) == 0 && rule[length] == '@') {
            const char *at = rule + length + 1;
            uint32_t first = read_number(&at);
            int onwards = *at == '+';
            at += onwards;
            if (*at == '=' && (call == first || (onwards && call > first))) {
                at++;
                int error = (int)read_number(&at);
                say("%s: call %u fails on demand, errno %d", names[kind], call, error);
                return error;
            }
        }
        rule += strcspn(rule, ",");
    }
    return 0;
}
