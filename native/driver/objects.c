/* Memory that the NPU sees: each object is a memory file with an address of 32 bits.
 *
 * Handles are the process's, not a descriptor's as the kernel has them. What a program doesn't
 * destroy lives as long as the process.
 */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIGHEST_ADDRESS 0xffff0000u
#define LOWEST_ADDRESS 0x1000u
#define MOST_HANDLES 65536u
#define NAMES 0xffffff8100000000ull
#define NAME_DISTANCE 0x400u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects; /* by handle; 0 is none */
static uint32_t limit;         /* one behind the highest handle that there was */
static uint32_t space;
static uint32_t *by_address; /* handles, the highest address first */
static uint32_t count;

void lock_objects(void) {
    pthread_mutex_lock(&lock);
}
void unlock_objects(void) {
    pthread_mutex_unlock(&lock);
}

uint32_t handle_limit(void) {
    return limit;
}

struct object *object_of(uint32_t handle) {
    return handle > 0 && handle < limit && objects[handle].size ? &objects[handle] : NULL;
}

static uint32_t free_handle(void) {
    for (uint32_t handle = 1; handle < limit; handle++)
        if (!objects[handle].size)
            return handle;
    uint32_t handle = limit ? limit : 1;
    if (handle >= MOST_HANDLES)
        return 0;
    if (handle >= space) {
        uint32_t wanted = space ? 2 * space : 64;
        struct object *moved = realloc(objects, wanted * sizeof *moved);
        objects = moved ? moved : objects;
        uint32_t *order = realloc(by_address, wanted * sizeof *order);
        by_address = order ? order : by_address;
        if (!moved || !order)
            return 0;
        memset(objects + space, 0, (wanted - space) * sizeof *objects);
        space = wanted;
    }
    limit = handle + 1;
    return handle;
}

/* The highest place that is free, as the kernel allocates; 0: there is none. `place` becomes where
   an object there stands among the others by their addresses. */
static uint64_t free_address(uint64_t size, uint32_t *place) {
    uint64_t end = HIGHEST_ADDRESS;
    for (*place = 0; *place < count; ++*place) {
        const struct object *next = &objects[by_address[*place]];
        if (next->address + next->size + size <= end)
            break;
        end = next->address;
    }
    return end >= size + LOWEST_ADDRESS ? end - size : 0;
}

static void insert(uint32_t place, uint32_t handle) {
    memmove(by_address + place + 1, by_address + place, (count - place) * sizeof *by_address);
    by_address[place] = handle;
    count++;
}

static void take_out(uint32_t handle) {
    uint32_t place = 0;
    while (by_address[place] != handle)
        place++;
    count--;
    memmove(by_address + place, by_address + place + 1, (count - place) * sizeof *by_address);
}

/* Takes over the descriptor. */
static uint32_t add_object(int descriptor, uint64_t size, uint32_t flags) {
    uint32_t place;
    uint64_t address = size ? free_address(size, &place) : 0;
    uint32_t handle = address ? free_handle() : 0;
    if (!handle) {
        syscall(SYS_close, descriptor);
        errno = size ? ENOMEM : EINVAL;
        return 0;
    }
    objects[handle] = (struct object){
        .descriptor = descriptor,
        .references = 1,
        .flags = flags,
        .size = size,
        .name = NAMES + (uint64_t)handle * NAME_DISTANCE,
        .address = address,
    };
    insert(place, handle);
    return handle;
}

uint32_t create_object(uint64_t size, uint32_t flags) {
    uint64_t whole = size + (PAGE - 1);
    whole = whole < size ? 0 : whole / PAGE * PAGE;
    if (!whole) {
        errno = EINVAL;
        return 0;
    }
    unsigned how = MFD_CLOEXEC | MFD_ALLOW_SEALING; /* the engine maps it: it must not shrink */
    int descriptor = (int)syscall(SYS_memfd_create, "rknpu-memory", how);
    if (descriptor < 0)
        return 0;
    if (whole > HIGHEST_ADDRESS || ftruncate64(descriptor, (off64_t)whole) != 0) {
        syscall(SYS_close, descriptor);
        errno = ENOMEM;
        return 0;
    }
    return add_object(descriptor, whole, flags);
}

/* The object whose memory a descriptor is of, which gets one more reference; else a new one. */
uint32_t import_object(int descriptor) {
    struct stat64 wanted, other;
    if (fstat64(descriptor, &wanted) != 0)
        return 0;
    for (uint32_t handle = 1; handle < limit; handle++) {
        struct object *known = object_of(handle);
        if (known && fstat64(known->descriptor, &other) == 0 && other.st_ino == wanted.st_ino &&
            other.st_dev == wanted.st_dev) {
            known->references++;
            return handle;
        }
    }
    if (!S_ISREG(wanted.st_mode) || wanted.st_size <= 0) {
        errno = EINVAL;
        return 0;
    }
    int copy = (int)fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return 0;
    uint64_t size = ((uint64_t)wanted.st_size + PAGE - 1) / PAGE * PAGE;
    return add_object(copy, size, 0);
}

uint32_t find_object(uint64_t name) {
    uint64_t handle = name >= NAMES ? (name - NAMES) / NAME_DISTANCE : 0;
    const struct object *found = handle < MOST_HANDLES ? object_of((uint32_t)handle) : NULL;
    return found && found->name == name ? (uint32_t)handle : 0;
}

int drop_object(uint32_t handle) {
    struct object *object = object_of(handle);
    if (!object) {
        errno = EINVAL;
        return -1;
    }
    if (--object->references)
        return 0;
    forget_object(handle);
    take_out(handle);
    syscall(SYS_close, object->descriptor);
    memset(object, 0, sizeof *object);
    return 0;
}
