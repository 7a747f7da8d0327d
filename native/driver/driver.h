/* A kernel driver for the NPU that lives in the process which calls it: load this library before
 * all others (LD_PRELOAD), and the NPU's device is there.
 *
 * interface.h  what the kernel's ioctls take
 * settings.c   what the environment says; the log; failures on demand
 * paths.c      the libc functions that take a path: the device's files, and files that stand in
 *              for those of a board
 * descriptors.c the libc functions that take a descriptor: ioctl, mmap, fstat
 * requests.c   DRM's requests and the NPU's
 * objects.c    memory that the NPU sees
 * engine.c     hands what is submitted to the process that computes it
 *
 * It calls the kernel directly where a libc function is one that it replaces, and otherwise only
 * such functions as the first glibc for an architecture had, so that it can be built with a newer
 * one than a board's.
 */
#ifndef ANYNPU_DRIVER_H
#define ANYNPU_DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "interface.h"

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096u

/* ------------------------------------------------------------------------------------ settings.c */

enum fault {
    FAULT_ACTION,
    FAULT_SUBMIT,
    FAULT_CREATE,
    FAULT_MAP,
    FAULT_DESTROY,
    FAULT_SYNC,
    FAULTS
};

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *setting(const char *name);
uint32_t number_setting(const char *name, uint32_t otherwise);

/* The errno that this call of a kind is to fail with, or 0; it counts the call. */
int demanded_failure(enum fault kind);

/* ------------------------------------------------------------------------------------- paths.c */

enum device { NO_DEVICE, DRM_DEVICE, MISC_DEVICE, HEAP_DEVICE, DEVICES };

/* Which device a descriptor is open on. */
enum device device_of(int descriptor);
int is_device(int descriptor);

/* ----------------------------------------------------------------------------------- objects.c */

struct object {
    int descriptor; /* of its memory */
    uint32_t references;
    uint32_t flags;
    uint32_t is_known; /* to the engine */
    uint64_t size;     /* whole pages; 0: the handle is free */
    uint64_t name;     /* the kernel's address */
    uint64_t address;  /* as the NPU sees it */
};

void lock_objects(void);
void unlock_objects(void);

/* With the objects locked. A handle is 1 or more; 0 says that there is none, and why in errno. */
uint32_t create_object(uint64_t size, uint32_t flags);
uint32_t import_object(int descriptor);
uint32_t find_object(uint64_t name);
struct object *object_of(uint32_t handle);
uint32_t handle_limit(void);
int drop_object(uint32_t handle);

/* ------------------------------------------------------------------------------------ engine.c */

/* Computes a job; an errno, or 0. Objects are not locked. */
int compute(struct rknpu_submit *job, uint32_t tasks);

/* The objects are locked. */
void forget_object(uint32_t handle);

/* ---------------------------------------------------------------------------------- requests.c */

int answer_request(enum device device, unsigned long request, void *argument);

#endif
