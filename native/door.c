/* The doors of the soft NPU: through them, and in no other way, do calls reach its Python.
 *
 * A door is a C function with the same arguments as the callback behind it. It sees to it that
 *  - no call is made on a thread where Python may not run it. Python's main thread runs the handlers
 *    of signals between any two instructions, and what they raise would tear up whatever goes on; a
 *    thread with a small stack would overflow. Such a call is made by a helper, while the caller waits
 *    here: a signal's handler runs when the call is over, in the caller's own code;
 *  - once the process ends no call begins, and the end waits for those inside;
 *  - in a forked process, which has none of the threads that calls need, no call begins.
 *
 * The functions of Python that helpers need come as addresses. Arguments and results are integers and
 * pointers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DOORS 1024
#define STACK_SIZE ((size_t)16 << 20)
#define LEAST_STACK ((size_t)1 << 20)

typedef uintptr_t word;
typedef word function(word, word, word, word, word, word, word, word);

struct door {
    function *function;
    word refusal; /* the result of a call that may not begin */
};

/* PyGILState_Ensure and PyGILState_Check, PyEval_SaveThread and PyEval_RestoreThread. */
struct python {
    int (*ensure)(void);
    int (*check)(void);
    void *(*save)(void);
    void (*restore)(void *state);
};

struct call {
    function *function;
    const word *arguments;
    word caller; /* its thread */
    word result;
    int is_done;
    pthread_cond_t done;
};

/* A thread that makes calls for others, one at a time. */
struct helper {
    pthread_cond_t wake;
    struct call *call;
    struct helper *next; /* of those that are idle */
};

static struct door doors[MAX_DOORS];
static atomic_uint door_count;
static struct python python;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* a call ended while the doors are closed */
static struct helper *idle_helpers;

static _Atomic(word) main_thread; /* Python's; 0 once it makes its calls itself */
static atomic_int has_python;     /* it runs, and isn't about to end */
static atomic_int is_closed;      /* no call may begin */
static atomic_int inside;         /* calls that have begun */
static int was_torn;              /* at a fork somebody else was inside */

/* This thread's calls among those inside; a helper counts the one that it makes for another. */
static __thread int depth;
/* Whose call a helper makes; 0 for its own. */
static __thread word caller;
/* The lowest address that the stack may be used down to, 0 while it isn't known. */
static __thread word stack_floor;

/* ------------------------------------------------------------------------------------- helpers */

static word make(function *f, const word *a) {
    return f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

static void *help(void *argument) {
    struct helper *helper = argument;
    /* A state of Python's that stays: making one for each call takes longer than most calls. */
    if (atomic_load(&has_python)) {
        python.ensure();
        python.save();
    }
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!helper->call)
            pthread_cond_wait(&helper->wake, &lock);
        struct call *call = helper->call;
        pthread_mutex_unlock(&lock);
        depth = 1;
        caller = call->caller;
        const word result = make(call->function, call->arguments);
        depth = 0;
        pthread_mutex_lock(&lock);
        helper->call = NULL;
        helper->next = idle_helpers;
        idle_helpers = helper;
        call->result = result;
        call->is_done = 1;
        pthread_cond_signal(&call->done);
    }
    return NULL;
}

/* A new helper, without signals, which are others'. NULL where the system has no thread left. */
static struct helper *new_helper(void) {
    struct helper *helper = calloc(1, sizeof *helper);
    pthread_attr_t attributes;
    if (!helper || pthread_attr_init(&attributes)) {
        free(helper);
        return NULL;
    }
    pthread_cond_init(&helper->wake, NULL);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int code = pthread_create(&thread, &attributes, help, helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (code) {
        free(helper);
        return NULL;
    }
    return helper;
}

/* 0 where there is no helper. */
static int make_elsewhere(struct call *call) {
    pthread_mutex_lock(&lock);
    struct helper *helper = idle_helpers;
    if (helper)
        idle_helpers = helper->next;
    else
        helper = new_helper();
    if (helper) {
        helper->call = call;
        pthread_cond_signal(&helper->wake);
        while (!call->is_done)
            pthread_cond_wait(&call->done, &lock);
    }
    pthread_mutex_unlock(&lock);
    return helper != NULL;
}

/* ----------------------------------------------------------------------------- through the door */

static word lowest_of_stack(void) {
    pthread_attr_t attributes;
    void *base = NULL;
    size_t size = 0;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &base, &size);
        pthread_attr_destroy(&attributes);
    }
    return (word)base + LEAST_STACK;
}

