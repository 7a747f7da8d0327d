/* DRM's requests and the NPU's.
 *
 * An argument is copied in and out by the kernel, so that a wrong pointer is EFAULT here as well
 * and no crash. What a shorter structure of an older runtime leaves out counts as zero.
 */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRM_TYPE 'd'
#define MISC_TYPE 'r'
#define HEAP_TYPE 'H'
#define DRIVER_NAME "rknpu"
#define DRIVER_DATE "20240828"
#define DRIVER_DESCRIPTION "RKNPU driver"

#define RK3588_HARDWARE 0x46495245u
#define USUAL_DRIVER 908u /* 0.9.8 */
#define HERTZ 1000000000u
#define MICROVOLTS 800000u

/* ----------------------------------------------------------------------------- copy in and out */

/* Bytes from a caller's address, or to it, by way of a file: the kernel sees whether the address
   may be used. */
static int copy(const void *from, void *to, size_t size) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int file = -1;
    pthread_mutex_lock(&lock);
    if (file < 0)
        file = (int)syscall(SYS_memfd_create, "rknpu-argument", MFD_CLOEXEC);
    int is_done = pwrite64(file, from, size, 0) == (ssize_t)size &&
                  pread64(file, to, size, 0) == (ssize_t)size;
    pthread_mutex_unlock(&lock);
    if (is_done)
        return 0;
    errno = EFAULT;
    return -1;
}

static int copy_in(void *to, size_t size, const void *argument, unsigned long request) {
    size_t given = _IOC_SIZE(request);
    memset(to, 0, size);
    return copy(argument, to, given < size ? given : size);
}

static int copy_out(void *argument, const void *from, size_t size, unsigned long request) {
    size_t given = _IOC_SIZE(request);
    return copy(from, argument, given < size ? given : size);
}

/* ---------------------------------------------------------------------------------- NPU's own */

static int set_value(struct rknpu_action *action) {
    switch (action->kind) {
    case GET_HARDWARE_VERSION:
        action->value = number_setting("HARDWARE", RK3588_HARDWARE);
        return 0;
    case GET_DRIVER_VERSION: action->value = number_setting("VERSION", USUAL_DRIVER); return 0;
    case GET_FREQUENCY: action->value = HERTZ; return 0;
    case GET_VOLTAGE: action->value = MICROVOLTS; return 0;
    case GET_IOMMU: action->value = number_setting("IOMMU", 1); return 0;
    case GET_SRAM_SIZE:
    case GET_SRAM_FREE: action->value = number_setting("SRAM", 0); return 0;
    case GET_BANDWIDTH_PRIORITY:
    case GET_BANDWIDTH_EXPECTED:
    case GET_BANDWIDTH_WINDOW:
    case GET_AMOUNT_WRITTEN:
    case GET_AMOUNT_READ:
    case GET_WEIGHTS_READ:
    case GET_AMOUNT: action->value = 0; return 0;
    case SET_FREQUENCY:
    case SET_VOLTAGE:
    case RESET:
    case SET_BANDWIDTH_PRIORITY:
    case SET_BANDWIDTH_EXPECTED:
    case SET_BANDWIDTH_WINDOW:
    case CLEAR_AMOUNTS:
    case SET_NICENESS:
    case POWER_ON:
    case POWER_OFF: return 0;
    }
    return -1;
}

static const char *action_name(uint32_t kind) {
    static const char *const names[] = {
        [GET_HARDWARE_VERSION] = "hardware version",
        [GET_DRIVER_VERSION] = "driver version",
        [GET_FREQUENCY] = "frequency",
        [SET_FREQUENCY] = "set the frequency",
        [GET_VOLTAGE] = "voltage",
        [SET_VOLTAGE] = "set the voltage",
        [RESET] = "reset",
        [CLEAR_AMOUNTS] = "clear the amounts",
        [GET_AMOUNT_WRITTEN] = "amount written",
        [GET_AMOUNT_READ] = "amount read",
        [GET_WEIGHTS_READ] = "weights read",
        [GET_AMOUNT] = "amount moved",
        [GET_IOMMU] = "IOMMU",
        [SET_NICENESS] = "set the niceness",
        [POWER_ON] = "power on",
        [POWER_OFF] = "power off",
        [GET_SRAM_SIZE] = "on-chip memory",
        [GET_SRAM_FREE] = "on-chip memory, free",
    };
    const char *name = kind < sizeof names / sizeof *names ? names[kind] : NULL;
    return name ? name : "";
}

static int act(void *argument, unsigned long request) {
    struct rknpu_action action;
    if (copy_in(&action, sizeof action, argument, request))
        return -1;
    uint32_t given = action.value;
    int result = set_value(&action);
    say("action %u (%s), value %#x: %s %#x", action.kind, action_name(action.kind), given,
        result ? "unknown" : "value", action.value);
    if (result) {
        errno = EINVAL;
        return -1;
    }
    return copy_out(argument, &action, sizeof action, request);
}

/* On DRM's device a handle that is there already is found again; at /dev/rknpu it is the
   descriptor of a buffer. */
