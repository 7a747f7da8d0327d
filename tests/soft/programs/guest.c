/* A program that the soft NPU is a guest of: what it did before, it can do afterwards.
 *
 * usage: guest MODEL WAY, linked with librknnrt.so; ends with 0 where all is well. */
#define _GNU_SOURCE
#include "rknn_api.h"
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *model;

static void rest(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int run(rknn_context context) {
    rknn_tensor_attr attr;
    memset(&attr, 0, sizeof attr);
    int code = rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr);
    if (code)
        return code;
    rknn_input input;
    memset(&input, 0, sizeof input);
    input.buf = calloc(attr.n_elems, 4);
    input.size = attr.n_elems * 4;
    input.type = RKNN_TENSOR_FLOAT32;
    input.fmt = RKNN_TENSOR_NHWC;
    code = rknn_inputs_set(context, 1, &input);
    free(input.buf);
    return code ? code : rknn_run(context, NULL);
}

static int use(void) {
    rknn_context context = 0;
    int code = rknn_init(&context, (void *)(uintptr_t)model, 0, 0, NULL);
    if (!code)
        code = run(context);
    if (!code)
        code = rknn_destroy(context);
    return code;
}

/* -------------------------------------------------------------------------- what is the program's */

static void handler(int number) { (void)number; }

static int keeps_signals(void) {
    struct sigaction before[65], after;
    stack_t stack = {0}, own = {.ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ};
    sigset_t mask, then;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaltstack(&own, NULL);
    signal(SIGUSR1, handler);
    for (int number = 1; number < 65; number++)
        if (sigaction(number, NULL, &before[number]))
            before[number].sa_handler = SIG_ERR;
    if (use())
        return 1;
    for (int number = 1; number < 65; number++)
        if (!sigaction(number, NULL, &after) && after.sa_handler != before[number].sa_handler) {
            printf("the handler of signal %d is another one\n", number);
            return 1;
        }
    sigaltstack(NULL, &stack);
    sigprocmask(SIG_SETMASK, NULL, &then);
    return stack.ss_sp != own.ss_sp || !sigismember(&then, SIGUSR2) || sigismember(&then, SIGINT);
}

static int keeps_environment(void) {
    extern char **environ;
    char before[64];
    int count = 0, then = 0;
    snprintf(before, sizeof before, "%s", setlocale(LC_ALL, NULL));
    while (environ[count])
        count++;
    if (use())
        return 1;
    while (environ[then])
        then++;
    return count != then || strcmp(before, setlocale(LC_ALL, NULL));
}

static int runs_for_ever(void) {
    rknn_context context = 0;
    if (rknn_init(&context, (void *)(uintptr_t)model, 0, 0, NULL))
        return 1;
    printf("running\n");
    fflush(stdout);
    for (;;)
        if (run(context))
            return 1;
}

static void *use_here(void *unused) {
    (void)unused;
    return (void *)(intptr_t)use();
}

static int has_small_stacks(void) {
    pthread_t threads[4];
    pthread_attr_t attributes;
    void *result;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], &attributes, use_here, NULL))
            return 1;
    for (int i = 0; i < 4; i++)
        if (pthread_join(threads[i], &result) || result)
            return 1;
    return 0;
}

/* ------------------------------------------------------------------------------ ends and forks */

static void *run_on(void *unused) {
    rknn_context context = 0;
    (void)unused;
    if (!rknn_init(&context, (void *)(uintptr_t)model, 0, 0, NULL))
        for (;;)
            run(context);
    return NULL;
}

static int exits_while_others_run(void) {
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, run_on, NULL);
    if (use())
        return 1;
    rest(100);
    exit(7);
}

/* 0 where the child ends by itself, after calls that all failed. */
static int child_is_told(void) {
    pid_t child = fork();
    if (!child) {
        rknn_context context = 0;
        _exit(rknn_init(&context, (void *)(uintptr_t)model, 0, 0, NULL) < 0 ? 0 : 1);
    }
    int status = -1;
    for (int i = 0; i < 600 && !waitpid(child, &status, WNOHANG); i++)
        rest(100);
    if (status == -1) {
        printf("the child hangs\n");
        kill(child, SIGKILL);
    }
    return status;
}

static int forks_after_a_call(void) { return use() || child_is_told() || use(); }

static int forks_while_others_run(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run_on, NULL);
    if (use())
        return 1;
    for (int i = 0; i < 5; i++)
        if (child_is_told())
            return 1;
    return use();
}

static int forks_during_the_first_call(void) {
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, use_here, NULL))
        return 1;
    for (int i = 0; i < 6; i++) {
        rest(30 << i);
        if (child_is_told())
            return 1;
    }
    return pthread_join(thread, &result) || result;
}

static int forks_before_the_first_call(void) {
    int status;
    pid_t child = fork();
    if (!child)
        _exit(use() ? 1 : 0);
    waitpid(child, &status, 0);
    return status || use();
}

static const struct {
    const char *name;
    int (*go)(void);
} ways[] = {
    {"signals", keeps_signals},
    {"environment", keeps_environment},
    {"for ever", runs_for_ever},
    {"small stacks", has_small_stacks},
    {"exit", exits_while_others_run},
    {"fork after", forks_after_a_call},
    {"fork while", forks_while_others_run},
    {"fork during", forks_during_the_first_call},
    {"fork before", forks_before_the_first_call},
};

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    model = arguments[1];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, arguments[2]))
            return ways[i].go();
    return 2;
}
