/* Preloaded: makes allocations of anynpu's own C, and mappings of shared memory, fail on demand. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

enum kind { NOTHING, ALLOCATIONS, MAPPINGS };

static atomic_int kind, calls, failing;

/* From now on the call number `number` of a kind fails; 0: none. Returns how many there were before. */
int fail(int which, int number) {
    const int before = atomic_exchange(&calls, 0);
    atomic_store(&failing, number);
    atomic_store(&kind, which);
    return before;
}

static int is_ours(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libanynpu_");
}

static int fails(enum kind which, const void *caller) {
    if (atomic_load(&kind) != (int)which || (which == ALLOCATIONS && !is_ours(caller)))
        return 0;
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&failing);
}

static void *without(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) {
    return fails(ALLOCATIONS, __builtin_return_address(0)) ? without() : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return fails(ALLOCATIONS, __builtin_return_address(0)) ? without() : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    return fails(ALLOCATIONS, __builtin_return_address(0)) ? without()
                                                           : __libc_realloc(memory, size);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    if (flags & MAP_SHARED && fails(MAPPINGS, NULL)) {
        without();
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}