static int create(enum device device, void *argument, unsigned long request) {
    struct rknpu_create create;
    if (copy_in(&create, sizeof create, argument, request))
        return -1;
    lock_objects();
    uint32_t handle = create.handle;
    if (device == MISC_DEVICE && handle)
        handle = import_object((int)handle);
    else if (!object_of(handle))
        handle = create_object(create.size, create.flags);
    struct object *object = object_of(handle);
    if (object) {
        create.handle = handle;
        create.size = object->size;
        create.object = object->name;
        create.address = object->address;
        create.sram_size = 0;
    }
    int error = errno;
    unlock_objects();
    if (!object) {
        say("create %llu bytes: %s", (long long)create.size, strerror(error));
        errno = error;
        return -1;
    }
    say("create %llu bytes, flags %#x: handle %u at %#llx", (long long)create.size, create.flags,
        handle, (long long)create.address);
    return copy_out(argument, &create, sizeof create, request);
}

static int map_object(void *argument, unsigned long request) {
    struct rknpu_map map;
    if (copy_in(&map, sizeof map, argument, request))
        return -1;
    lock_objects();
    int is_there = object_of(map.handle) != NULL;
    unlock_objects();
    if (!is_there) {
        say("map handle %u: not there", map.handle);
        errno = EINVAL;
        return -1;
    }
    map.offset = (uint64_t)map.handle * PAGE;
    return copy_out(argument, &map, sizeof map, request);
}

static int destroy(void *argument, unsigned long request) {
    struct rknpu_destroy destroy;
    if (copy_in(&destroy, sizeof destroy, argument, request))
        return -1;
    lock_objects();
    uint32_t handle = destroy.handle ? destroy.handle : find_object(destroy.object);
    int result = drop_object(handle);
    unlock_objects();
    say("destroy handle %u: %s", handle, result ? "not there" : "done");
    return result;
}

