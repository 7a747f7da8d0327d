/* The libc functions that take a path: the device's files, and files that stand in for a board's.
 *
 * A file below the folder that the setting ROOT names stands in for the one of the same name below
 * /. DRM's device is card1 and renderD129: a board's display has the first ones.
 */
#include "driver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DRM_FOLDER "/dev/dri"
#define DRM_MAJOR 226
#define MISC_MAJOR 10
#define MISC_MINOR 59

#if defined(__arm__)
#define STAT_VERSION 3
#elif defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

/* Which device a path names on this board: the setting DEVICE says whether it has DRM's. */
static enum device device_at(const char *path) {
    const char *kind = setting("DEVICE");
    int is_misc = kind && strcmp(kind, "misc") == 0;
    if (!path)
        return NO_DEVICE;
    if (!strcmp(path, DRM_FOLDER "/card1") || !strcmp(path, DRM_FOLDER "/renderD129"))
        return is_misc ? NO_DEVICE : DRM_DEVICE;
    if (is_misc && !strcmp(path, "/dev/rknpu"))
        return MISC_DEVICE;
    if (is_misc && (!strncmp(path, "/dev/dma_heap/", 14) || !strncmp(path, "/dev/rk_dma_heap/", 17)))
        return HEAP_DEVICE;
    return NO_DEVICE;
}

/* Paths where this machine's own devices are not to be seen, nor changed. */
static int is_hidden(const char *path) {
    size_t length = strlen(DRM_FOLDER);
    if (!path)
        return 0;
    if (!strncmp(path, DRM_FOLDER, length) && (path[length] == '/' || !path[length]))
        return 1;
    return !strcmp(path, "/dev/rknpu");
}

static const char *stand_in(const char *path, char space[PATH_MAX]) {
    const char *root = setting("ROOT");
    if (!root || !path || path[0] != '/')
        return path;
    int length = snprintf(space, PATH_MAX, "%s%s", root, path);
    if (length < 0 || length >= PATH_MAX)
        return path;
    return syscall(SYS_faccessat, AT_FDCWD, space, F_OK) == 0 ? space : path;
}

/* --------------------------------------------------------------------------------- the devices */

static struct identity {
    uint64_t inode;
    uint32_t major, minor;
} identities[DEVICES];
static int originals[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int identify(int descriptor, struct identity *identity) {
    struct statx found;
    memset(&found, 0, sizeof found);
    if (syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH, STATX_INO, &found) != 0)
        return -1;
    *identity = (struct identity){found.stx_ino, found.stx_dev_major, found.stx_dev_minor};
    return 0;
}

enum device device_of(int descriptor) {
    struct identity found;
    int error = errno;
    enum device device = NO_DEVICE;
    if (descriptor >= 0 && identify(descriptor, &found) == 0)
        for (int known = DRM_DEVICE; known < DEVICES; known++)
            if (identities[known].inode == found.inode && identities[known].major == found.major &&
                identities[known].minor == found.minor && found.inode)
                device = (enum device)known;
    errno = error;
    return device;
}

int is_device(int descriptor) { return device_of(descriptor) != NO_DEVICE; }

/* Every descriptor of a device is of one file, by which it is known again. */
static int open_device(enum device device, const char *path, int flags) {
    pthread_mutex_lock(&lock);
    if (!identities[device].inode) {
        int original = (int)syscall(SYS_memfd_create, "rknpu-device", MFD_CLOEXEC);
        if (original >= 0 && identify(original, &identities[device]) == 0)
            originals[device] = original;
    }
    pthread_mutex_unlock(&lock);
    if (!identities[device].inode)
        return -1;
    int command = flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
    int descriptor = fcntl(originals[device], command, 0);
    say("open %s: descriptor %d", path, descriptor);
    return descriptor;
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    char space[PATH_MAX];
    enum device device = device_at(path);
    if (device != NO_DEVICE)
        return open_device(device, path, flags);
    if (is_hidden(path)) {
        say("open %s: no such device", path);
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_openat, folder, stand_in(path, space), flags, mode);
}

#define HAS_MODE(flags) (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE)
#define READ_MODE(mode, flags)                                                                     \
    mode_t mode = 0;                                                                               \
    if (HAS_MODE(flags)) {                                                                         \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = (mode_t)va_arg(rest, unsigned);                                                     \
        va_end(rest);                                                                              \
    }

