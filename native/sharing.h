/* Steps of work, one after another, each shared by some threads.
 *
 * A step is a kernel with its arguments and a number of units; threads take a grain of units at a time
 * until none is left, and nobody begins a step before all units of the one before are done. Helpers are
 * never waited for once the work is done: where the other processors are busy, a run is as fast as its
 * caller alone. Between two runs they sleep, since waking one takes the caller a fourth of the time
 * that a new thread does, and where processors are busy it begins earlier. Kernels don't call back.
 * Include it first, as elsewhere.h.
 */
#ifndef ANYNPU_SHARING_H
#define ANYNPU_SHARING_H

#include "elsewhere.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum {
    SPINS = 2000,
    KEPT = 2, /* helpers that sleep, for each one that a run has: some still end the run before */
    MOST_THREADS = 16, /* as anynpu/native/threads.py says */
    PATIENCE =
        300000, /* nanoseconds for which the caller waits for others, besides what work takes */
    REST = 8,   /* steps that it does alone after that */
};

struct step {
    void (*kernel)(const void *arguments, int64_t first, int64_t end, void *scratch);
    const void *arguments;
    int64_t units;
    int64_t grain; /* units that a thread takes at a time */
};
_Static_assert(sizeof(struct step) == 2 * sizeof(void *) + 16,
               "as anynpu/native/steps.py declares it");

/* How far one step is. Each thread has a stretch of neighbouring grains, so that much of what it reads is what it
 * wrote in the step before, and helps with others' after that. */
struct progress {
    int64_t units;
    int64_t grain;
    atomic_int_fast64_t done;
    _Atomic int32_t taken[MOST_THREADS]; /* grains, of each stretch */
};

/* What threads share; the last one that leaves frees it. `steps` and `cancelled` are the caller's and
 * only read by who has taken units, for which the caller waits. */
struct shared_run {
    const struct step *steps;
    const int32_t *cancelled;
    void *scratch[MOST_THREADS];
    int64_t count;
    int64_t threads;
    atomic_int_fast64_t members;
    atomic_int_fast64_t joined;
    atomic_int_fast64_t resumes; /* the step with which others may help again */
    struct progress progress[];
};

static void rest(int64_t spins) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
    if (spins > SPINS)
        sched_yield();
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int64_t grains_of(const struct progress *at) {
    return (at->units + at->grain - 1) / at->grain;
}

/* The next grain that nobody has taken, of a thread's own stretch or else of the one that follows; -1 where
 * there is none. */
static int64_t take_grain(struct shared_run *run, struct progress *at, int64_t member) {
    const int64_t grains = grains_of(at), threads = run->threads;
    for (int64_t i = 0; i < threads; i++) {
        const int64_t stretch = (member + i) % threads;
        const int64_t first = grains * stretch / threads, end = grains * (stretch + 1) / threads;
        if (first + atomic_load(at->taken + stretch) >= end)
            continue;
        const int64_t grain = first + atomic_fetch_add(at->taken + stretch, 1);
        if (grain < end)
            return grain;
    }
    return -1;
}

/* Take units of a step until there are none; how long a grain of them took at most. */
static int64_t take_units(struct shared_run *run, int64_t number, int64_t member) {
    struct progress *at = &run->progress[number];
    const struct step *step = run->steps + number;
    int64_t longest = 0;
    for (int64_t grain; (grain = take_grain(run, at, member)) >= 0;) {
        const int64_t first = grain * at->grain;
        const int64_t end = first + at->grain < at->units ? first + at->grain : at->units;
        const int64_t start = now();
        if (!__atomic_load_n(run->cancelled, __ATOMIC_RELAXED))
            step->kernel(step->arguments, first, end, run->scratch[member]);
        longest = now() - start > longest ? now() - start : longest;
        atomic_fetch_add(&at->done, end - first);
    }
    return longest;
}

static void wait_for(const struct progress *at) {
    for (int64_t spins = 0; atomic_load(&at->done) < at->units; spins++)
        rest(spins);
}

/* The caller's part. Where a helper holds units for much longer than they take, another program has its
 * processor: then it is quicker to do without it for a while. */
static void take_part(struct shared_run *run, int64_t number) {
    struct progress *at = &run->progress[number];
    const int64_t patience = PATIENCE + 2 * take_units(run, number, 0), start = now();
    while (atomic_load(&at->done) < at->units && now() - start < patience)
        rest(0);
    if (atomic_load(&at->done) < at->units)
        atomic_store(&run->resumes, number + 1 + REST);
    wait_for(at);
}

static void leave(struct shared_run *run) {
    if (atomic_fetch_sub(&run->members, 1) == 1)
        free(run);
}

/* How many threads the run has. */
static int64_t help_with(struct shared_run *run) {
    const int64_t threads = run->threads;
    const int64_t member = atomic_fetch_add(&run->joined, 1);
    for (int64_t number = 0; number < run->count; number++) {
        /* What is one piece is the caller's: it would only wait for it. */
        const int is_shared = grains_of(&run->progress[number]) > 1;
        if (is_shared && number >= atomic_load(&run->resumes))
            take_units(run, number, member);
        wait_for(&run->progress[number]);
    }
    leave(run);
    return threads;
}

