/* The cores of a device that computes nothing: runs take a set time on one of them. */
#ifndef NULL_CORES_H
#define NULL_CORES_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_CORES 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long core_times[MAX_CORES];
static int core_count, busy[MAX_CORES], busy_count, busy_peak, is_held;

static int read_numbers(const char *name, const char *otherwise, long *numbers, int limit) {
    const char *text = getenv(name);
    int count = 0;
    for (text = text ? text : otherwise; *text && count < limit; count++) {
        char *end;
        numbers[count] = strtol(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    return count;
}

static int take_core(int mask) {
    for (;;) {
        for (int core = 0; core < core_count; core++)
            if (!busy[core] && (!mask || mask >> core & 1))
                return core;
        pthread_cond_wait(&changed, &lock);
    }
}

/* Occupy a core of the mask (0: any) for its time. */
static void run_on_core(int mask) {
    pthread_mutex_lock(&lock);
    int core = take_core(mask);
    busy[core] = 1;
    if (++busy_count > busy_peak)
        busy_peak = busy_count;
    pthread_mutex_unlock(&lock);
    /* A chip takes its time to the nanosecond; Linux rounds a thread's sleeps by 50 us. */
    prctl(PR_SET_TIMERSLACK, 1);
    struct timespec time = {core_times[core] / 1000000, core_times[core] % 1000000 * 1000};
    while (core_times[core] && nanosleep(&time, &time) && errno == EINTR)
        ;
    pthread_mutex_lock(&lock);
    while (is_held)
        pthread_cond_wait(&changed, &lock);
    busy[core] = 0;
    busy_count--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Let no run end until it is called with 0. */
EXPORT void null_device_hold(int holds) {
    pthread_mutex_lock(&lock);
    is_held = holds;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* The most cores that were busy at once since the last call. */
EXPORT int null_device_peak(void) {
    pthread_mutex_lock(&lock);
    int peak = busy_peak;
    busy_peak = busy_count;
    pthread_mutex_unlock(&lock);
    return peak;
}

static long requests_left;

static void *run_requests(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        long left = requests_left--;
        pthread_mutex_unlock(&lock);
        if (left <= 0)
            return NULL;
        run_on_core(0);
    }
}

/* Run requests with a thread for each core and nothing besides: what this machine's timers allow. */
EXPORT int null_device_saturate(long requests) {
    pthread_t threads[MAX_CORES];
    int started = 0;
    requests_left = requests;
    while (started < core_count && !pthread_create(&threads[started], NULL, run_requests, NULL))
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started;
}

#endif
