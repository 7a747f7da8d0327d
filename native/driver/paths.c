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
    if (is_misc &&
        (!strncmp(path, "/dev/dma_heap/", 14) || !strncmp(path, "/dev/rk_dma_heap/", 17)))
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

int is_device(int descriptor) {
    return device_of(descriptor) != NO_DEVICE;
}

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
EXPORT int __open_2(const char *path, int flags) {
    return open_at(AT_FDCWD, path, flags, 0);
}
EXPORT int __open64_2(const char *path, int flags) {
    return open_at(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

/* ----------------------------------------------------------------------- files that stand in */

/* The flags of open for a mode of fopen; -1: there is no such mode. */
static int flags_of(const char *mode) {
    int writes = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    int flags = mode[0] == 'r'   ? writes
                : mode[0] == 'w' ? writes | O_CREAT | O_TRUNC
                : mode[0] == 'a' ? writes | O_CREAT | O_APPEND
                                 : -1;
    if (flags < 0) {
        errno = EINVAL;
        return -1;
    }
    return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
}

static FILE *open_stream(const char *path, const char *mode, int more) {
    int flags = flags_of(mode);
    int descriptor = flags < 0 ? -1 : open_at(AT_FDCWD, path, flags | more, 0666);
    return descriptor < 0 ? NULL : fdopen(descriptor, mode);
}

EXPORT FILE *fopen(const char *path, const char *mode) {
    return open_stream(path, mode, 0);
}
EXPORT FILE *fopen64(const char *path, const char *mode) {
    return open_stream(path, mode, O_LARGEFILE);
}

EXPORT DIR *opendir(const char *path) {
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    char space[PATH_MAX];
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, stand_in(path, space), flags);
    return descriptor < 0 ? NULL : fdopendir(descriptor);
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

EXPORT int access(const char *path, int mode) {
    return accessible(path, mode);
}
EXPORT int euidaccess(const char *path, int mode) {
    return accessible(path, mode);
}

/* As root, libdrm makes the nodes that it doesn't find; those of this machine are left alone. */
static int refuse_change(const char *call, const char *path) {
    say("%s %s: refused", call, path);
    errno = EPERM;
    return -1;
}

#define CHANGES(name, parameters, ...)                                                             \
    EXPORT int name parameters {                                                                   \
        return is_hidden(path) ? refuse_change(#name, path) : (int)syscall(__VA_ARGS__);           \
    }

CHANGES(mknod, (const char *path, mode_t mode, dev_t device), SYS_mknodat, AT_FDCWD, path, mode,
        (unsigned)device)
CHANGES(unlink, (const char *path), SYS_unlinkat, AT_FDCWD, path, 0)
CHANGES(chmod, (const char *path, mode_t mode), SYS_fchmodat, AT_FDCWD, path, mode)
CHANGES(chown, (const char *path, uid_t user, gid_t group), SYS_fchownat, AT_FDCWD, path, user,
        group, 0)
CHANGES(mkdir, (const char *path, mode_t mode), SYS_mkdirat, AT_FDCWD, path, mode)

EXPORT int __xmknod(int version, const char *path, mode_t mode, dev_t *device) {
    (void)version;
    return mknod(path, mode, *device);
}

EXPORT int remove(const char *path) {
    int result = unlink(path);
    return result && errno == EISDIR ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
                                     : result;
}

EXPORT int uname(struct utsname *names) {
    int result = (int)syscall(SYS_uname, names);
    const char *machine = setting("MACHINE");
    if (result == 0 && machine)
        snprintf(names->machine, sizeof names->machine, "%s", machine);
    return result;
}

/* ---------------------------------------------------------------------------------- attributes */

#if defined(SYS_fstatat64) /* 32 bits */
#define SYS_STAT_AT SYS_fstatat64
#define SYS_STAT_OF SYS_fstat64
#else
#define SYS_STAT_AT SYS_newfstatat
#define SYS_STAT_OF SYS_fstat
#endif

/* A device's node; DRM's folder with NO_DEVICE. */
static int describe(enum device device, struct stat64 *result) {
    memset(result, 0, sizeof *result);
    result->st_mode = device == NO_DEVICE ? S_IFDIR | 0755 : S_IFCHR | 0666;
    result->st_nlink = 1;
    result->st_rdev = device == DRM_DEVICE    ? makedev(DRM_MAJOR, 1)
                      : device == MISC_DEVICE ? makedev(MISC_MAJOR, MISC_MINOR)
                                              : 0;
    return 0;
}

static int stat_at(const char *path, struct stat64 *result, int flags) {
    char space[PATH_MAX];
    enum device device = device_at(path);
    if (device != NO_DEVICE || (path && !strcmp(path, DRM_FOLDER)))
        return describe(device, result);
    if (is_hidden(path)) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_STAT_AT, AT_FDCWD, stand_in(path, space), result, flags);
}

static int stat_of(int descriptor, struct stat64 *result) {
    enum device device = device_of(descriptor);
    return device == NO_DEVICE ? (int)syscall(SYS_STAT_OF, descriptor, result)
                               : describe(device, result);
}

/* For callers whose sizes have 32 bits; elsewhere the two are the same. */
static int narrow(int status, const struct stat64 *found, struct stat *result) {
    if (status)
        return status;
    if ((int64_t)(off_t)found->st_size != (int64_t)found->st_size) {
        errno = EOVERFLOW;
        return -1;
    }
    memset(result, 0, sizeof *result);
    result->st_dev = found->st_dev;
    result->st_ino = (ino_t)found->st_ino;
    result->st_mode = found->st_mode;
    result->st_nlink = found->st_nlink;
    result->st_uid = found->st_uid;
    result->st_gid = found->st_gid;
    result->st_rdev = found->st_rdev;
    result->st_size = (off_t)found->st_size;
    result->st_blksize = found->st_blksize;
    result->st_blocks = (blkcnt_t)found->st_blocks;
    result->st_atim = found->st_atim;
    result->st_mtim = found->st_mtim;
    result->st_ctim = found->st_ctim;
    return 0;
}

/* Of each there are two: old programs call the one with a version. */
#define ATTRIBUTES(name, what, ...)                                                                \
    EXPORT int name##64(what, struct stat64 * result) {                                            \
        return __VA_ARGS__;                                                                        \
    }                                                                                              \
    EXPORT int name(what, struct stat *narrowed) {                                                 \
        struct stat64 found, *result = &found;                                                     \
        return narrow(__VA_ARGS__, &found, narrowed);                                              \
    }
#define OLD_ATTRIBUTES(name, what, ...)                                                            \
    EXPORT int name##64(int version, what, struct stat64 *result) {                                \
        (void)version;                                                                             \
        return __VA_ARGS__;                                                                        \
    }                                                                                              \
    EXPORT int name(int version, what, struct stat *narrowed) {                                    \
        struct stat64 found, *result = &found;                                                     \
        (void)version;                                                                             \
        return narrow(__VA_ARGS__, &found, narrowed);                                              \
    }

ATTRIBUTES(stat, const char *path, stat_at(path, result, 0))
ATTRIBUTES(lstat, const char *path, stat_at(path, result, AT_SYMLINK_NOFOLLOW))
ATTRIBUTES(fstat, int descriptor, stat_of(descriptor, result))
OLD_ATTRIBUTES(__xstat, const char *path, stat_at(path, result, 0))
OLD_ATTRIBUTES(__lxstat, const char *path, stat_at(path, result, AT_SYMLINK_NOFOLLOW))
OLD_ATTRIBUTES(__fxstat, int descriptor, stat_of(descriptor, result))