EXPORT int open(const char *path, int flags, ...) {
    READ_MODE(mode, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...) {
    READ_MODE(mode, flags)
    return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

EXPORT int openat(int folder, const char *path, int flags, ...) {
    READ_MODE(mode, flags)
    return open_at(folder, path, flags, mode);
}

EXPORT int openat64(int folder, const char *path, int flags, ...) {
    READ_MODE(mode, flags)
    return open_at(folder, path, flags | O_LARGEFILE, mode);
}

/* What callers that are built with checks use in their place. */
EXPORT int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) {
    return open_at(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

/* ----------------------------------------------------------------------- files that stand in */

typedef FILE *open_file(const char *, const char *);

EXPORT FILE *fopen(const char *path, const char *mode) {
    char space[PATH_MAX];
    open_file *next = (open_file *)next_function("fopen");
    return next(stand_in(path, space), mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode) {
    char space[PATH_MAX];
    open_file *next = (open_file *)next_function("fopen64");
    return next(stand_in(path, space), mode);
}

EXPORT DIR *opendir(const char *path) {
    char space[PATH_MAX];
    DIR *(*next)(const char *) = (DIR * (*)(const char *)) next_function("opendir");
    return next(stand_in(path, space));
}

static int accessible(const char *path, int mode) {
    char space[PATH_MAX];
    if (device_at(path) != NO_DEVICE || (path && !strcmp(path, DRM_FOLDER)))
        return 0;
    if (is_hidden(path)) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_faccessat, AT_FDCWD, stand_in(path, space), mode);
}

EXPORT int access(const char *path, int mode) { return accessible(path, mode); }
EXPORT int euidaccess(const char *path, int mode) { return accessible(path, mode); }

/* As root, libdrm makes the nodes that it doesn't find; those of this machine are left alone. */
static int refuse_change(const char *call, const char *path) {
    say("%s %s: refused", call, path);
    errno = EPERM;
    return -1;
}

#define CHANGES(name, parameters, arguments)                                                       \
    EXPORT int name parameters {                                                                   \
        int(*next) parameters = (int(*) parameters)next_function(#name);                           \
        return is_hidden(path) ? refuse_change(#name, path) : next arguments;                      \
    }

CHANGES(mknod, (const char *path, mode_t mode, dev_t device), (path, mode, device))
CHANGES(__xmknod, (int version, const char *path, mode_t mode, dev_t *device),
        (version, path, mode, device))
CHANGES(remove, (const char *path), (path))
CHANGES(unlink, (const char *path), (path))
CHANGES(chmod, (const char *path, mode_t mode), (path, mode))
CHANGES(chown, (const char *path, uid_t user, gid_t group), (path, user, group))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode))

EXPORT int uname(struct utsname *names) {
    int result = (int)syscall(SYS_uname, names);
    const char *machine = setting("MACHINE");
    if (result == 0 && machine)
        snprintf(names->machine, sizeof names->machine, "%s", machine);
    return result;
}

/* ---------------------------------------------------------------------------------- attributes */

/* Functions of both names: old programs call __xstat with a version, new ones stat. */
static int next_stat(const char *name, const char *old, const char *path, void *result) {
    int (*next)(const char *, void *) = (int (*)(const char *, void *))next_function(name);
    if (next)
        return next(path, result);
    int (*versioned)(int, const char *, void *) =
        (int (*)(int, const char *, void *))next_function(old);
    return versioned(STAT_VERSION, path, result);
}

static int next_fstat(const char *name, const char *old, int descriptor, void *result) {
    int (*next)(int, void *) = (int (*)(int, void *))next_function(name);
    if (next)
        return next(descriptor, result);
    int (*versioned)(int, int, void *) = (int (*)(int, int, void *))next_function(old);
    return versioned(STAT_VERSION, descriptor, result);
}

/* The attributes of a device's node, of DRM's folder with device NO_DEVICE. */
#define DESCRIBE(result, device)                                                                   \
    do {                                                                                           \
        memset(result, 0, sizeof *(result));                                                       \
        (result)->st_mode = (device) == NO_DEVICE ? S_IFDIR | 0755 : S_IFCHR | 0666;               \
        (result)->st_nlink = 1;                                                                    \
        (result)->st_rdev = (device) == DRM_DEVICE    ? makedev(DRM_MAJOR, 1)                      \
                            : (device) == MISC_DEVICE ? makedev(MISC_MAJOR, MISC_MINOR)            \
                                                      : 0;                                         \
    } while (0)

#define STAT(name, old, type)                                                                      \
    static int name##_of(const char *path, type *result) {                                         \
        char space[PATH_MAX];                                                                      \
        enum device device = device_at(path);                                                      \
        if (device != NO_DEVICE || (path && !strcmp(path, DRM_FOLDER))) {                          \
            DESCRIBE(result, device);                                                              \
            return 0;                                                                              \
        }                                                                                          \
        if (is_hidden(path)) {                                                                     \
            errno = ENOENT;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
        return next_stat(#name, #old, stand_in(path, space), result);                              \
    }                                                                                              \
    EXPORT int name(const char *path, type *result) { return name##_of(path, result); }            \
    EXPORT int old(int version, const char *path, type *result) {                                  \
        (void)version;                                                                             \
        return name##_of(path, result);                                                            \
    }

#define FSTAT(name, old, type)                                                                     \
    static int name##_of(int descriptor, type *result) {                                           \
        enum device device = device_of(descriptor);                                                \
        if (device == NO_DEVICE)                                                                   \
            return next_fstat(#name, #old, descriptor, result);                                    \
        DESCRIBE(result, device);                                                                  \
        return 0;                                                                                  \
    }                                                                                              \
    EXPORT int name(int descriptor, type *result) { return name##_of(descriptor, result); }        \
    EXPORT int old(int version, int descriptor, type *result) {                                    \
        (void)version;                                                                             \
        return name##_of(descriptor, result);                                                      \
    }

STAT(stat, __xstat, struct stat)
STAT(stat64, __xstat64, struct stat64)
STAT(lstat, __lxstat, struct stat)
STAT(lstat64, __lxstat64, struct stat64)
FSTAT(fstat, __fxstat, struct stat)
FSTAT(fstat64, __fxstat64, struct stat64)