/* A thread that helps with one run after the other. */
struct helper {
    pthread_t thread;
    pthread_cond_t wake;
    struct processors processors; /* where it may run */
    struct shared_run *run;
    struct helper *next; /* of those that sleep */
};

static pthread_mutex_t helpers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct helper *sleeping_helpers;
static int64_t sleeping_count;

/* Until there is a run; 0 where enough others sleep for runs of so many threads. */
static int sleep_until_needed(struct helper *helper, int64_t threads) {
    pthread_mutex_lock(&helpers_lock);
    const int is_needed = sleeping_count < KEPT * (threads - 1);
    if (is_needed) {
        helper->run = NULL;
        helper->next = sleeping_helpers;
        sleeping_helpers = helper;
        sleeping_count++;
        while (!helper->run)
            pthread_cond_wait(&helper->wake, &helpers_lock);
    }
    pthread_mutex_unlock(&helpers_lock);
    return is_needed;
}

static void *help(void *argument) {
    struct helper *helper = argument;
    helper->thread = pthread_self();
    while (sleep_until_needed(helper, help_with(helper->run)))
        ;
    pthread_cond_destroy(&helper->wake);
    free(helper);
    return NULL;
}

/* Begin a helper without signals, which are the caller's. 0 where there is no thread left. */
static int begin_helper(struct shared_run *run, const struct processors *processors) {
    struct helper *helper = calloc(1, sizeof *helper);
    if (!helper)
        return 0;
    pthread_cond_init(&helper->wake, NULL);
    helper->run = run;
    helper->processors = *processors;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    begin_elsewhere(processors, &attributes);
    pthread_t thread;
    const int is_begun = !pthread_create(&thread, &attributes, help, helper);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!is_begun) {
        pthread_cond_destroy(&helper->wake);
        free(helper);
    }
    return is_begun;
}

/* Have a helper that sleeps, or else a new one. */
static void invite(struct shared_run *run, const struct processors *processors) {
    atomic_fetch_add(&run->members, 1);
    pthread_mutex_lock(&helpers_lock);
    struct helper *helper = sleeping_helpers;
    if (helper) {
        sleeping_helpers = helper->next;
        sleeping_count--;
        if (!are_same(&helper->processors, processors)) {
            helper->processors = *processors;
            send_elsewhere(processors, helper->thread);
        }
        helper->run = run;
        pthread_cond_signal(&helper->wake);
    }
    pthread_mutex_unlock(&helpers_lock);
    if (!helper && !begin_helper(run, processors))
        atomic_fetch_sub(&run->members, 1);
}

static void run_alone(const struct step *steps, int64_t count, void *scratch,
                      const int32_t *cancelled) {
    for (const struct step *step = steps; step < steps + count; step++)
        for (int64_t first = 0; first < step->units; first += step->grain) {
            const int64_t end =
                first + step->grain < step->units ? first + step->grain : step->units;
            if (!__atomic_load_n(cancelled, __ATOMIC_RELAXED))
                step->kernel(step->arguments, first, end, scratch);
        }
}

/* Runs that are under way in the process; a forked one has none, nor helpers. */
static atomic_int_fast64_t running;

static void forget_runs(void) {
    atomic_store(&running, 0);
    pthread_mutex_init(&helpers_lock, NULL);
    sleeping_helpers = NULL;
    sleeping_count = 0;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget_runs);
}

static void run_together(const struct step *steps, int64_t count, int64_t threads,
                         void *const *scratch, const int32_t *cancelled) {
    struct shared_run *run = NULL;
    if (threads > 1)
        run = calloc(1, sizeof *run + (size_t)count * sizeof run->progress[0]);
    if (!run) {
        run_alone(steps, count, scratch[0], cancelled);
        return;
    }
    run->steps = steps;
    run->cancelled = cancelled;
    run->count = count;
    run->threads = threads;
    for (int64_t i = 0; i < threads; i++)
        run->scratch[i] = scratch[i];
    for (int64_t i = 0; i < count; i++) {
        run->progress[i].units = steps[i].units;
        run->progress[i].grain = steps[i].grain;
    }
    atomic_store(&run->members, 1);
    atomic_store(&run->joined, 1);
    const struct processors processors = processors_of_caller();
    for (int64_t i = 1; i < threads; i++)
        invite(run, &processors);
    for (int64_t i = 0; i < count; i++)
        take_part(run, i);
    leave(run);
}

/* Steps to run, on at most `threads` threads, of which the caller is one; `scratch` has a space for each. */
struct chain {
    const struct step *steps;
    int64_t count;
    int64_t threads;
    void *const *scratch;
    const int32_t *cancelled;
};
_Static_assert(sizeof(struct chain) == 3 * sizeof(void *) + 16,
               "as anynpu/native/steps.py declares it");

/* Run a chain. Runs at the same time share the threads that one would have. Grains are positive. Once
 * `cancelled` isn't zero, what hasn't begun is left out. */
static void run_chain(const struct chain *chain) {
    const int64_t threads = chain->threads < MOST_THREADS ? chain->threads : MOST_THREADS;
    const int64_t others = atomic_fetch_add(&running, 1);
    run_together(chain->steps, chain->count, threads / (others + 1), chain->scratch,
                 chain->cancelled);
    atomic_fetch_sub(&running, 1);
}

#endif