static int synchronise(void *argument, unsigned long request) {
    struct rknpu_sync sync;
    if (copy_in(&sync, sizeof sync, argument, request))
        return -1;
    lock_objects();
    uint32_t handle = find_object(sync.object);
    unlock_objects();
    say("synchronise handle %u, flags %u, %llu bytes from %llu", handle, sync.flags,
        (long long)sync.size, (long long)sync.offset);
    if (!handle) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

/* A fence that was signalled already: jobs are done when they were submitted. */
static int passed_fence(void) {
    return (int)syscall(SYS_memfd_create, "rknpu-fence", MFD_CLOEXEC);
}

static int submit(void *argument, unsigned long request) {
    struct rknpu_submit job;
    if (copy_in(&job, sizeof job, argument, request))
        return -1;
    lock_objects();
    uint32_t tasks = find_object(job.task_object);
    unlock_objects();
    say("submit flags %#x, timeout %u, tasks %u+%u of handle %u, cores %#x, priority %d, fence %d",
        job.flags, job.timeout, job.task_start, job.task_number, tasks, job.core_mask, job.priority,
        job.fence);
    for (int list = 0; list < SUB_LISTS; list++)
        if (job.lists[list].number)
            say("  list %d: %u+%u", list, job.lists[list].start, job.lists[list].number);
    int error = tasks ? compute(&job, tasks) : EINVAL;
    if (error) {
        say("submit: %s", strerror(error));
        errno = error;
        return -1;
    }
    job.task_counter = job.task_number;
    if (job.flags & SUBMIT_FENCE_OUT)
        job.fence = passed_fence();
    return copy_out(argument, &job, sizeof job, request);
}

static int answer_npu(enum device device, unsigned kind, unsigned long request, void *argument) {
    static const enum fault faults[] = {
        [RKNPU_ACTION] = FAULT_ACTION,   [RKNPU_SUBMIT] = FAULT_SUBMIT,
        [RKNPU_CREATE] = FAULT_CREATE,   [RKNPU_MAP] = FAULT_MAP,
        [RKNPU_DESTROY] = FAULT_DESTROY, [RKNPU_SYNC] = FAULT_SYNC,
    };
    int error = kind <= RKNPU_SYNC ? demanded_failure(faults[kind]) : EINVAL;
    if (!error)
        switch (kind) {
        case RKNPU_ACTION: return act(argument, request);
        case RKNPU_SUBMIT: return submit(argument, request);
        case RKNPU_CREATE: return create(device, argument, request);
        case RKNPU_MAP: return map_object(argument, request);
        case RKNPU_DESTROY: return destroy(argument, request);
        case RKNPU_SYNC: return synchronise(argument, request);
        }
    if (kind > RKNPU_SYNC)
        say("request %#lx of the NPU is not known", request);
    errno = error;
    return -1;
}

/* --------------------------------------------------------------------------------------- DRM's */

static int give_text(const char *text, char *to, size_t *length) {
    size_t given = *length, whole = strlen(text);
    *length = whole;
    return to && given ? copy(text, to, given < whole ? given : whole) : 0;
}

static int tell_version(void *argument, unsigned long request) {
    struct drm_version version;
    if (copy_in(&version, sizeof version, argument, request))
        return -1;
    uint32_t number = number_setting("VERSION", USUAL_DRIVER);
    version.major = (int)(number / 10000);
    version.minor = (int)(number / 100 % 100);
    version.patch = (int)(number % 100);
    if (give_text(DRIVER_NAME, version.name, &version.name_length) ||
        give_text(DRIVER_DATE, version.date, &version.date_length) ||
        give_text(DRIVER_DESCRIPTION, version.description, &version.description_length))
        return -1;
    return copy_out(argument, &version, sizeof version, request);
}

static int tell_unique(void *argument, unsigned long request) {
    struct drm_unique unique;
    if (copy_in(&unique, sizeof unique, argument, request))
        return -1;
    unique.length = 0;
    return copy_out(argument, &unique, sizeof unique, request);
}

static int missing(void) {
    errno = ENOENT;
    return -1;
}

static int name_object(unsigned kind, void *argument, unsigned long request) {
    struct drm_name name;
    if (copy_in(&name, sizeof name, argument, request))
        return -1;
    /* A name is the handle, which the other request takes in its first place. */
    lock_objects();
    struct object *object = object_of(name.handle);
    name.name = name.handle;
    if (object && kind == DRM_GEM_OPEN) {
        object->references++;
        name.size = object->size;
    }
    unlock_objects();
    say("%s %u", kind == DRM_GEM_OPEN ? "open name" : "name handle", name.handle);
    return object ? copy_out(argument, &name, sizeof name, request) : missing();
}

static int export_object(void *argument, unsigned long request) {
    struct drm_prime prime;
    if (copy_in(&prime, sizeof prime, argument, request))
        return -1;
    lock_objects();
    struct object *object = object_of(prime.handle);
    int command = prime.flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
    prime.descriptor = object ? fcntl(object->descriptor, command, 0) : -1;
    unlock_objects();
    say("export handle %u: descriptor %d", prime.handle, prime.descriptor);
    return prime.descriptor < 0 ? missing() : copy_out(argument, &prime, sizeof prime, request);
}

static int import_descriptor(void *argument, unsigned long request) {
    struct drm_prime prime;
    if (copy_in(&prime, sizeof prime, argument, request))
        return -1;
    lock_objects();
    prime.handle = import_object(prime.descriptor);
    int error = errno;
    unlock_objects();
    say("import descriptor %d: handle %u", prime.descriptor, prime.handle);
    errno = error;
    return prime.handle ? copy_out(argument, &prime, sizeof prime, request) : -1;
}

static int close_handle(void *argument, unsigned long request) {
    struct drm_handle handle;
    if (copy_in(&handle, sizeof handle, argument, request))
        return -1;
    lock_objects();
    int result = drop_object(handle.handle);
    unlock_objects();
    say("close handle %u", handle.handle);
    return result;
}

static int answer_drm(unsigned kind, unsigned long request, void *argument) {
    switch (kind) {
    case DRM_VERSION: return tell_version(argument, request);
    case DRM_GET_UNIQUE: return tell_unique(argument, request);
    case DRM_GEM_CLOSE: return close_handle(argument, request);
    case DRM_GEM_FLINK:
    case DRM_GEM_OPEN: return name_object(kind, argument, request);
    case DRM_HANDLE_TO_FD: return export_object(argument, request);
    case DRM_FD_TO_HANDLE: return import_descriptor(argument, request);
    }
    say("request %#lx of DRM is not known", request);
    errno = EINVAL;
    return -1;
}

/* ---------------------------------------------------------------------------------- DMA heaps' */

static int allocate(void *argument, unsigned long request) {
    struct heap_allocation allocation;
    if (copy_in(&allocation, sizeof allocation, argument, request))
        return -1;
    uint64_t size = (allocation.size + PAGE - 1) / PAGE * PAGE;
    unsigned flags = allocation.descriptor_flags & O_CLOEXEC ? MFD_CLOEXEC : 0;
    int descriptor = (int)syscall(SYS_memfd_create, "rknpu-heap", flags | MFD_ALLOW_SEALING);
    if (descriptor < 0 || !size || size > UINT32_MAX || ftruncate64(descriptor, (off64_t)size)) {
        if (descriptor >= 0)
            syscall(SYS_close, descriptor);
        errno = size ? ENOMEM : EINVAL;
        return -1;
    }
    allocation.descriptor = (uint32_t)descriptor;
    say("allocate %llu bytes: descriptor %d", (long long)allocation.size, descriptor);
    return copy_out(argument, &allocation, sizeof allocation, request);
}

int answer_request(enum device device, unsigned long request, void *argument) {
    unsigned type = _IOC_TYPE(request), kind = _IOC_NR(request);
    if (device == HEAP_DEVICE && type == HEAP_TYPE && kind == HEAP_ALLOCATE)
        return allocate(argument, request);
    if (device == MISC_DEVICE && type == MISC_TYPE)
        return answer_npu(device, kind, request, argument);
    if (device == DRM_DEVICE && type == DRM_TYPE)
        return kind >= DRM_COMMAND_BASE
                   ? answer_npu(device, kind - DRM_COMMAND_BASE, request, argument)
                   : answer_drm(kind, request, argument);
    say("request %#lx is not known", request);
    errno = ENOTTY;
    return -1;
}
