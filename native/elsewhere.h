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
#include <stddef.h>

#if defined(__GLIBC__) && !defined(__UCLIBC__)
struct processors {
    cpu_set_t
        others; /* the caller's without the one that it is on, or that one where it has no other */
    bool are_known;
};

static struct processors processors_of_caller(void) {
    struct processors p = {.are_known = false};
    cpu_set_t allowed;
    const int own = sched_getcpu();
    if (own < 0 || own >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed))
        return p;
    p.others = allowed;
    CPU_CLR(own, &p.others);
    if (!CPU_COUNT(&p.others))
        p.others = allowed;
    p.are_known = true;
    return p;
}

/* For a thread that is to be created. One that runs may have ended when it is sent, and then its creator would be
 * sent in its place. */
static void begin_elsewhere(const struct processors *p, pthread_attr_t *attributes) {
    if (p->are_known)
        pthread_attr_setaffinity_np(attributes, sizeof p->others, &p->others);
}

/* For a thread that can't end meanwhile. */
static void send_elsewhere(const struct processors *p, pthread_t thread) {
    if (p->are_known)
        pthread_setaffinity_np(thread, sizeof p->others, &p->others);
}

/* Whether threads that were sent by one are where the other sends them. */
static bool are_same(const struct processors *one, const struct processors *other) {
    return one->are_known == other->are_known &&
           (!one->are_known || CPU_EQUAL(&one->others, &other->others));
}
#else
struct processors {
    bool are_known;
};

static struct processors processors_of_caller(void) {
    return (struct processors){.are_known = false};
}

static void begin_elsewhere(const struct processors *p, pthread_attr_t *attributes) {
    (void)p;
    (void)attributes;
}

static void send_elsewhere(const struct processors *p, pthread_t thread) {
    (void)p;
    (void)thread;
}

static bool are_same(const struct processors *one, const struct processors *other) {
    return one->are_known == other->are_known;
}
#endif

#endif
