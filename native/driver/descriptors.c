/* The libc functions that take a descriptor of a device: ioctl and mmap. */
#include "driver.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DMA_BUFFER 'b'

static int answer(int descriptor, unsigned long request, void *argument) {
    enum device device = device_of(descriptor);
    if (device != NO_DEVICE)
        return answer_request(device, request, argument);
    if (_IOC_TYPE(request) == DMA_BUFFER) {
        /* Memory files stand in for DMA buffers, and have no caches to synchronise. */
        say("synchronise descriptor %d", descriptor);
        return 0;
    }
    return (int)syscall(SYS_ioctl, descriptor, request, argument);
}

EXPORT int ioctl(int descriptor, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return answer(descriptor, request, argument);
}

/* The same for callers of 32 bits with times of 64. */
EXPORT int __ioctl_time64(int descriptor, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return answer(descriptor, request, argument);
}

static void *map_file(void *where, size_t size, int protection, int flags, int descriptor,
                      int64_t offset) {
#ifdef SYS_mmap2
    if (offset % PAGE) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap2, where, size, protection, flags, descriptor, offset / PAGE);
#else
    return (void *)syscall(SYS_mmap, where, size, protection, flags, descriptor, offset);
#endif
}

/* What a device's offset stands for is told by requests.c: an object's handle, in pages. */
static void *map(void *where, size_t size, int protection, int flags, int descriptor,
                 int64_t offset) {
    if ((flags & MAP_ANONYMOUS) || !is_device(descriptor))
        return map_file(where, size, protection, flags, descriptor, offset);
    lock_objects();
    struct object *object = object_of((uint32_t)((uint64_t)offset / PAGE));
    int memory = object && size <= object->size ? object->descriptor : -1;
    void *mapped = MAP_FAILED;
    if (memory >= 0)
        mapped = map_file(where, size, protection, flags, memory, 0);
    else
        errno = EINVAL;
    unlock_objects();
    say("map offset %llx, %zu bytes: %p", (long long)offset, size, mapped);
    return mapped;
}

EXPORT void *mmap64(void *where, size_t size, int protection, int flags, int descriptor,
                    off64_t offset) {
    return map(where, size, protection, flags, descriptor, offset);
}

EXPORT void *mmap(void *where, size_t size, int protection, int flags, int descriptor,
                  off_t offset) {
    /* Where offsets have 32 bits they are positive all the same. */
    int64_t whole = sizeof offset == 4 ? (int64_t)(uint32_t)offset : (int64_t)offset;
    return map(where, size, protection, flags, descriptor, whole);
}