static int has_small_stack(void) {
    const char here = 0;
    if (!stack_floor)
        stack_floor = lowest_of_stack();
    return (word)&here < stack_floor;
}

static int is_main(void) {
    return (word)pthread_self() == atomic_load_explicit(&main_thread, memory_order_relaxed);
}

/* A caller that holds Python's lock can't wait for a helper, which needs it. */
static int holds_python(void) {
    return atomic_load(&has_python) && python.check();
}

static void leave(void) {
    depth--;
    if (atomic_fetch_sub(&inside, 1) > 0 && atomic_load(&is_closed)) {
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&left);
        pthread_mutex_unlock(&lock);
    }
}

/* Whoever is inside may go on: what it calls belongs to its call. */
static int enter(void) {
    atomic_fetch_add(&inside, 1);
    depth++;
    if (depth > 1 || !atomic_load(&is_closed))
        return 1;
    leave();
    return 0;
}

static word pass(unsigned number, const word *arguments) {
    const struct door *door = &doors[number];
    if (!enter())
        return door->refusal;
    struct call call = {door->function,          arguments, (word)pthread_self(), 0, 0,
                        PTHREAD_COND_INITIALIZER};
    if (!(is_main() || has_small_stack()) || holds_python() || !make_elsewhere(&call))
        call.result = make(call.function, arguments);
    leave();
    return call.result;
}

/* The thread whose call this one makes: itself, but for helpers. */
EXPORT word anynpu_door_caller(void) {
    return caller ? caller : (word)pthread_self();
}

#define DOOR(n)                                                                                    \
    static word door_##n(word a, word b, word c, word d, word e, word f, word g, word h) {         \
        const word arguments[] = {a, b, c, d, e, f, g, h};                                         \
        return pass(0x##n, arguments);                                                             \
    }
