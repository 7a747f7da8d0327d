/* Workers that run requests with no Python between them.
 *
 * A worker has a thread and, for each program, a list of steps: function pointers with integer
 * arguments, each a constant or one of the request's slots. A request names a program; any worker
 * it allows runs the program's steps on the request's slots, and stops at the first that doesn't
 * return 0. A request that finds no idle worker waits in one queue, in order. The pump knows no
 * vendor: the steps are calls of a vendor's library or kernels of ours.
 *
 * Every function may be called from any thread, and none calls back. The submitter owns a request's
 * memory and keeps it, and what its slots point to, until the request is done.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_ARGUMENTS 8
#define MAX_STEPS 32
#define MAX_SLOTS 8
#define MAX_WORKERS 1024
#define MASKED_WORKERS 64
#define ANY_WORKER UINT64_MAX
#define NO_PROGRAM UINT32_MAX
#define FOREVER INT64_MAX

/* Nanoseconds at most by which a submitter that has waited is ahead of completions: `stay_behind`. */
#define MOST_AHEAD 1000000
#define SHARE_AHEAD 4 /* of a request's time */

enum state { IDLE, WAITING, RUNNING, DONE, CANCELLED };
enum answer { ACCEPTED, FULL, CLOSED, FINISHED };

struct argument {
    uint64_t is_slot; /* value is a slot's number */
    uint64_t value;
};

struct step {
    uint64_t function; /* int32_t function(uintptr_t, ...) */
    uint32_t count;    /* of arguments */
    uint32_t is_entry; /* only when the worker ran another program before */
    struct argument arguments[MAX_ARGUMENTS];
};

struct request {
    /* The submitter's. */
    uint64_t slots[MAX_SLOTS];
    uint64_t workers; /* bit n: worker n may run it; ANY_WORKER: those beyond the bits too */
    uint32_t program;
    uint32_t is_reported; /* anynpu_pump_next gives it when it is done */
    uint32_t is_ordered;  /* counts in `order` */
    uint32_t is_urgent;   /* enters whatever waits already */
    /* The pump's, times in nanoseconds of the monotonic clock. */
    int32_t state;
    int32_t result; /* of the step that failed, else 0 */
    uint32_t step;  /* the step that failed, else the number of steps */
    uint32_t worker;
    uint64_t order; /* how many ordered requests were accepted before */
    int64_t submitted, started;
    int64_t ends[MAX_STEPS];
    struct request *next;
};

/* As anynpu/native/pump/ declares them. */
_Static_assert(sizeof(struct argument) == 16, "argument");
_Static_assert(sizeof(struct step) == 16 + MAX_ARGUMENTS * sizeof(struct argument), "step");
_Static_assert(offsetof(struct request, state) == MAX_SLOTS * 8 + 24, "the submitter's fields");
_Static_assert(offsetof(struct request, next) == MAX_SLOTS * 8 + 64 + MAX_STEPS * 8, "the pump's");

struct program {
    uint32_t count;      /* of a worker's steps */
    struct step steps[]; /* one worker's after the other's */
};

struct worker {
    struct pump *pump;
    pthread_t thread;
    pthread_cond_t wake;
    struct request *request; /* handed over to the thread */
    int is_busy;             /* runs a request, on its own thread or on a submitter's */
    uint32_t program;        /* the last that it ran to its end */
};

struct pump {
    pthread_mutex_t lock;
    pthread_cond_t space;     /* a request may be accepted */
    pthread_cond_t done;      /* a request is done */
    pthread_cond_t completed; /* a request is there for anynpu_pump_next */
    uint32_t count, started, program_count;
    struct program **programs;
    uint32_t capacity, waiting;             /* the queue's */
    uint32_t reported;                      /* requests to report that nobody confirmed yet */
    uint32_t most_unseen, unseen;           /* those of them that are done */
    struct request *first, *last;           /* the queue */
    struct request *first_done, *last_done; /* the completions */
    uint64_t *schedule;                     /* bit masks of workers, by ticket */
    uint32_t schedule_length;
    uint64_t tickets, order;
    int is_paced, is_closed;
    int64_t next_admission, mean_duration;
    uint32_t blocked; /* submitters that wait */
    int64_t let_in;   /* when the last one of them was */
    pid_t owner;
    struct worker workers[]; /* `count` of them */
};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t deadline_after(int64_t timeout) {
    return timeout < 0 ? FOREVER : now() + timeout;
}

