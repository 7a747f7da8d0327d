/* Memory: sizes, descriptors and addresses from outside, who destroys it and when. */
#define _GNU_SOURCE
#include "walk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define ELSEWHERE 65536

static rknn_context context;

static void create_sizes(void) {
    static const uint32_t sizes[] = {0,    1,    63,   64,       4095,      4096,
                                     4097, 5000, LARGE, 64 << 20, INT32_MAX, 0x80000000u,
                                     UINT32_MAX};
    for (size_t place = 0; place < sizeof sizes / sizeof *sizes; place++) {
        uint32_t size = sizes[place];
        rknn_tensor_mem *memory = NULL;
        if (!announce("rknn_create_mem %u", size))
            continue;
        memory = rknn_create_mem(context, size);
        answer(memory != NULL);
        note_memory("memory", memory);
        if (!memory)
            continue;
        if (memory->virt_addr && size && size <= LARGE) {
            uint8_t *bytes = memory->virt_addr, sum = 0;
            for (uint32_t byte = 0; byte < size; byte++)
                sum |= bytes[byte];
            note("the content is %s", sum ? "not zero" : "zero");
            bytes[0] = bytes[size - 1] = 1;
        }
        CALL(rknn_destroy_mem(context, memory), "rknn_destroy_mem of %u", size);
    }
    CALL(rknn_destroy_mem(context, NULL), "rknn_destroy_mem NULL");
}

static void from_descriptors(void) {
    int descriptor = memfd_create("elsewhere", 0);
    if (descriptor < 0 || ftruncate(descriptor, ELSEWHERE))
        exit(3);
    void *mapped = mmap(NULL, ELSEWHERE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    const struct {
        int descriptor;
        void *address;
        uint32_t size;
        int offset;
        const char *name;
    } ways[] = {
        {descriptor, mapped, ELSEWHERE, 0, "right"},
        {descriptor, NULL, ELSEWHERE, 0, "virt_addr NULL"},
        {descriptor, mapped, 4096, 4096, "offset 4096"},
        {descriptor, mapped, 4096, 100, "offset 100"},
        {descriptor, mapped, ELSEWHERE, 4096, "beyond the end"},
        {descriptor, mapped, 0, 0, "size 0"},
        {descriptor, mapped, ELSEWHERE, -1, "offset -1"},
        {-1, mapped, ELSEWHERE, 0, "fd -1"},
        {9999, mapped, ELSEWHERE, 0, "fd 9999"},
        {descriptor, mapped, LARGE, 0, "larger than the file"},
    };
    for (size_t place = 0; place < sizeof ways / sizeof *ways; place++) {
        rknn_tensor_mem *memory = NULL;
        if (!announce("rknn_create_mem_from_fd, %s", ways[place].name))
            continue;
        memory = rknn_create_mem_from_fd(context, ways[place].descriptor, ways[place].address,
                                         ways[place].size, ways[place].offset);
        answer(memory != NULL);
        note_memory("memory", memory);
        if (!memory)
            continue;
        note("virt_addr is %s, fd %s", memory->virt_addr == ways[place].address ? "kept" : "another",
             memory->fd == ways[place].descriptor ? "kept" : "another");
        CALL(rknn_destroy_mem(context, memory), "rknn_destroy_mem from_fd, %s", ways[place].name);
    }
    note("the descriptor is %s", fcntl(descriptor, F_GETFD) >= 0 ? "open" : "closed");
    *(volatile char *)mapped = 1;
}

static void from_addresses(rknn_tensor_mem *own) {
    const struct {
        uint64_t physical;
        void *address;
        uint32_t size;
        const char *name;
    } ways[] = {
        {own->phys_addr, own->virt_addr, 8192, "an own address"},
        {own->phys_addr, NULL, 8192, "an own address, virt_addr NULL"},
        {own->phys_addr + 4096, NULL, 4096, "inside an own one"},
        {0, NULL, 8192, "phys_addr 0"},
        {0x1000, own->virt_addr, 8192, "phys_addr 0x1000"},
        {UINT64_MAX, own->virt_addr, 8192, "phys_addr -1"},
        {own->phys_addr, own->virt_addr, 0, "size 0"},
    };
    for (size_t place = 0; place < sizeof ways / sizeof *ways; place++) {
        rknn_tensor_mem *memory = NULL;
        if (!announce("rknn_create_mem_from_phys, %s", ways[place].name))
            continue;
        memory = rknn_create_mem_from_phys(context, ways[place].physical, ways[place].address,
                                           ways[place].size);
        answer(memory != NULL);
        note_memory("memory", memory);
        if (memory)
            CALL(rknn_destroy_mem(context, memory), "rknn_destroy_mem from_phys, %s",
                 ways[place].name);
    }
}

void walk_memory(void) {
    context = opened(0);
    create_sizes();
    from_descriptors();
    rknn_tensor_mem *own = rknn_create_mem(context, 8192);
    from_addresses(own);
    rknn_context other = opened(0);
    CALL(rknn_destroy_mem(other, own), "rknn_destroy_mem of another context's");
    rknn_create_mem(context, 100);
    CALL(rknn_destroy(context), "rknn_destroy with memory left");
    CALL(rknn_destroy(other), "rknn_destroy of the other");
}

void walk_foreign_memory(void) {
    uint8_t own[64];
    rknn_tensor_mem memory;
    memset(&memory, 0, sizeof memory);
    context = opened(0);
    CALL(rknn_destroy_mem(context, &memory), "rknn_destroy_mem of a structure of zeros");
    memory.virt_addr = own;
    memory.size = sizeof own;
    memory.fd = -1;
    CALL(rknn_destroy_mem(context, &memory), "rknn_destroy_mem of a structure of ours");
    rknn_tensor_attr first = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    first.pass_through = 0;
    CALL(rknn_set_io_mem(context, &memory, &first), "rknn_set_io_mem, a structure of ours, small");
    memory.size = LARGE;
    memory.virt_addr = cleared(LARGE);
    CALL(rknn_set_io_mem(context, &memory, &first), "rknn_set_io_mem, memory of malloc");
    CALL(rknn_run(context, NULL), "rknn_run");
}

void walk_memory_ends(void) {
    context = opened(0);
    rknn_tensor_mem *memory = rknn_create_mem(context, 8192);
    CALL(rknn_destroy_mem(context, memory), "rknn_destroy_mem");
    CALL(rknn_destroy_mem(context, memory), "rknn_destroy_mem once more");
    rknn_context other = opened(0);
    memory = rknn_create_mem(other, 8192);
    CALL(rknn_destroy(other), "rknn_destroy");
    CALL(rknn_destroy_mem(other, memory), "rknn_destroy_mem after its context");
}