#define NAME(n) door_##n,
/* clang-format off */
#define SIXTEEN(X, n)                                                                    \
    X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9) X(n##a) \
        X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define EACH_OF(X, n)                                                                          \
    SIXTEEN(X, n##0) SIXTEEN(X, n##1) SIXTEEN(X, n##2) SIXTEEN(X, n##3) SIXTEEN(X, n##4)       \
        SIXTEEN(X, n##5) SIXTEEN(X, n##6) SIXTEEN(X, n##7) SIXTEEN(X, n##8) SIXTEEN(X, n##9)   \
            SIXTEEN(X, n##a) SIXTEEN(X, n##b) SIXTEEN(X, n##c) SIXTEEN(X, n##d)                \
                SIXTEEN(X, n##e) SIXTEEN(X, n##f)
EACH_OF(DOOR, 0) EACH_OF(DOOR, 1) EACH_OF(DOOR, 2) EACH_OF(DOOR, 3)
static function *const entrances[MAX_DOORS] = {
    EACH_OF(NAME, 0) EACH_OF(NAME, 1) EACH_OF(NAME, 2) EACH_OF(NAME, 3)};
/* clang-format on */

/* ---------------------------------------------------------------------------- the ends of things */

#define SECOND INT64_C(1000000000)

static void (*hurry)(void); /* makes the calls inside end soon */
static pid_t owner;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

/* Wait until no other thread is inside; 0 where that took longer. */
static int drain(int64_t nanoseconds) {
    const int64_t end = now() + nanoseconds;
    const struct timespec until = {.tv_sec = (time_t)(end / SECOND),
                                   .tv_nsec = (long)(end % SECOND)};
    int code = 0;
    pthread_mutex_lock(&lock);
    while (atomic_load(&inside) > depth && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&left, &lock, &until);
    pthread_mutex_unlock(&lock);
    return atomic_load(&inside) <= depth;
}

static word hurried(word a, word b, word c, word d, word e, word f, word g, word h) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    hurry();
    return 0;
}

/* The process ends: what follows takes apart what calls need. */
static void end_calls(void) {
    static const word nothing[8];
    if (owner != getpid() || !atomic_load(&has_python))
        return;
    void *state = holds_python() ? python.save() : NULL;
    atomic_store(&is_closed, 1);
    /* A call that prepares a run has nothing yet that could be made to end: it is told again. */
    const int64_t end = now() + 11 * SECOND;
    while (!drain(SECOND)) {
        struct call call = {hurried, nothing, (word)pthread_self(), 0, 0, PTHREAD_COND_INITIALIZER};
        if (now() >= end) {
            fprintf(stderr, "anynpu: the program ends while the soft NPU still runs a call\n");
            break;
        }
        if (!has_small_stack() || !make_elsewhere(&call))
            hurry();
    }
    if (state)
        python.restore(state);
}

#ifdef __GLIBC__
/* In a process forked from the one that asked for it, what follows would wait for threads that aren't
 * there. */
static void end(int status, void *asked) {
    if (asked && (pid_t)(intptr_t)asked != getpid()) {
        fflush(NULL);
        _exit(status);
    }
    end_calls();
}
#else
static void end_simply(void) {
    end_calls();
}
#endif

/* A forked process has this thread alone, and whatever others held stays so. */
static void forked(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&left, NULL);
    idle_helpers = NULL;
    was_torn = atomic_load(&inside) > depth;
    atomic_store(&inside, depth);
    atomic_store(&is_closed, 1);
    if (atomic_load(&main_thread))
        atomic_store(&main_thread, (word)pthread_self());
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

/* -------------------------------------------------------------------------- exported functions */

/* Begin: Python's functions, its main thread, and a function that makes calls inside end soon. */
EXPORT void anynpu_door_begin(const struct python *functions, uint64_t thread, uint64_t hurries) {
    python = *functions;
    hurry = (void (*)(void))(word)hurries;
    owner = getpid();
    atomic_store(&main_thread, (word)thread);
    atomic_store(&has_python, 1);
}

/* Python is about to end: from now on its main thread makes its calls itself. */
EXPORT void anynpu_door_end(void) {
    atomic_store(&main_thread, 0);
    atomic_store(&has_python, 0);
}

/* Before what was loaded until now is taken apart, at the process's end, wait for calls inside. With
 * `has_threads` it isn't taken apart in processes that are forked from this one. */
EXPORT int32_t anynpu_door_watch_end(int32_t has_threads) {
#ifdef __GLIBC__
    return on_exit(end, has_threads ? (void *)(intptr_t)getpid() : NULL);
#else
    (void)has_threads;
    return atexit(end_simply);
#endif
}

/* The address of a function that makes calls of the one given; it returns `refusal` where it may not.
 * 0 where there is no door left. */
EXPORT uint64_t anynpu_door_new(uint64_t address, uint64_t refusal) {
    const unsigned number = atomic_fetch_add(&door_count, 1);
    if (number >= MAX_DOORS)
        return 0;
    doors[number].function = (function *)(word)address;
    doors[number].refusal = (word)refusal;
    return (uint64_t)(word)entrances[number];
}

/* Let no call begin any more. */
EXPORT void anynpu_door_close(void) {
    atomic_store(&is_closed, 1);
}

/* Wait until no other thread is inside; 0 where that took longer. */
EXPORT int32_t anynpu_door_drain(int64_t nanoseconds) {
    return drain(nanoseconds);
}

/* In a forked process where Python goes on: let calls begin again. 0, and none begins, where another
 * thread was inside when it was forked. */
EXPORT int32_t anynpu_door_reopen(void) {
    if (was_torn)
        return 0;
    owner = getpid();
    atomic_store(&is_closed, 0);
    return 1;
}