/* Wait for a condition; 0 when the deadline has passed. */
static int wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline) {
    if (deadline == FOREVER)
        return !pthread_cond_wait(condition, lock);
    struct timespec time = {.tv_sec = (time_t)(deadline / 1000000000),
                            .tv_nsec = (long)(deadline % 1000000000)};
    return pthread_cond_timedwait(condition, lock, &time) != ETIMEDOUT;
}

/* -------------------------------------------------------------------------- running a request */

typedef uintptr_t word;

/* Functions of fewer or narrower integer arguments take them from the same registers. */
static int32_t call(uint64_t address, uint32_t count, const word *a) {
    void (*function)(void);
    word pointer = (word)address;
    memcpy(&function, &pointer, sizeof function);
    switch (count) {
    case 0: return ((int32_t (*)(void))function)();
    case 1: return ((int32_t (*)(word))function)(a[0]);
    case 2: return ((int32_t (*)(word, word))function)(a[0], a[1]);
    case 3: return ((int32_t (*)(word, word, word))function)(a[0], a[1], a[2]);
    case 4: return ((int32_t (*)(word, word, word, word))function)(a[0], a[1], a[2], a[3]);
    case 5:
        return ((int32_t (*)(word, word, word, word, word))function)(a[0], a[1], a[2], a[3], a[4]);
    case 6:
        return ((int32_t (*)(word, word, word, word, word, word))function)(a[0], a[1], a[2], a[3],
                                                                           a[4], a[5]);
    case 7:
        return ((int32_t (*)(word, word, word, word, word, word, word))function)(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    default:
        return ((int32_t (*)(word, word, word, word, word, word, word, word))function)(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    }
}

static int32_t run_step(const struct step *step, const struct request *request) {
    word arguments[MAX_ARGUMENTS];
    for (uint32_t i = 0; i < step->count; i++) {
        const struct argument *argument = &step->arguments[i];
        arguments[i] =
            (word)(argument->is_slot ? request->slots[argument->value] : argument->value);
    }
    return call(step->function, step->count, arguments);
}

/* The worker is the caller's alone; the lock is not held. */
static void run_request(struct worker *worker, const struct program *program,
                        struct request *request) {
    const struct step *steps = program->steps + program->count * request->worker;
    int enters = worker->program != request->program;
    worker->program = NO_PROGRAM;
    request->result = 0;
    request->started = now();
    for (request->step = 0; request->step < program->count; request->step++) {
        if (!steps[request->step].is_entry || enters)
            request->result = run_step(&steps[request->step], request);
        request->ends[request->step] = now();
        if (request->result)
            return;
    }
    worker->program = request->program;
}

/* ------------------------------------------------------------- with the lock: queue and workers */

static int allows(const struct request *request, const struct worker *worker) {
    ptrdiff_t number = worker - worker->pump->workers;
    if (number >= MASKED_WORKERS)
        return request->workers == ANY_WORKER;
    return request->workers >> number & 1;
}

static struct worker *idle_worker(struct pump *pump, const struct request *request) {
    for (uint32_t i = 0; i < pump->count; i++)
        if (!pump->workers[i].is_busy && allows(request, &pump->workers[i]))
            return &pump->workers[i];
    return NULL;
}

/* Take the request after `before` out of the queue (NULL: the first). */
static struct request *unlink_after(struct pump *pump, struct request *before) {
    struct request **link = before ? &before->next : &pump->first;
    struct request *request = *link;
    *link = request->next;
    if (pump->last == request)
        pump->last = before;
    request->next = NULL;
    pump->waiting--;
    pthread_cond_broadcast(&pump->space);
    return request;
}

static struct request *take_for(struct pump *pump, const struct worker *worker) {
    struct request *before = NULL;
    for (struct request *request = pump->first; request; before = request, request = request->next)
        if (allows(request, worker))
            return unlink_after(pump, before);
    return NULL;
}

static void report(struct pump *pump, struct request *request, enum state state) {
    request->state = state;
    if (request->is_reported) {
        pump->unseen++;
        request->next = NULL;
        *(pump->last_done ? &pump->last_done->next : &pump->first_done) = request;
        pump->last_done = request;
        pthread_cond_broadcast(&pump->completed);
    }
    pthread_cond_broadcast(&pump->done);
}

static void begin(struct worker *worker, struct request *request) {
    worker->is_busy = 1;
    request->state = RUNNING;
    request->worker = (uint32_t)(worker - worker->pump->workers);
}

static void hand_over(struct worker *worker, struct request *request) {
    begin(worker, request);
    worker->request = request;
    pthread_cond_signal(&worker->wake);
}

/* Run a request that was begun, on this thread. */
static void run_begun(struct worker *worker, struct request *request) {
    struct pump *pump = worker->pump;
    const struct program *program = pump->programs[request->program];
    pthread_mutex_unlock(&pump->lock);
    run_request(worker, program, request);
    pthread_mutex_lock(&pump->lock);
    uint32_t last = request->step < program->count ? request->step : program->count - 1;
    int64_t duration = request->ends[last] - request->started, mean = pump->mean_duration;
    pump->mean_duration = mean ? (mean * 19 + duration) / 20 : duration;
    worker->is_busy = 0;
    pthread_cond_broadcast(&pump->space);
    report(pump, request, DONE);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct pump *pump = worker->pump;
    pthread_mutex_lock(&pump->lock);
    for (;;) {
        /* Nothing in the queue is for an idle worker. */
        while (!worker->request && !(pump->is_closed && !worker->is_busy))
            pthread_cond_wait(&worker->wake, &pump->lock);
        struct request *request = worker->request;
        if (!request)
            break;
        worker->request = NULL;
        while (request) {
            run_begun(worker, request);
            request = take_for(pump, worker);
            if (request)
                begin(worker, request);
        }
    }
    pthread_mutex_unlock(&pump->lock);
    return NULL;
}

/* Give a worker that a submitter used its next request, or wake it to see the pump closed. */
static void release(struct worker *worker) {
    struct request *request = take_for(worker->pump, worker);
    if (request)
        hand_over(worker, request);
    else if (worker->pump->is_closed)
        pthread_cond_signal(&worker->wake);
}

/* ---------------------------------------------------------------------------------- admission */

static uint64_t next_workers(const struct pump *pump, const struct request *request) {
    if (!pump->schedule_length)
        return request->workers;
    return pump->schedule[pump->tickets % pump->schedule_length];
}

static int has_space(struct pump *pump, struct request *request) {
    if (request->is_urgent)
        return 1;
    if (request->is_reported && pump->unseen >= pump->most_unseen)
        return 0;
    return pump->waiting < pump->capacity || idle_worker(pump, request);
}

/* Wait until a request may enter, and let it in. */
static enum answer admit(struct pump *pump, struct request *request, int64_t timeout) {
    int64_t deadline = deadline_after(timeout);
    for (int has_waited = 0;; has_waited = 1) {
        if (pump->is_closed)
            return CLOSED;
        request->workers = next_workers(pump, request);
        int64_t until = deadline;
        if (has_space(pump, request)) {
            if (!pump->is_paced || request->is_urgent || now() >= pump->next_admission) {
                if (has_waited)
                    pump->let_in = now();
                break;
            }
            until = pump->next_admission < deadline ? pump->next_admission : deadline;
        }
        pump->blocked++;
        int is_over = !wait_until(&pump->space, &pump->lock, until) && now() >= deadline;
        pump->blocked--;
        if (is_over)
            return FULL;
    }
    pump->tickets++;
    if (request->is_ordered)
        request->order = pump->order++;
    if (request->is_reported)
        pump->reported++;
    request->submitted = now();
    request->next = NULL;
    if (pump->is_paced) {
        if (pump->next_admission < request->submitted)
            pump->next_admission = request->submitted;
        pump->next_admission += pump->mean_duration / pump->count;
    }
    return ACCEPTED;
}

static void enqueue(struct pump *pump, struct request *request) {
    request->state = WAITING;
    *(pump->last ? &pump->last->next : &pump->first) = request;
    pump->last = request;
    pump->waiting++;
}

static void start_or_enqueue(struct pump *pump, struct request *request) {
    struct worker *worker = idle_worker(pump, request);
    if (worker)
        hand_over(worker, request);
    else
        enqueue(pump, request);
}

static int is_finished(const struct request *request) {
    return request->state == DONE || request->state == CANCELLED;
}

/* -------------------------------------------------------------------------- exported functions */

/* Start `count` workers. `capacity` requests may wait; `most_unseen` may be done and unconfirmed.
 * NULL without memory or threads. */
EXPORT struct pump *anynpu_pump_new(uint32_t count, uint32_t capacity, uint32_t most_unseen) {
    if (!count || count > MAX_WORKERS)
        return NULL;
    struct pump *pump = calloc(1, sizeof *pump + count * sizeof *pump->workers);
    if (!pump)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pump->lock, NULL);
    pthread_cond_init(&pump->space, &monotonic);
    pthread_cond_init(&pump->done, &monotonic);
    pthread_cond_init(&pump->completed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pump->count = count;
    pump->capacity = capacity;
    pump->most_unseen = most_unseen;
    pump->owner = getpid();
    for (uint32_t i = 0; i < count; i++) {
        struct worker *worker = &pump->workers[i];
        worker->pump = pump;
        worker->program = NO_PROGRAM;
        pthread_cond_init(&worker->wake, NULL);
        if (pthread_create(&worker->thread, NULL, work, worker))
            break;
        pump->started++;
    }
    return pump;
}

/* How many threads there are: fewer than asked for where the system had no more. */
EXPORT uint32_t anynpu_pump_started(const struct pump *pump) {
    return pump->started;
}

/* Add a program: `steps` holds `count` steps for each worker, one worker's after the other's.
 * Returns its number, or -1. */
EXPORT int32_t anynpu_pump_add_program(struct pump *pump, const struct step *steps,
                                       uint32_t count) {
    if (!count || count > MAX_STEPS)
        return -1;
    size_t size = pump->count * count * sizeof *steps;
    struct program *program = malloc(sizeof *program + size);
    if (!program)
        return -1;
    program->count = count;
    memcpy(program->steps, steps, size);
    int32_t number = -1;
    pthread_mutex_lock(&pump->lock);
    size = (pump->program_count + 1) * sizeof *pump->programs;
    struct program **programs = realloc(pump->programs, size);
    if (programs) {
        number = (int32_t)pump->program_count++;
        programs[number] = program;
        pump->programs = programs;
    } else {
        free(program);
    }
    pthread_mutex_unlock(&pump->lock);
    return number;
}

/* Job number n may run on the workers of masks[n % count]; without a schedule on those it names. */
EXPORT int32_t anynpu_pump_set_schedule(struct pump *pump, const uint64_t *masks, uint32_t count) {
    uint64_t *copy = malloc(count * sizeof *copy);
    if (!copy)
        return -1;
    memcpy(copy, masks, count * sizeof *copy);
    pthread_mutex_lock(&pump->lock);
    free(pump->schedule);
    pump->schedule = copy;
    pump->schedule_length = count;
    pthread_mutex_unlock(&pump->lock);
    return 0;
}

/* Accept requests no faster than the workers can do them, by the mean of the last ones' times. */
EXPORT void anynpu_pump_set_pacing(struct pump *pump, int32_t is_paced) {
    pthread_mutex_lock(&pump->lock);
    pump->is_paced = is_paced;
    pthread_mutex_unlock(&pump->lock);
}

/* Let a request run as soon as a worker is free; `timeout` in nanoseconds, negative: no limit. */
EXPORT int32_t anynpu_pump_submit(struct pump *pump, struct request *request, int64_t timeout) {
    pthread_mutex_lock(&pump->lock);
    enum answer answer = admit(pump, request, timeout);
    if (answer == ACCEPTED)
        start_or_enqueue(pump, request);
    pthread_mutex_unlock(&pump->lock);
    return answer;
}

/* The same, and where a worker is idle the request runs on this thread: FINISHED, not ACCEPTED. */
EXPORT int32_t anynpu_pump_run(struct pump *pump, struct request *request, int64_t timeout) {
    pthread_mutex_lock(&pump->lock);
    enum answer answer = admit(pump, request, timeout);
    if (answer == ACCEPTED) {
        struct worker *worker = idle_worker(pump, request);
        if (worker) {
            begin(worker, request);
            run_begun(worker, request);
            release(worker);
            answer = FINISHED;
        } else {
            enqueue(pump, request);
        }
    }
    pthread_mutex_unlock(&pump->lock);
    return answer;
}

/* Wait until one of `count` requests is finished; returns its place, or -1 after the timeout. */
EXPORT int32_t anynpu_pump_wait(struct pump *pump, struct request *const *requests, uint32_t count,
                                int64_t timeout) {
    int64_t deadline = deadline_after(timeout);
    int32_t place = -1;
    pthread_mutex_lock(&pump->lock);
    do {
        for (uint32_t i = 0; i < count && place < 0; i++)
            if (is_finished(requests[i]))
                place = (int32_t)i;
    } while (place < 0 && wait_until(&pump->done, &pump->lock, deadline));
    pthread_mutex_unlock(&pump->lock);
    return place;
}

/* Whoever gets completions and a submitter that was let in both come back into Python. Where they ask for
 * its lock at the same time, a thread that computes may have it back after the first of them, and the
 * second one waits for two or three switch intervals: longer than a short queue lasts. A little later, it gets
 * the lock when the submitter lets go of it. */
static void stay_behind(struct pump *pump) {
    const int64_t part = pump->mean_duration / SHARE_AHEAD;
    const int64_t ahead = part < MOST_AHEAD ? part : MOST_AHEAD, latest = now() + ahead;
    while (pump->first_done && !pump->is_closed) {
        const int64_t until = pump->blocked ? latest : pump->let_in + ahead;
        if (now() >= (until < latest ? until : latest))
            return;
        wait_until(&pump->completed, &pump->lock, until < latest ? until : latest);
    }
}

/* The reported request that was done first, NULL after the timeout, or once the pump is closed and
 * all are given. */
EXPORT struct request *anynpu_pump_next(struct pump *pump, int64_t timeout) {
    int64_t deadline = deadline_after(timeout);
    pthread_mutex_lock(&pump->lock);
    while (!pump->first_done && !(pump->is_closed && !pump->reported) &&
           wait_until(&pump->completed, &pump->lock, deadline))
        ;
    if (timeout)
        stay_behind(pump);
    struct request *request = pump->first_done;
    if (request) {
        pump->first_done = request->next;
        if (!pump->first_done)
            pump->last_done = NULL;
        request->next = NULL;
    }
    pthread_mutex_unlock(&pump->lock);
    return request;
}

/* Confirm that `count` reported requests were dealt with. */
EXPORT void anynpu_pump_confirm(struct pump *pump, uint32_t count) {
    pthread_mutex_lock(&pump->lock);
    pump->unseen -= count;
    pump->reported -= count;
    pthread_cond_broadcast(&pump->space);
    pthread_cond_broadcast(&pump->completed);
    pthread_mutex_unlock(&pump->lock);
}

/* Take a request back that still waits; 1 if it did. A reported one is reported as cancelled. */
EXPORT int32_t anynpu_pump_cancel(struct pump *pump, struct request *request) {
    int32_t found = 0;
    pthread_mutex_lock(&pump->lock);
    struct request *before = NULL;
    for (struct request *each = pump->first; each && !found; before = each, each = each->next)
        if (each == request) {
            report(pump, unlink_after(pump, before), CANCELLED);
            found = 1;
            break;
        }
    pthread_mutex_unlock(&pump->lock);
    return found;
}

/* Accept nothing more. Requests that wait are still run, or cancelled where `cancels` says so.
 * In a process forked from the owner's there are no threads: it and the two below do nothing. */
EXPORT void anynpu_pump_close(struct pump *pump, int32_t cancels) {
    if (pump->owner != getpid())
        return;
    pthread_mutex_lock(&pump->lock);
    pump->is_closed = 1;
    while (cancels && pump->first)
        report(pump, unlink_after(pump, NULL), CANCELLED);
    pthread_cond_broadcast(&pump->space);
    pthread_cond_broadcast(&pump->completed);
    for (uint32_t i = 0; i < pump->count; i++)
        pthread_cond_signal(&pump->workers[i].wake);
    pthread_mutex_unlock(&pump->lock);
}

/* Wait for the threads of a closed pump, once. */
EXPORT void anynpu_pump_join(struct pump *pump) {
    if (pump->owner != getpid())
        return;
    for (; pump->started; pump->started--)
        pthread_join(pump->workers[pump->started - 1].thread, NULL);
}

/* Free a pump whose threads were joined; nobody is in one of its functions. */
EXPORT void anynpu_pump_free(struct pump *pump) {
    if (pump->owner != getpid())
        return;
    for (uint32_t i = 0; i < pump->count; i++)
        pthread_cond_destroy(&pump->workers[i].wake);
    for (uint32_t i = 0; i < pump->program_count; i++)
        free(pump->programs[i]);
    pthread_cond_destroy(&pump->space);
    pthread_cond_destroy(&pump->done);
    pthread_cond_destroy(&pump->completed);
    pthread_mutex_destroy(&pump->lock);
    free(pump->programs);
    free(pump->schedule);
    free(pump);
}
