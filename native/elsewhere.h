/* Threads that begin on other processors than their creator's.
 *
 * After a pause of some milliseconds Linux often puts a new thread on its creator's own processor, also
 * where others are idle; it then begins when the creator has done the work. Include it first: it needs
 * what only _GNU_SOURCE declares.
 */
#ifndef ANYNPU_ELSEWHERE_H
#define ANYNPU_ELSEWHERE_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE"
#endif
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#if defined(__linux__) && !defined(__ANDROID__)
struct processors {
    cpu_set_t allowed; /* the caller's */
    cpu_set_t others;  /* those without the one that it is on */
    bool are_known;    /* and there are others */
};

static struct processors processors_of_caller(void) {
    struct processors p = {.are_known = false};
    const int own = sched_getcpu();
    if (own < 0 || own >= CPU_SETSIZE || sched_getaffinity(0, sizeof p.allowed, &p.allowed))
        return p;
    p.others = p.allowed;
    CPU_CLR(own, &p.others);
    p.are_known = CPU_COUNT(&p.others) > 0;
    return p;
}

/* For a thread that isn't detached yet, nor joined. */
static void send_elsewhere(const struct processors *p, pthread_t thread) {
    if (p->are_known)
        pthread_setaffinity_np(thread, sizeof p->others, &p->others);
}

/* Once the caller has nothing left to do, a thread may have its processor, too. */
__attribute__((unused)) static void let_anywhere(const struct processors *p, pthread_t thread) {
    if (p->are_known)
        pthread_setaffinity_np(thread, sizeof p->allowed, &p->allowed);
}
#else
struct processors {
    bool are_known;
};

static struct processors processors_of_caller(void) {
    return (struct processors){.are_known = false};
}

static void send_elsewhere(const struct processors *p, pthread_t thread) {
    (void)p;
    (void)thread;
}

__attribute__((unused)) static void let_anywhere(const struct processors *p, pthread_t thread) {
    (void)p;
    (void)thread;
}
#endif

#endif
